package kv_test

import (
	"bytes"
	"context"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/linxGnu/grocksdb"

	"github.com/forebay-streams/forebay/kv"
	"github.com/forebay-streams/forebay/store"
)

// The overlay beside what it costs at least. Both sides take turns in every iteration, so
// that the ratio (metric "x") is of one run.

// turns measures two sides, each doing n operations a turn, and reports the time of an
// operation of each and how many times as long the first takes.
func turns(b *testing.B, n int, ours, theirs func()) {
	var mine, other time.Duration
	for b.Loop() {
		start := time.Now()
		ours()
		middle := time.Now()
		theirs()
		mine, other = mine+middle.Sub(start), other+time.Since(middle)
	}
	count := float64(b.N * n)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(mine)/count, "ns/forebay")
	b.ReportMetric(float64(other)/count, "ns/bare")
	b.ReportMetric(float64(mine)/float64(other), "x")
}

// An overwrite of a cached row, beside one of a map's row, the value copied by both and
// headers, where there are any, as a block.
func BenchmarkCachedOverwrite(b *testing.B) {
	const rows = 10_000
	keys := benchKeys(rows)
	for name, headers := range map[string]store.Headers{"plain": {}, "headers": benchHeaders} {
		b.Run(name, func(b *testing.B) {
			s := must(kv.Open("", "bench", store.RawBytes(), store.Bytes(), kv.InMemory(), kv.Cache(store.NewBudget(1<<30, store.Uncommitted(0)))))
			b.Cleanup(func() { check(s.Close()) })
			value := store.Value[[]byte]{Data: benchValue(), Timestamp: 1_700_000_000_000, Headers: headers}
			type row struct{ value, block []byte }
			m := map[string]row{}
			names := make([]string, rows)
			for i, k := range keys {
				names[i] = string(k)
			}
			ours := func() {
				for _, k := range keys {
					check(s.Put(k, value))
				}
			}
			theirs := func() {
				for _, k := range names {
					r := row{value: bytes.Clone(value.Data)}
					if !headers.Empty() {
						r.block = must(headers.AppendBlock(nil))
					}
					m[k] = r
				}
			}
			ours()
			theirs()
			turns(b, rows, ours, theirs)
		})
	}
}

// cpu is the processor time of the calling thread: unlike the time that passes it has no part
// in what RocksDB's own threads do meanwhile, such as flushing what the other side wrote.
func cpu() time.Duration {
	var u syscall.Rusage
	check(syscall.Getrusage(1 /* RUSAGE_THREAD */, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A commit of 100,000 staged rows, beside a batch of the same rows that come sorted and
// encoded.
func BenchmarkCommitStaged(b *testing.B) {
	const rows = 100_000
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	keys := benchKeys(rows)
	s, r := openBench(b), openRaw(b)
	value := store.Value[[]byte]{Data: benchValue(), Timestamp: 1_700_000_000_000, Headers: benchHeaders}
	// Each row has bytes of its own on both sides, as they came.
	type row struct{ key, encoded []byte }
	values, sorted := make([][]byte, rows), make([]row, rows)
	for i, k := range keys {
		values[i] = bytes.Clone(value.Data)
		sorted[i] = row{bytes.Clone(k), bytes.Clone(r.encoded)}
	}
	slices.SortFunc(sorted, func(a, b row) int { return bytes.Compare(a.key, b.key) })
	var mine, other, mineCPU, otherCPU time.Duration
	for b.Loop() {
		for i, k := range keys {
			value.Data = values[i]
			check(s.Put(k, value))
		}
		start, used := time.Now(), cpu()
		check(s.Commit(context.Background()))
		mine, mineCPU = mine+time.Since(start), mineCPU+cpu()-used

		start, used = time.Now(), cpu()
		batch := grocksdb.NewWriteBatch()
		for i := range sorted {
			batch.PutCF(r.rows, sorted[i].key, sorted[i].encoded)
		}
		check(r.db.Write(r.write, batch))
		batch.Destroy()
		other, otherCPU = other+time.Since(start), otherCPU+cpu()-used
	}
	count := float64(b.N * rows)
	b.ReportMetric(float64(mine)/count, "ns/forebay")
	b.ReportMetric(float64(other)/count, "ns/bare")
	b.ReportMetric(float64(mine)/float64(other), "x")
	b.ReportMetric(float64(mineCPU)/float64(otherCPU), "x-cpu")
}

// A cached get of a present key allocates what decoding needs: nothing for raw bytes.
func BenchmarkCachedGet(b *testing.B) {
	keys := benchKeys(10_000)
	s := must(kv.Open("", "bench", store.RawBytes(), store.RawBytes(), kv.InMemory(), kv.Cache(store.NewBudget(1<<30))))
	b.Cleanup(func() { check(s.Close()) })
	fill(s, keys)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, ok, err := s.Get(keys[i*7919%len(keys)]); !ok || err != nil {
			b.Fatal(err)
		}
		i++
	}
}
