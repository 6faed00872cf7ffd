package kv_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/kv"
	"github.com/forebay-streams/forebay/store"
)

func change(key, value string, ts int64, headers ...string) store.Change {
	c := store.Change{Key: []byte(key), Row: store.Row{Timestamp: ts, Headers: headerList(headers...)}}
	if value != "" {
		c.Value = []byte(value)
	}
	return c
}

func TestRestoredRowsHaveTheRecordsTimestampAndHeaders(t *testing.T) {
	for _, c := range []struct {
		layout  store.Layout
		ts      int64
		headers string
	}{{store.Plain, store.NoTimestamp, "[]"}, {store.Timestamped, 7, "[]"}, {store.WithHeaders, 7, "[h h]"}} {
		for _, memory := range []bool{false, true} {
			options := []kv.Option{kv.Format(c.layout)}
			if memory {
				options = append(options, kv.InMemory())
			}
			s := open(t, taskDir(t), options...)
			_, ok := s.RestoredOffset()
			require.False(t, ok)
			require.NoError(t, s.RestoreBatch([]store.Change{
				change("a", "old", 5), change("b", "1", 5, "x", "y"), change("a", "new", 7, "h", "1", "h", "2"),
				change("b", "", 8, "gone", "1"), change("never stored", "", 8), // AK #7132
			}, 9))
			require.Equal(t, []string{"a=new"}, collect(t, sequence(s.All())))
			v, _, err := s.Get("a")
			require.NoError(t, err)
			require.Equal(t, c.ts, v.Timestamp)
			require.Equal(t, c.headers, names(v.Headers))
			offset, ok := s.RestoredOffset()
			require.True(t, ok)
			require.EqualValues(t, 9, offset)
			require.NoError(t, s.Wipe())
			_, ok = s.RestoredOffset()
			require.False(t, ok)
			require.Empty(t, collect(t, sequence(s.All())))
			require.NoError(t, s.Put("a", value("1", 1)))
			require.NoError(t, s.Commit(ctx))
			require.Equal(t, []string{"a=1"}, collect(t, sequence(s.View(store.ReadCommitted).All())))
			require.NoError(t, s.Close())
		}
	}
}

func TestRestoreGoesOnAfterReopen(t *testing.T) {
	dir := taskDir(t)
	s := open(t, dir, kv.Changelog(&log{}))
	require.NoError(t, s.RestoreBatch([]store.Change{change("a", "1", 1)}, 4))
	require.NoError(t, s.Close())
	s = open(t, dir, kv.Changelog(&log{}))
	offset, ok := s.RestoredOffset()
	require.True(t, ok)
	require.EqualValues(t, 4, offset)
	require.NoError(t, s.Commit(ctx))
	offset, _ = s.RestoredOffset()
	require.EqualValues(t, 4, offset, "a commit that sent nothing keeps the restored offset")
}
