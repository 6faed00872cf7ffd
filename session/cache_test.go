package session_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/session"
	"github.com/forebay-streams/forebay/store"
)

// A cache never changes an answer: the reads that Kafka's cache gets wrong.
func TestCachedReads(t *testing.T) {
	cached := func(options ...session.Option) *stringStore {
		return open(t, taskDir(t), append(options, session.Cache(store.NewBudget(1<<20)))...)
	}
	backward := func(s *stringStore, key string, end, start int64) []string {
		return collect(t, sequence(s.BackwardFindSessions(key, end, start)))
	}

	s := cached()
	require.NoError(t, s.Put("A", 100, 5000, value("x")))
	require.Equal(t, []string{"A[100,5000]"}, backward(s, "A", 0, 1000), "the end lies behind the latest start")
	require.NoError(t, s.Put("A", 0, 130_000, value("x")))
	require.Equal(t, []string{"A[0,130000]"}, backward(s, "A", 20_000, 50_000))
	require.Equal(t, []string{"A[0,130000]"}, backward(s, "A", -60_000, 50_000))
	require.Len(t, collect(t, sequence(s.FindKeys(0, math.MaxInt64))), 1, "at once, however long ago it is")

	// Cached tombstones above and below the rows of the table.
	s = cached()
	for _, key := range []string{"A", "B", "C"} {
		require.NoError(t, s.Put(key, 0, 10, value("x")))
	}
	require.NoError(t, s.Commit(ctx))
	require.NoError(t, s.Remove("A", 0, 10))
	require.NoError(t, s.Remove("C", 0, 10))
	require.Equal(t, []string{"B[0,10]"}, collect(t, sequence(s.BackwardFetchKeys())))
	require.Equal(t, []string{"B[0,10]"}, collect(t, sequence(s.FetchKeys())))

	// In memory, two starts of one key and end.
	s = cached(session.InMemory())
	require.NoError(t, s.Put("A", 0, 10, value("old")))
	require.NoError(t, s.Put("A", 5, 10, value("old")))
	require.NoError(t, s.Commit(ctx))
	require.NoError(t, s.Put("A", 0, 10, value("new")))
	require.Equal(t, []string{"A[5,10]", "A[0,10]"}, collect(t, sequence(s.Fetch("A"))))
	require.Equal(t, []string{"A[0,10]", "A[5,10]"}, collect(t, sequence(s.BackwardFetch("A"))))

	// What expires is hidden before a flush.
	s = cached()
	require.NoError(t, s.Put("A", 0, 10, value("x")))
	require.NoError(t, s.Put("A", 0, 500_000, value("x")))
	require.Equal(t, []string{"A[0,500000]"}, collect(t, sequence(s.Fetch("A"))))
}

// A late put reaches the changelog behind the writes of its key before it.
func TestLatePutsKeepTheOrderOfTheLog(t *testing.T) {
	for _, format := range []store.Layout{store.Plain, store.WithHeaders} {
		l := &log{}
		s := open(t, taskDir(t), session.Format(format), session.Changelog(l), session.Cache(store.NewBudget(1<<20)))
		s.SetRecord(record(1, 1))
		require.NoError(t, s.Put("A", 0, 10, value("first")))
		require.NoError(t, s.Remove("B", 0, 600_000))
		require.NoError(t, s.Put("A", 0, 10, value("late")))
		require.NoError(t, s.Commit(ctx))
		last := ""
		for _, c := range l.changes {
			if string(c.Key[:1]) == "A" {
				last = string(c.Value)
			}
		}
		require.Equal(t, "late", last)
		require.NoError(t, s.Close())
	}
}
