//go:build !failpoints

package failpoint

// Hit does nothing: see the build tag failpoints.
func Hit(string) {}
