package rocks

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/store"
)

// A scan over more than the cache holds leaves in it what look-ups have put there.
func TestLargeScanLeavesTheCacheAlone(t *testing.T) {
	const rows = 20_000 // of about 100 bytes
	key := func(i int) string { return fmt.Sprintf("%08d", i) }
	for _, test := range []struct {
		name  string
		cache int64
		users int
		span  base.Span
		fills bool
	}{
		{"all, that fit", 8 << 20, 1, base.Span{}, true},
		{"all, that fit, backwards", 8 << 20, 1, base.Span{Reverse: true}, true},
		{"all, that do not", 1 << 20, 1, base.Span{}, false},
		{"all, that do not, backwards", 1 << 20, 1, base.Span{Reverse: true}, false},
		{"all, more than a share", 8 << 20, 8, base.Span{}, false},
		{"a range", 1 << 20, 1, base.Span{From: []byte(key(0))}, true},
		{"an empty bound is one", 1 << 20, 1, base.Span{From: []byte{}}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			noLeaks(t)
			dir, budget := t.TempDir(), store.NewBudget(0, store.BlockCache(test.cache))
			db, err := Open(dir, families, nil, budget)
			require.NoError(t, err)
			batch := db.NewBatch(0)
			for i := range rows {
				batch.Put(db.Family("rows"), []byte(key(i)), make([]byte, 90))
			}
			require.NoError(t, batch.Write())
			batch.Close()
			require.NoError(t, db.Flush())
			db.Close()

			db, err = Open(dir, families, families, budget)
			require.NoError(t, err)
			defer db.Close()
			for range test.users - 1 {
				other, err := Open(t.TempDir(), families, nil, budget)
				require.NoError(t, err)
				defer other.Close()
			}
			cache := db.options.shared.cache
			before := cache.GetUsage()
			scan := db.Scan(db.Family("rows"), test.span)
			n := 0
			for ; scan.Next(); n++ {
			}
			require.NoError(t, scan.Err())
			scan.Close()
			assert.Equal(t, rows, n)
			if test.fills {
				assert.Greater(t, cache.GetUsage(), before+256<<10)
			} else {
				assert.Less(t, cache.GetUsage(), before+64<<10, "a few blocks of bookkeeping")
			}
		})
	}
}
