package kv_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The README's example is the one that runs here.
func TestReadmeExampleIsTheOneThatRuns(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(readme), "```go\n")
	require.True(t, ok)
	code, _, ok := strings.Cut(rest, "```\n")
	require.True(t, ok)
	source, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	require.Contains(t, string(source), code)
}
