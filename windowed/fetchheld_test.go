package windowed_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/store"
	"github.com/forebay-streams/forebay/windowed"
)

// Rows that have expired show as long as their segment is there.
func TestFetchHeld(t *testing.T) {
	s, err := windowed.Open(t.TempDir(), "s", store.String(), store.String(), windowed.RetainDuplicates(),
		windowed.Size(time.Second), windowed.Retention(2*time.Second), windowed.SegmentInterval(10*time.Second))
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	put := func(at int64, v string) {
		require.NoError(t, s.Put("k", at, store.Value[string]{Data: v, Timestamp: at}))
	}
	starts := func(fetch func(string, int64, int64) func(func(windowed.Row[string, string], error) bool)) (out []string) {
		for row, err := range fetch("k", 0, 100_000) {
			require.NoError(t, err)
			out = append(out, row.Data)
		}
		return out
	}
	held := func(k string, from, to int64) func(func(windowed.Row[string, string], error) bool) {
		return s.FetchHeld(k, from, to)
	}
	shown := func(k string, from, to int64) func(func(windowed.Row[string, string], error) bool) {
		return s.FetchRange(k, from, to)
	}
	put(1000, "a")
	put(1000, "b")
	put(9000, "c")
	assert.Equal(t, []string{"c"}, starts(shown))
	assert.Equal(t, []string{"a", "b", "c"}, starts(held))
	require.NoError(t, s.Commit(t.Context()))
	put(11_000, "d")
	assert.Equal(t, []string{"a", "b", "c", "d"}, starts(held), "stream time less retention lies in the first segment")
	put(12_000, "e")
	assert.Equal(t, []string{"d", "e"}, starts(held), "the first segment is gone")
}
