//go:build !race

package session_test

const slower = 1
