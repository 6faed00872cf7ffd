//go:build !failpoints

package failpoint

// Enabled tells whether marks do anything.
const Enabled = false

// Set does nothing: see the build tag failpoints.
func Set(func(name string)) {}

// Hit does nothing: see the build tag failpoints.
func Hit(string) {}
