//go:build race

package contract

// raceEnabled tells that the race detector takes memory of its own.
const raceEnabled = true
