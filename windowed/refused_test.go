package windowed_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/store"
	"github.com/forebay-streams/forebay/windowed"
)

// A write that is refused moves no stream time: else the next commit would expire what is
// there. So does a restore that is refused.
func TestRefusedWritesChangeNothing(t *testing.T) {
	for _, options := range [][]windowed.Option{{}, {windowed.InMemory()}, {windowed.Cache(store.NewBudget(1 << 20))}, {windowed.RetainDuplicates()}} {
		s := open(t, taskDir(t), append(options, windowed.Changelog(&log{}))...)
		s.SetRecord(store.Record{Topic: "in", Timestamp: 5})
		require.NoError(t, s.Put("k", 0, store.Value[string]{Data: "v", Timestamp: 1}))
		require.NoError(t, s.Commit(ctx))
		s.SetRecord(store.Record{Topic: "in", Timestamp: store.NoTimestamp})
		require.ErrorIs(t, s.Tombstone("k", 1<<50), store.ErrNegativeTimestamp)
		require.ErrorIs(t, s.Put("k", 1<<50, store.Value[string]{Data: "v", Timestamp: -1}), store.ErrNegativeTimestamp)
		require.Zero(t, s.StreamTime())
		require.NoError(t, s.Commit(ctx))
		count := func() (n int) {
			for _, err := range s.All() {
				require.NoError(t, err)
				n++
			}
			return n
		}
		require.Equal(t, 1, count())

		s.SetRecord(store.Record{Topic: "in", Timestamp: 5})
		require.NoError(t, s.Put("l", 60_000, store.Value[string]{Data: "v", Timestamp: 1}))
		require.Error(t, s.RestoreBatch(nil, 5))
		require.EqualValues(t, 60_000, s.StreamTime())
		require.Equal(t, 2, count())
		require.NoError(t, s.Close())
	}
}
