package overlay

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/store"
)

// What passes is logged behind the writes of its key and seen nowhere else; its key is no
// longer the caller's.
func TestPass(t *testing.T) {
	modes(t, func(t *testing.T, cache bool) {
		f := newFixture(t, cache, store.NewBudget(1<<20))
		f.write("k", "old")
		f.write("other", "v")
		f.log.fail = store.ErrFailed
		require.ErrorIs(t, f.Pass([]byte("k"), store.Row{Value: []byte("late")}, f.record()), store.ErrFailed)
		f.log.fail = nil
		key := []byte("k")
		require.NoError(t, f.Pass(key, store.Row{Value: []byte("late")}, f.record()))
		key[0] = '?'
		require.Equal(t, "old", f.get("k"))
		f.commit()
		require.Equal(t, "old", f.get("k"))
		c, _ := f.table.Checkpoint()
		offset, _ := c.Position.Offset("in", 0)
		require.Equal(t, f.now-1000, offset, "it counts in the position")
		want := []string{"k=old", "other=v", "k=late"}
		if cache {
			want = []string{"k=old", "k=late", "other=v"}
		}
		require.Equal(t, want, f.log.take())
	})
}
