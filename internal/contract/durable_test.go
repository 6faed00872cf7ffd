package contract

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/overlay"
	"github.com/forebay-streams/forebay/internal/subject"
	"github.com/forebay-streams/forebay/store"
)

// crashed opens a copy of a directory as it is on disk while its owner has it open, and
// returns offset and rows.
func crashed(t *testing.T, k kind, dir string, keys ...string) (offset int64, known bool, found []string) {
	t.Helper()
	left := taskDir(t)
	require.NoError(t, os.CopyFS(left, os.DirFS(dir)))
	k.config.Log = &log{}
	s, err := k.family.Open(left, "store", k.config)
	require.NoError(t, err)
	defer s.Close()
	offset, known = s.RestoredOffset()
	return offset, known, rows(t, s, keys...)
}

// A quiet store's commit is on disk after a bounded time: else a crash much later would
// find an offset that its changelog may not have any more (KAFKA-20663).
func TestQuietStoresAreFlushed(t *testing.T) {
	families(t, func(t *testing.T, f subject.Family) {
		synctest.Test(t, func(t *testing.T) {
			k := kind{f, subject.Config{Layout: store.WithHeaders, Log: &log{}, ExactlyOnce: true}}
			dir := taskDir(t)
			s := k.open(t, dir)
			commit := func() { require.NoError(t, s.Commit(ctx)) }

			// The first segments are made on disk, so begin behind them.
			require.NoError(t, s.Put(f.At("a", 1), value("1")))
			commit()
			time.Sleep(overlay.MaxFlushAge)
			commit()
			offset, known, found := crashed(t, k, dir, "a")
			require.True(t, known)
			require.EqualValues(t, 0, offset, "a commit without a change flushes too")
			require.Equal(t, []string{"a@" + at(f, 1) + "=1"}, found)

			require.NoError(t, s.Put(f.At("a", 1), value("2")))
			commit()
			time.Sleep(overlay.MaxFlushAge - 1)
			commit()
			offset, _, _ = crashed(t, k, dir)
			require.EqualValues(t, 0, offset, "not before it is time")
			require.NoError(t, s.Put(f.At("a", 1), value("3")))
			time.Sleep(time.Nanosecond)
			commit()
			offset, _, found = crashed(t, k, dir, "a")
			require.EqualValues(t, 2, offset, "the age is that of the oldest commit")
			require.Equal(t, []string{"a@" + at(f, 1) + "=3"}, found)

			// What a restore wrote ages as well.
			require.NoError(t, s.RestoreBatch(nil, 7))
			time.Sleep(overlay.MaxFlushAge)
			require.NoError(t, s.RestoreBatch(nil, 8))
			offset, _, _ = crashed(t, k, dir)
			require.EqualValues(t, 8, offset)
		})
	})
}

func at(f subject.Family, time int64) string {
	if f == subject.KV {
		return "0"
	}
	return string(rune('0' + time))
}
