package kv_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/linxGnu/grocksdb"

	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/kv"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

// The benchmarks set forebay beside raw RocksDB through the wrapper, with the same
// options and the same bytes: 16-byte random keys, 100-byte values, two headers.

const (
	benchRows  = 200_000
	benchRound = 10_000    // puts between commits
	benchCache = 256 << 20 // all rows fit
)

var benchHeaders = store.NewHeaders(
	store.Header{Key: "traceparent", Value: []byte("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")},
	store.Header{Key: "tenant", Value: []byte("acme")},
)

func benchKeys(n int) [][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	keys := make([][]byte, n)
	for i := range keys {
		k := make([]byte, 16)
		binary.BigEndian.PutUint64(k, r.Uint64())
		binary.BigEndian.PutUint64(k[8:], r.Uint64())
		keys[i] = k
	}
	return keys
}

func benchValue() []byte {
	r := rand.New(rand.NewPCG(3, 4))
	v := make([]byte, 100)
	for i := range v {
		v[i] = byte(r.Uint32())
	}
	return v
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func openBench(b *testing.B, options ...kv.Option) *kv.Store[[]byte, []byte] {
	return openBenchAt(b, filepath.Join(b.TempDir(), "app", "0_0"), options...)
}

func openBenchAt(b *testing.B, dir string, options ...kv.Option) *kv.Store[[]byte, []byte] {
	options = append(options, kv.Shared(store.NewBudget(0, store.BlockCache(benchCache))))
	s := must(kv.Open(dir, "bench", store.RawBytes(), store.RawBytes(), options...))
	b.Cleanup(func() { check(s.Close()) })
	return s
}

func filledBench(b *testing.B, keys [][]byte, options ...kv.Option) *kv.Store[[]byte, []byte] {
	s := openBench(b, options...)
	fill(s, keys)
	return s
}

func fill(s *kv.Store[[]byte, []byte], keys [][]byte) {
	value := store.Value[[]byte]{Data: benchValue(), Timestamp: 1_700_000_000_000, Headers: benchHeaders}
	for i, k := range keys {
		check(s.Put(k, value))
		if (i+1)%benchRound == 0 {
			check(s.Commit(context.Background()))
		}
	}
	check(s.Commit(context.Background()))
}

// raw is a database opened as forebay opens one.
type raw struct {
	db      *grocksdb.DB
	rows    *grocksdb.ColumnFamilyHandle
	write   *grocksdb.WriteOptions
	read    *grocksdb.ReadOptions
	encoded []byte
}

func openRaw(b *testing.B) *raw { return openRawAt(b, b.TempDir()) }

// openRawAt opens a database of forebay's too: both then read the same files.
func openRawAt(b *testing.B, dir string) *raw {
	table := grocksdb.NewDefaultBlockBasedTableOptions()
	cache := grocksdb.NewHyperClockCache(benchCache, 0)
	table.SetBlockCache(cache)
	table.SetBlockSize(4096)
	table.SetFormatVersion(6)
	table.SetFilterPolicy(grocksdb.NewBloomFilterFull(10))
	o := grocksdb.NewDefaultOptions()
	o.SetCreateIfMissing(true)
	o.SetCreateIfMissingColumnFamilies(true)
	o.IncreaseParallelism(2)
	o.SetAtomicFlush(true)
	o.SetWriteBufferSize(16 << 20)
	o.SetMaxWriteBufferNumber(3)
	o.SetCompactionStyle(grocksdb.UniversalCompactionStyle)
	o.SetCompression(grocksdb.NoCompression)
	o.SetBlockBasedTableFactory(table)
	names := []string{"default", migration.HeadersFamily, rocks.Offsets}
	db, handles, err := grocksdb.OpenDbColumnFamilies(o, dir, names, []*grocksdb.Options{o, o, o})
	check(err)
	r := &raw{db: db, rows: handles[1], write: grocksdb.NewDefaultWriteOptions(), read: grocksdb.NewDefaultReadOptions()}
	r.write.DisableWAL(true)
	r.encoded = must(store.WithHeaders.Encode(store.Row{Value: benchValue(), Timestamp: 1_700_000_000_000, Headers: benchHeaders}))
	b.Cleanup(func() {
		for _, h := range handles {
			h.Destroy()
		}
		r.write.Destroy()
		r.read.Destroy()
		db.Close()
		o.Destroy()
		table.Destroy()
		cache.Destroy()
	})
	return r
}

func (r *raw) fill(keys [][]byte) {
	for len(keys) > 0 {
		n := min(benchRound, len(keys))
		r.batch(keys[:n])
		keys = keys[n:]
	}
}

func (r *raw) batch(keys [][]byte) {
	batch := grocksdb.NewWriteBatch()
	for _, k := range keys {
		batch.PutCF(r.rows, k, r.encoded)
	}
	check(r.db.Write(r.write, batch))
	batch.Destroy()
}

// settled fills a directory through forebay and compacts it, so that reads of both sides
// see the same tree, with nothing pending.
func settled(b *testing.B, keys [][]byte) (dir string) {
	dir = filepath.Join(b.TempDir(), "app", "0_0")
	s := must(kv.Open(dir, "bench", store.RawBytes(), store.RawBytes()))
	fill(s, keys)
	check(s.Close())
	b.Run("compact", func(b *testing.B) { // its clean-up closes the database
		r := openRawAt(b, filepath.Join(dir, "rocksdb", "bench"))
		r.db.CompactRangeCF(r.rows, grocksdb.Range{})
		b.SkipNow()
	})
	return dir
}

func BenchmarkPut(b *testing.B) {
	keys := benchKeys(benchRows)
	b.Run("forebay", func(b *testing.B) {
		s := openBench(b)
		value := store.Value[[]byte]{Data: benchValue(), Timestamp: 1_700_000_000_000, Headers: benchHeaders}
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			check(s.Put(keys[i%len(keys)], value))
			if i++; i%benchRound == 0 {
				check(s.Commit(context.Background()))
			}
		}
	})
	b.Run("raw", func(b *testing.B) {
		r := openRaw(b)
		b.ReportAllocs()
		i := 0
		batch := grocksdb.NewWriteBatch()
		for b.Loop() {
			batch.PutCF(r.rows, keys[i%len(keys)], r.encoded)
			if i++; i%benchRound == 0 {
				check(r.db.Write(r.write, batch))
				batch.Clear()
			}
		}
		batch.Destroy()
	})
}

func BenchmarkGet(b *testing.B) {
	keys := benchKeys(benchRows)
	dir := settled(b, keys)
	b.Run("forebay", func(b *testing.B) {
		s := openBenchAt(b, dir)
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			if _, ok, err := s.Get(keys[i*7919%len(keys)]); !ok || err != nil {
				b.Fatal(err)
			}
			i++
		}
	})
	b.Run("raw", func(b *testing.B) {
		r := openRawAt(b, filepath.Join(dir, "rocksdb", "bench"))
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			v := must(r.db.GetCF(r.read, r.rows, keys[i*7919%len(keys)]))
			if !v.Exists() {
				b.Fatal("missing")
			}
			v.Free()
			i++
		}
	})
}

func BenchmarkGetAbsent(b *testing.B) {
	keys := benchKeys(2 * benchRows)
	keys, absent := keys[:benchRows], keys[benchRows:]
	b.Run("forebay", func(b *testing.B) {
		s := filledBench(b, keys)
		i := 0
		for b.Loop() {
			if _, ok, err := s.Get(absent[i%len(absent)]); ok || err != nil {
				b.Fatal(err)
			}
			i++
		}
	})
	b.Run("raw", func(b *testing.B) {
		r := openRaw(b)
		r.fill(keys)
		i := 0
		for b.Loop() {
			v := must(r.db.GetCF(r.read, r.rows, absent[i%len(absent)]))
			if v.Exists() {
				b.Fatal("present")
			}
			v.Free()
			i++
		}
	})
}

// BenchmarkScan counts one row as one operation, over rows that fit the processor's cache
// and over ten times as many.
func BenchmarkScan(b *testing.B) {
	for _, rows := range []int{benchRows / 10, benchRows} {
		b.Run(fmt.Sprint("rows=", rows), func(b *testing.B) { benchScan(b, rows) })
	}
}

func benchScan(b *testing.B, rows int) {
	keys := benchKeys(rows)
	dir := settled(b, keys)
	b.Run("forebay", func(b *testing.B) {
		s := openBenchAt(b, dir)
		b.ReportAllocs()
		b.ResetTimer()
		for n := 0; n < b.N; {
			for _, err := range s.All() {
				check(err)
				if n++; n == b.N {
					break
				}
			}
		}
	})
	b.Run("crossing-per-call", func(b *testing.B) {
		r := openRawAt(b, filepath.Join(dir, "rocksdb", "bench"))
		b.ReportAllocs()
		b.ResetTimer()
		for n := 0; n < b.N; {
			it := r.db.NewIteratorCF(r.read, r.rows)
			for it.SeekToFirst(); it.Valid() && n < b.N; it.Next() {
				k, v := it.Key(), it.Value()
				if _, err := store.WithHeaders.Decode(v.Data()); err != nil {
					b.Fatal(err)
				}
				k.Free()
				v.Free()
				n++
			}
			check(it.Err())
			it.Close()
		}
	})
}

// BenchmarkRestore counts one changelog record as one operation; batches hold 10,000.
func BenchmarkRestore(b *testing.B) {
	keys := benchKeys(benchRows)
	b.Run("forebay", func(b *testing.B) {
		s := openBench(b)
		row := store.Row{Value: benchValue(), Timestamp: 1_700_000_000_000, Headers: benchHeaders}
		changes := make([]store.Change, 0, benchRound)
		b.ResetTimer()
		for i := range b.N {
			changes = append(changes, store.Change{Key: keys[i%len(keys)], Row: row})
			if len(changes) == benchRound || i == b.N-1 {
				check(s.RestoreBatch(changes, int64(i)))
				changes = changes[:0]
			}
		}
	})
	b.Run("raw", func(b *testing.B) {
		r := openRaw(b)
		b.ResetTimer()
		for done := 0; done < b.N; done += benchRound {
			at := done % len(keys)
			r.batch(keys[at : at+min(benchRound, b.N-done)])
		}
	})
}
