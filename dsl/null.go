package dsl

import "reflect"

// canBeNil tells whether a type has a value for null.
func canBeNil[T any]() bool {
	switch reflect.TypeFor[T]().Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface, reflect.Func, reflect.Chan:
		return true
	}
	return false
}

// box turns a value of a user's type into what travels between nodes: nil is null, and
// never hides in a typed nil.
func box[T any](v T) any {
	if !canBeNil[T]() {
		return v
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Invalid:
		return nil
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Func, reflect.Chan:
		if r.IsNil() {
			return nil
		}
	}
	return v
}

// as is the way back; null is the zero value, which for a type that can be nil is nil.
func as[T any](v any) (t T) {
	if v != nil {
		t = v.(T)
	}
	return t
}

// unseen tells whether a value is a null that a function of type T could not see.
func unseen[T any](v any) bool { return v == nil && !canBeNil[T]() }
