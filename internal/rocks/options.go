package rocks

import (
	"runtime"
	"sync"

	"github.com/linxGnu/grocksdb"

	"github.com/forebay-streams/forebay/store"
)

// Sizes as Kafka Streams has them.
const (
	dataWriteBuffer    = 16 << 20
	maxWriteBuffers    = 3
	offsetsWriteBuffer = 1 << 20
	blockSize          = 4096
	bloomBits          = 10
)

// tableFormat is pinned: release 11 would write 7, which the 10.1 of Kafka Streams
// refuses to open.
const tableFormat = 6

// shared is the cache and the write-buffer manager of one budget, freed with its last
// database.
type shared struct {
	users   int
	bytes   int64 // of the cache
	cache   *grocksdb.Cache
	buffers *grocksdb.WriteBufferManager
}

// share is what the cache has for each of its databases, in bytes.
func (s *shared) share() uint64 {
	sharedMu.Lock()
	defer sharedMu.Unlock()
	return uint64(s.bytes) / uint64(s.users)
}

var (
	sharedMu sync.Mutex
	sharedBy = map[*store.Budget]*shared{}
)

// newCache makes a clock cache, unlike Kafka Streams: a scan looks up a block every dozen
// rows, and the lists of an LRU cache are a tenth of its time.
func newCache(bytes int64) *grocksdb.Cache { return grocksdb.NewHyperClockCache(int(bytes), 0) }

// acquireShared returns the budget's cache, or one of its own for a nil budget.
func acquireShared(budget *store.Budget) *shared {
	if budget == nil {
		return &shared{users: 1, bytes: store.DefaultBlockCache, cache: newCache(store.DefaultBlockCache)}
	}
	sharedMu.Lock()
	defer sharedMu.Unlock()
	s := sharedBy[budget]
	if s == nil {
		s = &shared{bytes: budget.BlockCacheSize(), cache: newCache(budget.BlockCacheSize())}
		if n := budget.WriteBufferSize(); n > 0 {
			s.buffers = grocksdb.NewWriteBufferManagerWithCache(int(n), s.cache, false)
		}
		sharedBy[budget] = s
	}
	s.users++
	return s
}

func (s *shared) release(budget *store.Budget) {
	sharedMu.Lock()
	defer sharedMu.Unlock()
	if s.users--; s.users > 0 {
		return
	}
	delete(sharedBy, budget)
	if s.buffers != nil {
		s.buffers.Destroy()
	}
	s.cache.Destroy()
}

// options owns every C object that a database is opened with.
type options struct {
	budget       *store.Budget
	shared       *shared
	db           *grocksdb.Options // of the database and its data families
	offsets      *grocksdb.Options
	dataTable    *grocksdb.BlockBasedTableOptions
	offsetsTable *grocksdb.BlockBasedTableOptions
	read         *grocksdb.ReadOptions
	write        *grocksdb.WriteOptions // fails where it would have to wait
	slowWrite    *grocksdb.WriteOptions // waits
	flush        *grocksdb.FlushOptions
}

func newOptions(budget *store.Budget) *options {
	o := &options{
		budget:       budget,
		shared:       acquireShared(budget),
		db:           grocksdb.NewDefaultOptions(),
		offsets:      grocksdb.NewDefaultOptions(),
		dataTable:    grocksdb.NewDefaultBlockBasedTableOptions(),
		offsetsTable: grocksdb.NewDefaultBlockBasedTableOptions(),
		read:         grocksdb.NewDefaultReadOptions(),
		write:        grocksdb.NewDefaultWriteOptions(),
		slowWrite:    grocksdb.NewDefaultWriteOptions(),
		flush:        grocksdb.NewDefaultFlushOptions(),
	}
	o.dataTable.SetBlockSize(blockSize)
	o.dataTable.SetBlockCache(o.shared.cache)
	o.dataTable.SetFilterPolicy(grocksdb.NewBloomFilterFull(bloomBits)) // the table options own it
	o.dataTable.SetFormatVersion(tableFormat)
	o.offsetsTable.SetBlockCache(o.shared.cache)
	o.offsetsTable.SetFormatVersion(tableFormat)

	o.db.SetCreateIfMissing(true)
	o.db.SetErrorIfExists(false)
	o.db.SetInfoLogLevel(grocksdb.ErrorInfoLogLevel)
	o.db.IncreaseParallelism(max(runtime.NumCPU(), 2))
	// Offsets and rows must reach the disk together. Not stored in the database, so set
	// at every open.
	o.db.SetAtomicFlush(true)
	o.db.SetWriteBufferSize(dataWriteBuffer)
	o.db.SetMaxWriteBufferNumber(maxWriteBuffers)
	o.db.SetAllowMmapReads(budget != nil && budget.MapsReads())
	o.db.SetCompactionStyle(grocksdb.UniversalCompactionStyle)
	o.db.SetBlockBasedTableFactory(o.dataTable)
	// Unlike Kafka Streams, so that the last level has filters too: absent keys are cheap,
	// and an upgrade asks two families. The file format has no part in it.
	o.db.SetOptimizeFiltersForHits(false)
	o.offsets.SetWriteBufferSize(offsetsWriteBuffer)
	o.offsets.SetBlockBasedTableFactory(o.offsetsTable)
	for _, x := range []*grocksdb.Options{o.db, o.offsets} {
		x.SetCompression(grocksdb.NoCompression) // the C binding's default is Snappy
	}
	if o.shared.buffers != nil {
		o.db.SetWriteBufferManager(o.shared.buffers)
	}
	o.write.DisableWAL(true)
	o.write.SetNoSlowdown(true)
	o.slowWrite.DisableWAL(true)
	return o
}

// destroy frees all, after the database that was opened with them.
func (o *options) destroy() {
	o.flush.Destroy()
	o.slowWrite.Destroy()
	o.write.Destroy()
	o.read.Destroy()
	o.offsets.Destroy()
	o.db.Destroy()
	o.offsetsTable.Destroy()
	o.dataTable.Destroy()
	o.shared.release(o.budget)
}
