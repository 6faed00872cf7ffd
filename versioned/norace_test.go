//go:build !race

package versioned

const defaultOps = 100_000
