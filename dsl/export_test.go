package dsl

var (
	ErrNilFunction = errNilFunction
	ErrNilInput    = errNilInput
)
