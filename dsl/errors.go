package dsl

import (
	"errors"
	"fmt"
)

var (
	errOtherBuilder = errors.New("its inputs are of different builders")
	errNilInput     = errors.New("one of its inputs is nil")
	errNilFunction  = errors.New("the function is nil")
	errAfterDefault = errors.New("the default branch takes all that is left: it must be the last")
)

// nilFunction is the error of a function that is not there.
func nilFunction(of string) error { return fmt.Errorf("%s: %w", of, errNilFunction) }

// wrongTypes is the error of an option whose function does not fit the stream.
func wrongTypes[K, V any](option string, function any) error {
	return fmt.Errorf("the function of %s is %T, which does not take a key %T and a value %T", option, function, *new(K), *new(V))
}
