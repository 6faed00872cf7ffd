package windowed_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/store"
	"github.com/forebay-streams/forebay/windowed"
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

// The windows of a join: duplicates, no headers in the rows, but in the changelog.
func TestLogHeaders(t *testing.T) {
	for _, memory := range []bool{true, false} {
		log := &keeping{}
		options := []windowed.Option{windowed.Format(store.Plain), windowed.RetainDuplicates(), windowed.LogHeaders(),
			windowed.Changelog(log), windowed.Size(time.Second), windowed.Retention(time.Second)}
		if memory {
			options = append(options, windowed.InMemory())
		}
		s, err := windowed.Open(t.TempDir(), "s", store.String(), store.String(), options...)
		require.NoError(t, err)
		h := store.NewHeaders(store.Header{Key: "h"})
		s.SetRecord(store.Record{Timestamp: 1000, Headers: h})
		require.NoError(t, s.Put("k", 1000, store.Value[string]{Data: "v", Headers: h}))
		for range 2 {
			rows := 0
			for row, err := range s.FetchRange("k", 0, 5000) {
				require.NoError(t, err)
				assert.True(t, row.Headers.Empty())
				rows++
			}
			assert.Equal(t, 1, rows)
			require.NoError(t, s.Commit(t.Context()))
		}
		require.Len(t, *log, 1)
		assert.True(t, h.Equal((*log)[0].Headers))
		assert.EqualValues(t, 1000, (*log)[0].Timestamp)
		require.NoError(t, s.Close())
	}
}
