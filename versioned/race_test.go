//go:build race

package versioned

// The race detector makes everything ten times as slow.
const defaultOps = 10_000
