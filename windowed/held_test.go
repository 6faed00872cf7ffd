package windowed_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/store"
	"github.com/forebay-streams/forebay/windowed"
)

// A scan shows the rows of its moment to the end, also when a commit in its loop expires
// their segments; these are deleted when it is over, or when the store is closed.
func TestScanHeldOverAnExpiry(t *testing.T) {
	for _, options := range [][]windowed.Option{{}, {windowed.InMemory()}} {
		dir := taskDir(t)
		s := open(t, dir, options...)
		for i := range 900 {
			require.NoError(t, s.Put("k", int64(i)*100, store.Value[string]{Data: "v", Timestamp: 1}))
		}
		require.NoError(t, s.Commit(ctx))
		segments := func() (n int) {
			entries, err := os.ReadDir(filepath.Join(dir, "store"))
			if os.IsNotExist(err) {
				return 0
			}
			require.NoError(t, err)
			return len(entries)
		}
		before, count := segments(), 0
		for _, err := range s.All() {
			require.NoError(t, err)
			if count++; count == 1 {
				require.NoError(t, s.Put("k", 1<<40, store.Value[string]{Data: "v", Timestamp: 1}))
				require.NoError(t, s.Commit(ctx))
			}
		}
		require.Equal(t, 900, count)
		require.Equal(t, min(before, 1), segments(), "only the new segment is left")
		count = 0
		for _, err := range s.All() {
			require.NoError(t, err)
			count++
		}
		require.Equal(t, 1, count)
		require.NoError(t, s.Close())
	}
}
