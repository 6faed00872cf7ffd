package windowed_test

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/store"
	"github.com/forebay-streams/forebay/windowed"
)

// The rows are those of kv's benchmarks: 16-byte random keys, 100-byte values, two
// headers. Windows are a minute long and kept for an hour, in two to three segments.

const (
	benchKeys  = 2_000
	benchRound = 10_000 // puts between commits
	benchHour  = int64(time.Hour / time.Millisecond)
)

var benchHeaders = store.NewHeaders(
	store.Header{Key: "traceparent", Value: []byte("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")},
	store.Header{Key: "tenant", Value: []byte("acme")},
)

func benchKey(i int) []byte {
	r := rand.New(rand.NewPCG(1, uint64(i%benchKeys)))
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, r.Uint64()), r.Uint64())
}

func eachKind(b *testing.B, run func(b *testing.B, s *windowed.Store[[]byte, []byte])) {
	for _, kind := range []struct {
		name    string
		options []windowed.Option
	}{
		{"disk", nil}, {"memory", []windowed.Option{windowed.InMemory()}},
		{"index", []windowed.Option{windowed.TimeOrdered(true)}},
	} {
		b.Run(kind.name, func(b *testing.B) {
			s, err := windowed.Open(taskDir(b), "bench", store.RawBytes(), store.RawBytes(),
				append(kind.options, windowed.Size(time.Minute), windowed.Retention(time.Hour))...)
			require.NoError(b, err)
			defer s.Close()
			b.ReportAllocs()
			run(b, s)
		})
	}
}

func benchPut(b *testing.B, s *windowed.Store[[]byte, []byte], keys [][]byte, i int) {
	v := store.Value[[]byte]{Data: make([]byte, 100), Timestamp: int64(i), Headers: benchHeaders}
	// A window of each key each minute.
	if err := s.Put(keys[i%benchKeys], int64(i/benchKeys)*60_000, v); err != nil {
		b.Fatal(err)
	}
	if (i+1)%benchRound == 0 {
		if err := s.Commit(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

func allKeys() [][]byte {
	keys := make([][]byte, benchKeys)
	for i := range keys {
		keys[i] = benchKey(i)
	}
	return keys
}

// BenchmarkPut includes commits, new segments and the expiry of old ones.
func BenchmarkPut(b *testing.B) {
	keys := allKeys()
	eachKind(b, func(b *testing.B, s *windowed.Store[[]byte, []byte]) {
		for i := 0; b.Loop(); i++ {
			benchPut(b, s, keys, i)
		}
	})
}

// filled has 60 windows of every key.
func filled(b *testing.B, s *windowed.Store[[]byte, []byte]) [][]byte {
	keys := allKeys()
	for i := range benchKeys * 60 {
		benchPut(b, s, keys, i)
	}
	require.NoError(b, s.Commit(context.Background()))
	return keys
}

func BenchmarkFetch(b *testing.B) {
	eachKind(b, func(b *testing.B, s *windowed.Store[[]byte, []byte]) {
		keys := filled(b, s)
		r := rand.New(rand.NewPCG(5, 6))
		for b.Loop() {
			if _, ok, err := s.Fetch(keys[r.IntN(benchKeys)], 60_000*r.Int64N(60)); err != nil || !ok {
				b.Fatal(ok, err)
			}
		}
	})
}

// BenchmarkFetchRange reads all 60 windows of a key.
func BenchmarkFetchRange(b *testing.B) {
	eachKind(b, func(b *testing.B, s *windowed.Store[[]byte, []byte]) {
		keys := filled(b, s)
		r := rand.New(rand.NewPCG(5, 6))
		for b.Loop() {
			n := 0
			for _, err := range s.FetchRange(keys[r.IntN(benchKeys)], 0, benchHour) {
				if err != nil {
					b.Fatal(err)
				}
				n++
			}
			if n != 60 {
				b.Fatal(n)
			}
		}
	})
}

// BenchmarkAll reads every window; the time is that of one row.
func BenchmarkAll(b *testing.B) {
	eachKind(b, func(b *testing.B, s *windowed.Store[[]byte, []byte]) {
		filled(b, s)
		rows := 0
		for b.Loop() {
			for _, err := range s.All() {
				if err != nil {
					b.Fatal(err)
				}
				rows++
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rows), "ns/row")
	})
}

// BenchmarkRestore applies batches of 1000 records; the time is that of one record.
func BenchmarkRestore(b *testing.B) {
	keys := allKeys()
	eachKind(b, func(b *testing.B, s *windowed.Store[[]byte, []byte]) {
		const batch = 1000
		n := 0
		for b.Loop() {
			changes := make([]store.Change, batch)
			for i := range changes {
				key := append([]byte{}, keys[n%benchKeys]...)
				key = binary.BigEndian.AppendUint64(key, uint64(n/benchKeys*60_000))
				changes[i] = store.Change{Key: append(key, 0, 0, 0, 0), Row: store.Row{Value: make([]byte, 100), Timestamp: 1, Headers: benchHeaders}}
				n++
			}
			if err := s.RestoreBatch(changes, int64(n)); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/record")
	})
}
