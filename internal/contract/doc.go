// Package contract tests what the stores of all four families promise alike: durability,
// commits seen by other goroutines, the changelog of a cache, refusals, memory. It has tests
// only; what differs between the families is tested in their own packages.
package contract
