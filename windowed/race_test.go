//go:build race

package windowed_test

// slower divides the operations of a combination: the race detector is slow.
const slower = 20
