package session_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/session"
	"github.com/forebay-streams/forebay/store"
)

// The benchmarks have 16-byte random keys, 100-byte aggregates and two headers, as those
// of the key-value store. Each key has four sessions, in two segments.

const (
	benchKeys  = 25_000
	benchSpan  = 4
	benchRound = 10_000 // puts between commits
)

var benchHeaders = store.NewHeaders(
	store.Header{Key: "traceparent", Value: []byte("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")},
	store.Header{Key: "tenant", Value: []byte("acme")},
)

func benchKey(i int) []byte {
	r := rand.New(rand.NewPCG(1, uint64(i)))
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, r.Uint64()), r.Uint64())
}

func benchKeyList() [][]byte {
	keys := make([][]byte, benchKeys)
	for i := range keys {
		keys[i] = benchKey(i)
	}
	return keys
}

// benchEnd is the end of a key's session.
func benchEnd(i int) int64 { return int64(i+1) * interval / 2 }

func forKinds(b *testing.B, run func(b *testing.B, s *bytesStore)) {
	for name, options := range map[string][]session.Option{
		"headers": nil, "plain": {session.Format(store.Plain)}, "ordered": {session.TimeOrdered(true)}, "memory": {session.InMemory()},
	} {
		b.Run(name, func(b *testing.B) {
			s, err := session.Open(taskDir(b), "bench", store.RawBytes(), store.RawBytes(), defaults(options...)...)
			require.NoError(b, err)
			defer s.Close()
			run(b, s)
			b.StopTimer()
		})
	}
}

func filled(b *testing.B, s *bytesStore) [][]byte {
	keys, n := benchKeyList(), 0
	v := store.Value[[]byte]{Data: make([]byte, 100), Headers: benchHeaders}
	for i := range benchSpan {
		for _, k := range keys {
			require.NoError(b, s.Put(k, benchEnd(i)-1000, benchEnd(i), v))
			if n++; n%benchRound == 0 {
				require.NoError(b, s.Commit(ctx))
			}
		}
	}
	require.NoError(b, s.Commit(ctx))
	return keys
}

func BenchmarkPut(b *testing.B) {
	keys := benchKeyList()
	forKinds(b, func(b *testing.B, s *bytesStore) {
		v := store.Value[[]byte]{Data: make([]byte, 100), Headers: benchHeaders}
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			end := benchEnd(n / benchKeys % benchSpan)
			if err := s.Put(keys[n%benchKeys], end-1000, end, v); err != nil {
				b.Fatal(err)
			}
			if n%benchRound == benchRound-1 {
				if err := s.Commit(ctx); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

func BenchmarkFetchSession(b *testing.B) {
	forKinds(b, func(b *testing.B, s *bytesStore) {
		keys := filled(b, s)
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			end := benchEnd(n % benchSpan)
			if _, ok, err := s.FetchSession(keys[n*7919%benchKeys], end-1000, end); err != nil || !ok {
				b.Fatal(ok, err)
			}
		}
	})
}

// BenchmarkFindSessions reads the four sessions of a key.
func BenchmarkFindSessions(b *testing.B) {
	forKinds(b, func(b *testing.B, s *bytesStore) {
		keys := filled(b, s)
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			found := 0
			for _, err := range s.FindSessions(keys[n*7919%benchKeys], 0, math.MaxInt64) {
				if err != nil {
					b.Fatal(err)
				}
				found++
			}
			if found != benchSpan {
				b.Fatal(found)
			}
		}
	})
}

// BenchmarkFetchKeys reads all sessions; the time is that of one.
func BenchmarkFetchKeys(b *testing.B) {
	forKinds(b, func(b *testing.B, s *bytesStore) {
		filled(b, s)
		b.ReportAllocs()
		b.ResetTimer()
		for n := 0; n < b.N; {
			for _, err := range s.FetchKeys() {
				if err != nil {
					b.Fatal(err)
				}
				if n++; n == b.N {
					break
				}
			}
		}
	})
}

func BenchmarkRestore(b *testing.B) {
	batch := make([]store.Change, 1000)
	for i := range batch {
		end := benchEnd(i % benchSpan)
		batch[i] = store.Change{Key: logKey(place{string(benchKey(i)), end - 1000, end}), Row: store.Row{Value: make([]byte, 100), Timestamp: 1, Headers: benchHeaders}}
	}
	forKinds(b, func(b *testing.B, s *bytesStore) {
		require.NoError(b, s.RestoreBatch(batch, 0)) // makes the segments
		b.ReportAllocs()
		b.ResetTimer()
		for n := 0; n < b.N; n += len(batch) {
			for i := range batch {
				binary.BigEndian.PutUint32(batch[i].Key, uint32(n+i))
			}
			if err := s.RestoreBatch(batch, int64(n)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
