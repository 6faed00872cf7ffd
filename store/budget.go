package store

import "sync/atomic"

// DefaultUncommitted is how many bytes of uncommitted rows the stores of an app hold
// before they ask for an early commit, as statestore.uncommitted.max.bytes (KIP-892).
const DefaultUncommitted int64 = 64 << 20

// DefaultBlockCache is the size of a RocksDB block cache that no budget sets: 50 MiB
// for each store, as Kafka Streams has it.
const DefaultBlockCache int64 = 50 << 20

// Budget is the memory that the stores of an app share. It is safe for many goroutines.
type Budget struct {
	cache, uncommitted, blockCache, writeBuffers int64
	mapReads                                     bool

	usedCache, usedUncommitted atomic.Int64
}

// BudgetOption changes a [Budget].
type BudgetOption func(*Budget)

// Uncommitted sets how many bytes of uncommitted rows all stores may hold before
// they ask for an early commit; what the commit will need for them counts too. Default
// [DefaultUncommitted]; 0 or less: no limit.
func Uncommitted(bytes int64) BudgetOption { return func(b *Budget) { b.uncommitted = bytes } }

// BlockCache sets the size of the one RocksDB block cache of all stores, in bytes.
// Default [DefaultBlockCache], for all stores together.
func BlockCache(bytes int64) BudgetOption { return func(b *Budget) { b.blockCache = bytes } }

// WriteBuffers sets how many bytes all RocksDB memtables together may take before some
// are written to disk; they count in the block cache. Default 0: no common limit, each
// family has 16 MiB buffers, three at most.
func WriteBuffers(bytes int64) BudgetOption { return func(b *Budget) { b.writeBuffers = bytes } }

// MapReads has RocksDB read its files through memory maps, which is faster where the block
// cache does not hold the rows (mapped- in docs/bench). It is not the default because of its
// price: the pages of the files count in the process's resident memory (the
// kernel takes them back when it needs them), and a file that cannot be read, by a failing
// disk or since somebody cut it short, ends the process instead of being an error.
func MapReads() BudgetOption { return func(b *Budget) { b.mapReads = true } }

// NewBudget makes a budget with so many bytes for the record caches of all stores
// together (statestore.cache.max.bytes); headers count.
func NewBudget(cache int64, options ...BudgetOption) *Budget {
	b := &Budget{cache: cache, uncommitted: DefaultUncommitted, blockCache: DefaultBlockCache}
	for _, option := range options {
		option(b)
	}
	return b
}

// CacheUsed is the number of bytes that record caches hold now.
func (b *Budget) CacheUsed() int64 { return b.usedCache.Load() }

// UncommittedUsed is the number of bytes that uncommitted rows hold now.
func (b *Budget) UncommittedUsed() int64 { return b.usedUncommitted.Load() }

// BlockCacheSize is what [BlockCache] set, in bytes.
func (b *Budget) BlockCacheSize() int64 { return b.blockCache }

// WriteBufferSize is what [WriteBuffers] set, in bytes.
func (b *Budget) WriteBufferSize() int64 { return b.writeBuffers }

// MapsReads is what [MapReads] set.
func (b *Budget) MapsReads() bool { return b.mapReads }

// AddCache and AddUncommitted are for store implementations: they change what is in use
// and tell whether the limit is exceeded.
func (b *Budget) AddCache(bytes int64) bool { return b.usedCache.Add(bytes) > b.cache }

// AddUncommitted: see AddCache.
func (b *Budget) AddUncommitted(bytes int64) bool {
	return b.usedUncommitted.Add(bytes) > b.uncommitted && b.uncommitted > 0
}
