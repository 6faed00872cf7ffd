package dsl

import (
	"errors"
	"fmt"
)

var (
	errOtherBuilder = errors.New("its inputs are of different builders")
	errAfterDefault = errors.New("the default branch takes all that is left: it must be the last")
)

// wrongTypes is the error of an option whose function does not fit the stream.
func wrongTypes[K, V any](option string, function any) error {
	return fmt.Errorf("the function of %s is %T, which does not take a key %T and a value %T", option, function, *new(K), *new(V))
}
