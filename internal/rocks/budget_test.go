package rocks

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/store"
)

func TestOneCacheForABudget(t *testing.T) {
	noLeaks(t)
	budget := store.NewBudget(0, store.BlockCache(1<<20), store.WriteBuffers(4<<20))
	openOne := func(budget *store.Budget) *DB {
		db, err := Open(t.TempDir(), families, nil, budget)
		require.NoError(t, err)
		t.Cleanup(db.Close)
		return db
	}
	first, second, alone := openOne(budget), openOne(budget), openOne(nil)
	assert.Same(t, first.options.shared, second.options.shared)
	assert.NotSame(t, first.options.shared, alone.options.shared)
	assert.Equal(t, 2, sharedBy[budget].users)
	assert.Len(t, sharedBy, 1)
	assert.Equal(t, uint64(1<<20), first.options.shared.cache.GetCapacity())
	assert.Equal(t, uint64(store.DefaultBlockCache), alone.options.shared.cache.GetCapacity())
	assert.Nil(t, alone.options.shared.buffers)

	first.Close()
	assert.Equal(t, 1, sharedBy[budget].users)
	f := second.Family("rows")
	put(t, second, f, [2]string{"k", "v"})
	require.NoError(t, second.Flush())
	assert.Equal(t, `"v"`, get(t, second, f, "k"), "goes on with the cache")
	assert.NotZero(t, second.options.shared.cache.GetUsage())
	again := openOne(budget)
	assert.Same(t, second.options.shared, again.options.shared)
	second.Close()
	again.Close()
	assert.Empty(t, sharedBy)
	third := openOne(budget)
	assert.Equal(t, 1, sharedBy[budget].users, "made anew")
	third.Close()
}

// Memtables reach the disk when all databases together hold too much, long before one
// of them is full.
func TestWriteBufferLimit(t *testing.T) {
	noLeaks(t)
	budget := store.NewBudget(0, store.WriteBuffers(1<<20))
	var dbs []*DB
	for range 2 {
		db, err := Open(t.TempDir(), families, nil, budget)
		require.NoError(t, err)
		t.Cleanup(db.Close)
		dbs = append(dbs, db)
	}
	for i := range 4 << 20 / (16 << 10) { // a quarter of one memtable
		db := dbs[i%2]
		put(t, db, db.Family("rows"), [2]string{fmt.Sprintf("%06d", i), string(make([]byte, 16<<10))})
	}
	written := 0
	for _, db := range dbs {
		written += len(tableFiles(t, db.dir))
	}
	assert.NotZero(t, written, "without a flush")
}

// Rows that lie in files are the same through memory maps, which only a budget asks for.
func TestMapReads(t *testing.T) {
	noLeaks(t)
	for want, budget := range map[string]*store.Budget{
		"false": store.NewBudget(0), "true": store.NewBudget(0, store.MapReads()),
	} {
		dir := t.TempDir()
		db, err := Open(dir, families, nil, budget)
		require.NoError(t, err)
		f := db.Family("rows")
		var rows [][2]string
		for i := range 1000 {
			rows = append(rows, [2]string{fmt.Sprintf("%04d", i), strings.Repeat("v", i)})
		}
		put(t, db, f, rows...)
		require.NoError(t, db.Flush())
		assert.Equal(t, want, stored(t, dir)["DBOptions"]["allow_mmap_reads"])
		assert.Equal(t, rows, all(t, db, f))
		assert.Equal(t, `"vvv"`, get(t, db, f, "0003"))
		db.Close()
	}
}
