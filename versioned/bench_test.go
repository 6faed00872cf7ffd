package versioned

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/store"
)

// The benchmarks have 16-byte keys, 100-byte values and two headers. All versions of a key
// but the latest end in one segment, the worst case: its row holds them all.

const (
	benchRound = 10_000 // puts between commits
	benchDay   = int64(24 * time.Hour / time.Millisecond)
)

var benchHeaders = store.NewHeaders(
	store.Header{Key: "traceparent", Value: []byte("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")},
	store.Header{Key: "tenant", Value: []byte("acme")},
)

type benchStore = Store[[]byte, []byte]

func openBench(b *testing.B, options ...Option) *benchStore {
	options = append([]Option{History(24 * time.Hour), SegmentInterval(24 * time.Hour)}, options...)
	s, err := Open(taskDir(b), "store", store.Bytes(), store.Bytes(), options...)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, s.Close()) })
	return s
}

func benchValue(ts int64) store.Value[[]byte] {
	return store.Value[[]byte]{Data: make([]byte, 100), Timestamp: ts, Headers: benchHeaders}
}

func benchKeys(n int) [][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "%016x", r.Uint64())
	}
	return keys
}

// fillBench gives each key so many versions, 10 ms apart, the oldest first.
func fillBench(b *testing.B, s *benchStore, keys [][]byte, versions int) {
	for i := range versions {
		for _, k := range keys {
			_, err := s.Put(k, benchValue(benchDay+int64(i)*10))
			require.NoError(b, err)
		}
		if (i+1)*len(keys)%benchRound < len(keys) {
			require.NoError(b, s.Commit(ctx))
		}
	}
	require.NoError(b, s.Commit(ctx))
}

var benchVersions = []int{1, 10, 100, 1000}

// eachBench has 20,000 versions in all, of few keys or many.
func eachBench(b *testing.B, bench func(b *testing.B, s *benchStore, keys [][]byte, versions int)) {
	for _, versions := range benchVersions {
		b.Run(fmt.Sprintf("versions=%d", versions), func(b *testing.B) {
			s := openBench(b)
			keys := benchKeys(20_000 / versions)
			fillBench(b, s, keys, versions)
			b.ReportAllocs()
			b.ResetTimer()
			bench(b, s, keys, versions)
		})
	}
}

func BenchmarkGetLatest(b *testing.B) {
	eachBench(b, func(b *testing.B, s *benchStore, keys [][]byte, versions int) {
		for i := range b.N {
			_, ok, err := s.Get(keys[i%len(keys)])
			if !ok || err != nil {
				b.Fatal(ok, err)
			}
		}
	})
}

// BenchmarkGetAsOf reads any version, and of it the value only or the headers too.
func BenchmarkGetAsOf(b *testing.B) {
	for _, headers := range []bool{false, true} {
		b.Run(map[bool]string{false: "value", true: "value+headers"}[headers], func(b *testing.B) {
			eachBench(b, func(b *testing.B, s *benchStore, keys [][]byte, versions int) {
				r := rand.New(rand.NewPCG(5, 6))
				for i := range b.N {
					v, ok, err := s.GetAsOf(keys[i%len(keys)], benchDay+r.Int64N(int64(versions))*10)
					if !ok || err != nil {
						b.Fatal(ok, err)
					}
					if headers {
						n := 0
						for h := range v.Headers.All() {
							n += len(h.Value)
						}
						if n == 0 {
							b.Fatal("no headers")
						}
					}
				}
			})
		})
	}
}

func BenchmarkViewGetAsOf(b *testing.B) {
	eachBench(b, func(b *testing.B, s *benchStore, keys [][]byte, versions int) {
		view := s.View(store.ReadCommitted)
		r := rand.New(rand.NewPCG(5, 6))
		for i := range b.N {
			if _, ok, err := view.GetAsOf(keys[i%len(keys)], benchDay+r.Int64N(int64(versions))*10); !ok || err != nil {
				b.Fatal(ok, err)
			}
		}
	})
}

func BenchmarkHistory(b *testing.B) {
	eachBench(b, func(b *testing.B, s *benchStore, keys [][]byte, versions int) {
		for i := range b.N {
			n := 0
			for _, err := range s.History(keys[i%len(keys)], 0, math.MaxInt64, Ascending) {
				if err != nil {
					b.Fatal(err)
				}
				n++
			}
			if n != versions {
				b.Fatal(n)
			}
		}
	})
}

// BenchmarkPutInOrder and BenchmarkPutOutOfOrder put into rows that hold so many versions
// already; aborts keep them at that size, outside the measured time.
func BenchmarkPutInOrder(b *testing.B) {
	benchPut(b, func(i int64, versions int) int64 { return benchDay + int64(versions)*10 + i })
}

func BenchmarkPutOutOfOrder(b *testing.B) {
	benchPut(b, func(i int64, versions int) int64 { return benchDay + i*7919%(int64(versions)*10) })
}

func benchPut(b *testing.B, at func(i int64, versions int) int64) {
	eachBench(b, func(b *testing.B, s *benchStore, keys [][]byte, versions int) {
		round := len(keys) // a put a key
		for i := range b.N {
			if i%round == 0 && i > 0 {
				b.StopTimer()
				s.Abort()
				b.StartTimer()
			}
			if _, err := s.Put(keys[i%round], benchValue(at(int64(i), versions))); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkPutCommit includes what the commits cost: many keys, one version after the other.
func BenchmarkPutCommit(b *testing.B) {
	for _, format := range []store.Layout{store.Plain, store.WithHeaders} {
		b.Run(format.String(), func(b *testing.B) {
			s, keys := openBench(b, Format(format)), benchKeys(20_000)
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				if _, err := s.Put(keys[i%len(keys)], benchValue(benchDay+int64(i))); err != nil {
					b.Fatal(err)
				}
				if i%benchRound == benchRound-1 {
					if err := s.Commit(ctx); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
