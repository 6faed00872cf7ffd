package contract

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/store"
)

// What a store keeps or logs is its own: a caller may use the buffers again that a header's
// value lay in, as a consumer does with those of a fetch.
func TestHeadersAreOwned(t *testing.T) {
	kinds(t, func(t *testing.T, k kind) {
		if k.config.Layout != store.WithHeaders {
			return
		}
		l := &log{}
		k.config.Log = l
		s := k.open(t, taskDir(t))
		buffer := []byte("1")
		headers := store.NewHeaders(store.Header{Key: "h", Value: buffer})
		s.SetRecord(store.Record{Topic: "in", Timestamp: 1, Headers: headers})
		put := value("1")
		put.Headers = headers
		a, b := k.family.At("a", 1), k.family.At("b", 1)
		require.NoError(t, s.Put(a, put))
		require.NoError(t, s.Delete(b))
		buffer[0] = '!'
		require.NoError(t, s.Flush(ctx))
		require.Len(t, l.changes, 2)
		for _, c := range l.changes {
			h, ok := c.Headers.Last("h")
			require.True(t, ok)
			require.Equal(t, "1", string(h.Value), c.Tombstone())
		}
		v, ok, err := s.Get(a)
		require.NoError(t, err)
		require.True(t, ok)
		h, _ := v.Headers.Last("h")
		require.Equal(t, "1", string(h.Value))
	})
}
