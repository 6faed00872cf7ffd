package kv_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/kv"
	"github.com/forebay-streams/forebay/store"
)

// keeping is a changelog that keeps what it is given.
type keeping []store.Change

func (*keeping) Topic() string    { return "app-s-changelog" }
func (*keeping) Partition() int32 { return 0 }

func (l *keeping) Append(c store.Change) error {
	*l = append(*l, c)
	return nil
}

func (l *keeping) Flush(context.Context) (int64, bool, error) {
	return int64(len(*l)) - 1, len(*l) > 0, nil
}

func TestLogHeaders(t *testing.T) {
	for _, layout := range []store.Layout{store.Plain, store.Timestamped, store.WithHeaders} {
		for _, memory := range []bool{true, false} {
			log := &keeping{}
			options := []kv.Option{kv.Format(layout), kv.Changelog(log), kv.LogHeaders()}
			if memory {
				options = append(options, kv.InMemory())
			}
			s, err := kv.Open(t.TempDir(), "s", store.String(), store.String(), options...)
			require.NoError(t, err)
			row, record := store.NewHeaders(store.Header{Key: "row"}), store.NewHeaders(store.Header{Key: "record"})
			s.SetRecord(store.Record{Timestamp: 7, Headers: record})
			require.NoError(t, s.Put("k", store.Value[string]{Data: "v", Timestamp: 5, Headers: row}))
			require.NoError(t, s.Tombstone("gone"))
			for range 2 {
				v, ok, err := s.Get("k")
				require.NoError(t, err)
				require.True(t, ok)
				assert.Equal(t, layout.HasHeaders(), row.Equal(v.Headers), "%v: as after the commit, so before", layout)
				require.NoError(t, s.Commit(t.Context()))
			}
			require.Len(t, *log, 2)
			assert.True(t, row.Equal((*log)[0].Headers))
			assert.True(t, record.Equal((*log)[1].Headers), "a tombstone has the record's")
			require.NoError(t, s.Close())
		}
	}
	_, err := kv.Open("", "s", store.String(), store.String(), kv.InMemory(), kv.LogHeaders(), kv.Cache(store.NewBudget(1)))
	require.ErrorIs(t, err, store.ErrConfig)
}
