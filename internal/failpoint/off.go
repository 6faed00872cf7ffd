//go:build !failpoints

package failpoint

// Enabled tells whether marks do anything.
const Enabled = false

// Set does nothing: see the build tag failpoints.
func Set(func(name string)) {}

// Small changes nothing: see the build tag failpoints.
func Small(bytes int) int { return bytes }

// Hit does nothing: see the build tag failpoints.
func Hit(string) {}
