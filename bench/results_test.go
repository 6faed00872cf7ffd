package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A run of some families leaves what an earlier one measured of the others.
func TestReportKeepsOtherFamilies(t *testing.T) {
	dir := t.TempDir()
	run := func(rounds int, family string, ns int64) (r Report) {
		results := newResults(1000, rounds)
		for range rounds {
			results.add(figure{family, "get", "outgrows"}, "forebay", sample{Ops: 10, Wall: 10 * ns})
			results.add(figure{family, "get", "outgrows"}, "raw", sample{Ops: 10, Wall: 20 * ns})
		}
		require.NoError(t, results.write(dir))
		b, err := os.ReadFile(filepath.Join(dir, "1000.json"))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(b, &r))
		return r
	}
	run(5, "kv", 7)
	r := run(1, "windowed", 8)
	require.Len(t, r.Lines, 2)
	assert.Equal(t, "kv", r.Lines[0].Figure.Family)
	assert.Equal(t, 5, r.Lines[0].Rounds)
	assert.InDelta(t, 7, r.Lines[0].Wall["forebay"].Median, 0.01)
	assert.InDelta(t, 2, r.Lines[0].Ratio["raw"].Median, 0.01)
	assert.Equal(t, 1, r.Lines[1].Rounds)
	md, err := os.ReadFile(filepath.Join(dir, "1000.md"))
	require.NoError(t, err)
	assert.Contains(t, string(md), "rounds: 1 to 5")

	r = run(1, "kv", 9)
	require.Len(t, r.Lines, 2)
	assert.InDelta(t, 9, r.Lines[0].Wall["forebay"].Median, 0.01)
}
