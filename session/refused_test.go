package session_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/session"
	"github.com/forebay-streams/forebay/store"
)

// A write that is refused moves no stream time: else the next commit would expire what is
// there. So does a restore that is refused.
func TestRefusedWritesChangeNothing(t *testing.T) {
	for _, options := range [][]session.Option{{}, {session.InMemory()}, {session.Cache(store.NewBudget(1 << 20))}} {
		s := open(t, taskDir(t), append(options, session.Changelog(&log{}))...)
		s.SetRecord(record(0, 5))
		require.NoError(t, s.Put("k", 0, 10, value("v")))
		require.NoError(t, s.Commit(ctx))
		s.SetRecord(record(1, store.NoTimestamp))
		require.ErrorIs(t, s.Remove("k", 1<<50, 1<<50), store.ErrNegativeTimestamp)
		require.ErrorIs(t, s.Put("k", 1<<50, 1<<50, value("v")), store.ErrNegativeTimestamp)
		require.EqualValues(t, 10, s.StreamTime())
		require.NoError(t, s.Commit(ctx))
		require.Equal(t, []string{"k[0,10]"}, collect(t, sequence(s.Fetch("k"))))

		s.SetRecord(record(2, 5))
		require.NoError(t, s.Put("k", 50_000, 60_000, value("v")))
		require.Error(t, s.RestoreBatch(nil, 5))
		require.EqualValues(t, 60_000, s.StreamTime())
		require.Len(t, collect(t, sequence(s.Fetch("k"))), 2)
		require.NoError(t, s.Close())
	}
}
