package dsl

import "errors"

var (
	errOtherBuilder = errors.New("its inputs are of different builders")
	errAfterDefault = errors.New("the default branch takes all that is left: it must be the last")
)
