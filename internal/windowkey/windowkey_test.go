package windowkey_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/formatdoc"
	"github.com/forebay-streams/forebay/internal/windowkey"
)

const page = "windowed.md"

func TestKeys(t *testing.T) {
	for _, v := range formatdoc.Rows(t, page, "keys", 6) {
		row := windowkey.Row{Key: formatdoc.Hex(t, v[0]), Start: formatdoc.Int(t, v[1]), Seq: int32(formatdoc.Int(t, v[2]))}
		for i, schema := range []windowkey.Schema{windowkey.Window, windowkey.Base, windowkey.Index} {
			want := formatdoc.Hex(t, v[3+i])
			require.Equal(t, want, schema.Append(nil, row), v)
			got, ok := schema.Parse(want)
			require.True(t, ok)
			require.Equal(t, row, got)
			for n := range want {
				if got, ok := schema.Parse(want[:n]); ok {
					require.Equal(t, want[:n], schema.Append(nil, got), "another row's key")
				}
			}
		}
		base, index := formatdoc.Hex(t, v[4]), formatdoc.Hex(t, v[5])
		require.Equal(t, index, windowkey.ToIndex(nil, base))
		require.Equal(t, base, windowkey.ToBase(nil, index))
	}
}

func TestOrderIsThatOfWholeKeys(t *testing.T) {
	rows := []windowkey.Row{{[]byte{0x41}, 0, 0}, {[]byte{0x41, 0}, 0, 0}, {[]byte{0x41, 0}, 5000, 0}, {[]byte{0x41}, 5000, 0}, {[]byte{0x41, 0x42}, 0, 0}}
	var before []byte
	for i, v := range formatdoc.Rows(t, page, "order", 1) {
		key := windowkey.Window.Append(nil, rows[i])
		require.Equal(t, formatdoc.Hex(t, v[0]), key)
		require.Negative(t, bytes.Compare(before, key))
		before = key
	}
}

func TestUpper(t *testing.T) {
	for _, v := range formatdoc.Rows(t, page, "upper", 3) {
		_, high := windowkey.Window.Range(nil, formatdoc.Hex(t, v[0]), 0, formatdoc.Int(t, v[1]))
		assert.Equal(t, formatdoc.Hex(t, v[2]), high, v)
	}
}

func TestBounds(t *testing.T) {
	const from, to = 1, 5000
	eight := func(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }
	cat := func(parts ...[]byte) []byte { return slices.Concat(parts...) }
	key, zero, last := []byte("ab"), make([]byte, 4), []byte{0x7f, 0xff, 0xff, 0xff}
	for _, c := range []struct {
		schema            windowkey.Schema
		low, high         []byte // of one key
		from, to          []byte // of a range
		openLow, openHigh []byte
	}{
		{windowkey.Window, cat(key, eight(from), zero), cat(key, eight(to), last), cat(key, make([]byte, 12)), cat(key, eight(to), last), nil, nil},
		{windowkey.Index, cat([]byte{1}, key, eight(from), zero), cat([]byte{1}, key, eight(to), last),
			cat([]byte{1}, key, make([]byte, 12)), cat([]byte{1}, key, eight(to), last), []byte{1}, []byte{2}},
		{windowkey.Base, cat([]byte{0}, eight(from), key, zero), cat([]byte{0}, eight(to), key, last),
			cat([]byte{0}, eight(from), key), cat([]byte{0}, eight(to), []byte{0xff, 0xff}, last), cat([]byte{0}, eight(from)), []byte{1}},
		{windowkey.Memory, key, key, key, key, nil, nil},
		{windowkey.MemorySequence, cat(key, zero), cat(key, last), cat(key, zero), cat(key[:1], last), nil, nil},
	} {
		low, high := c.schema.One(key, from, to)
		assert.Equal(t, c.low, low)
		assert.Equal(t, c.high, high)
		low, high = c.schema.Range(key, key, from, to)
		assert.Equal(t, c.from, low)
		assert.Equal(t, c.to, high)
		low, high = c.schema.Range(nil, nil, from, to)
		assert.Equal(t, c.openLow, low)
		assert.Equal(t, c.openHigh, high)
		below, _ := c.schema.One(key, -5, to)
		zeroLow, _ := c.schema.One(key, 0, to)
		assert.Equal(t, zeroLow, below, "from below 0 is 0")
		below, _ = c.schema.Range(key, key, -5, to)
		zeroLow, _ = c.schema.Range(key, key, 0, to)
		assert.Equal(t, zeroLow, below)
	}
}

// Bounds never leave out a row that belongs to the query.
func TestBoundsMissNoRow(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	bytesOf := []byte{0, 1, 0x41, 0x7f, 0x80, 0xff}
	key := func() []byte {
		k := make([]byte, 1+r.IntN(4))
		for i := range k {
			k[i] = bytesOf[r.IntN(len(bytesOf))]
		}
		return k
	}
	times := []int64{0, 1, 0xff, 0x4100, 0x7fff, 1_700_000_000_000, math.MaxInt64 - 1, math.MaxInt64}
	at := func() int64 { return times[r.IntN(len(times))] }
	within := func(low, high, k []byte) bool {
		return (low == nil || bytes.Compare(k, low) >= 0) && (high == nil || bytes.Compare(k, high) <= 0)
	}
	hits := 0
	for range 300_000 {
		first, last, from, to := key(), key(), at(), at()
		row := windowkey.Row{Key: key(), Start: at(), Seq: int32(r.IntN(2) * math.MaxInt32)}
		for s := windowkey.Window; s <= windowkey.MemorySequence; s++ {
			timeless := s >= windowkey.Memory
			if !timeless && (row.Start < from || row.Start > to) {
				continue
			}
			k := s.Append(nil, row)
			if bytes.Compare(row.Key, first) >= 0 && bytes.Compare(row.Key, last) <= 0 {
				hits++
				for _, open := range [][2][]byte{{first, last}, {nil, last}, {first, nil}, {nil, nil}} {
					low, high := s.Range(open[0], open[1], from, to)
					if !within(low, high, k) {
						t.Fatalf("schema %d: %x (%v) is not in %x…%x at %d…%d", s, k, row, open[0], open[1], from, to)
					}
				}
			}
			if low, high := s.One(row.Key, from, to); !within(low, high, k) {
				t.Fatalf("schema %d: %x is not in %x…%x", s, k, low, high)
			}
		}
	}
	require.Greater(t, hits, 10_000)
}
