package windowkey

import (
	"bytes"
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/formatdoc"
)

var sessionSchemas = map[string]SessionSchema{"session": Session, "base": SessionBase, "index": SessionIndex, "memory": SessionMemory}

func TestSessionKeys(t *testing.T) {
	for _, row := range formatdoc.Rows(t, "session.md", "session_keys", 5) {
		s := sessionSchemas[row[0]]
		r := SessionRow{formatdoc.Hex(t, row[1]), formatdoc.Int(t, row[2]), formatdoc.Int(t, row[3])}
		want := formatdoc.Hex(t, row[4])
		require.Equal(t, want, s.Append(nil, r), row)
		got, ok := s.Parse(want)
		require.True(t, ok, row)
		if s == SessionMemory {
			got.End = r.End
		}
		require.Equal(t, r, got, row)
		for n := range want {
			if got, ok := s.Parse(want[:n]); ok { // a shorter key
				require.Less(t, len(got.Key), len(r.Key), row)
			}
		}
	}
	base, index := SessionBase.Append(nil, SessionRow{[]byte("k"), 1, 2}), SessionIndex.Append(nil, SessionRow{[]byte("k"), 1, 2})
	require.Equal(t, index, SessionToIndex(nil, base))
	require.Equal(t, base, SessionToBase(nil, index))
	require.Equal(t, []byte{7}, SessionToBase(nil, []byte{7}), "no row's key")
	for _, bad := range [][]byte{{0x41}, {0, 2, 0, 0, 0, 0, 0, 0, 0, 0}} {
		_, ok := SessionMemory.Parse(bad)
		require.False(t, ok)
	}
}

func TestSessionBounds(t *testing.T) {
	for _, row := range formatdoc.Rows(t, "session.md", "session_one", 6) {
		low, high := sessionSchemas[row[0]].One(formatdoc.Hex(t, row[1]), formatdoc.Int(t, row[2]), formatdoc.Int(t, row[3]))
		require.Equal(t, formatdoc.Hex(t, row[4]), low, row)
		require.Equal(t, formatdoc.Hex(t, row[5]), high, row)
	}
	for _, row := range formatdoc.Rows(t, "session.md", "session_range", 7) {
		low, high := sessionSchemas[row[0]].Range(formatdoc.Hex(t, row[1]), formatdoc.Hex(t, row[2]), formatdoc.Int(t, row[3]), formatdoc.Int(t, row[4]))
		require.Equal(t, formatdoc.Hex(t, row[5]), low, row)
		require.Equal(t, formatdoc.Hex(t, row[6]), high, row)
	}
	for _, row := range formatdoc.Rows(t, "session.md", "session_ends", 4) {
		low, high := SessionBase.Ends(formatdoc.Int(t, row[0]), formatdoc.Int(t, row[1]))
		require.Equal(t, formatdoc.Hex(t, row[2]), low, row)
		require.Equal(t, formatdoc.Hex(t, row[3]), high, row)
	}
}

func randomSession(r *rand.Rand) SessionRow {
	// Bytes that are those of times too.
	key := make([]byte, r.IntN(4))
	for i := range key {
		key[i] = []byte{0, 1, 0x41, 0x7f, 0x80, 0xff}[r.IntN(6)]
	}
	end := []int64{0, 1, 255, 256, 60_000, 1 << 40, math.MaxInt64 - 1, math.MaxInt64}[r.IntN(8)]
	return SessionRow{key, end - r.Int64N(min(end, 3)+1), end}
}

// Bounds miss no row that a query asks for. An empty key is outside, as no record has one.
func TestSessionBoundsMissNothing(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 300_000 {
		row, a, b := randomSession(r), randomSession(r), randomSession(r)
		if len(row.Key) == 0 {
			continue
		}
		from, to := a.End, b.Start
		if row.End < from || row.Start > to {
			continue
		}
		first, last := a.Key, b.Key
		if r.IntN(5) == 0 {
			first = nil
		}
		if r.IntN(5) == 0 {
			last = nil
		}
		for name, s := range sessionSchemas {
			key := s.Append(nil, row)
			low, high := s.One(row.Key, from, to)
			require.True(t, bytes.Compare(low, key) <= 0 && bytes.Compare(key, high) <= 0, "%s, seed %d: %+v from %d to %d", name, seed, row, from, to)
			if first != nil && bytes.Compare(row.Key, first) < 0 || last != nil && (len(last) == 0 || bytes.Compare(row.Key, last) > 0) {
				continue
			}
			low, high = s.Range(first, last, from, to)
			require.True(t, bytes.Compare(low, key) <= 0 && (high == nil || bytes.Compare(key, high) <= 0), "%s, seed %d: %+v, keys %x to %x, from %d to %d", name, seed, row, first, last, from, to)
		}
	}
}

// In memory keys sort by key, then from the latest start.
func TestSessionMemoryOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(rand.Uint64(), 0))
	rows := make([]SessionRow, 500)
	for i := range rows {
		rows[i] = randomSession(r)
	}
	slices.SortFunc(rows, func(a, b SessionRow) int {
		return cmp.Or(bytes.Compare(a.Key, b.Key), cmp.Compare(b.Start, a.Start))
	})
	for i := 1; i < len(rows); i++ {
		require.LessOrEqual(t, bytes.Compare(SessionMemory.Append(nil, rows[i-1]), SessionMemory.Append(nil, rows[i])), 0)
	}
}
