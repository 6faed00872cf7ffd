//go:build failpoints

// Package failpoint marks the places at which crash tests end the process. Without the
// build tag failpoints a mark is an empty function that the compiler removes.
package failpoint

import "sync/atomic"

// Enabled tells whether marks do anything.
const Enabled = true

var hook atomic.Pointer[func(name string)]

// Set installs what happens at a mark; nil: nothing.
func Set(f func(name string)) {
	if f == nil {
		hook.Store(nil)
		return
	}
	hook.Store(&f)
}

// Small makes a size so small that what is done for each of so many bytes happens in a test.
func Small(bytes int) int { return bytes >> 9 }

// Hit is a mark.
func Hit(name string) {
	if f := hook.Load(); f != nil {
		(*f)(name)
	}
}
