//go:build !race

package windowed_test

const slower = 1
