package rocks

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/store"
)

// Fills ask for 4, 8, 16, … 96 rows: sums of these are where a fill ends with its rows.
var counts = []int{0, 1, 3, 4, 5, 12, 13, 28, 124, 220, 221, 316, 1000}

func TestScanOfManyRows(t *testing.T) {
	for _, n := range counts {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			db, f := newDB(t)
			want := [][2]string{}
			for i := range n {
				want = append(want, [2]string{fmt.Sprintf("%04d", i), fmt.Sprintf("value %d", i)})
			}
			put(t, db, f, want...)
			assert.Equal(t, want, all(t, db, f))
			require.NoError(t, db.Flush())
			assert.Equal(t, want, all(t, db, f))
			slices.Reverse(want)
			assert.Equal(t, want, read(t, db.Scan(f, base.Span{Reverse: true})))
			assert.Empty(t, all(t, db, db.Family(Default)), "another family")
		})
	}
}

func TestFillsGrow(t *testing.T) {
	db, f := newDB(t)
	rows := make([][2]string, 400)
	for i := range rows {
		rows[i][0] = fmt.Sprintf("%04d", i)
	}
	put(t, db, f, rows...)
	scan := db.Scan(f, base.Span{})
	defer scan.Close()
	var fills []int
	for scan.Next() {
		if left := len(scan.rest) / 12; len(fills) == 0 || fills[len(fills)-1] < 0 {
			fills = append(fills, left+1)
		}
		if len(scan.rest) == 0 {
			fills = append(fills, -1)
		}
	}
	fills = slices.DeleteFunc(fills, func(n int) bool { return n < 0 })
	assert.Equal(t, []int{4, 8, 16, 32, 64, 96, 96, 84}, fills)
}

func TestScanBounds(t *testing.T) {
	db, f := newDB(t)
	keys := []string{"", "\x00", "a", "a\x00", "a\xff", "b", "\xff", "\xff\xff", "\xff\xff\xff"}
	for _, k := range keys {
		put(t, db, f, [2]string{k, "of " + k})
	}
	ends := [][]byte{nil}
	for _, k := range append(keys, "\x01", "aa", "z", "\xff\x00") {
		ends = append(ends, []byte(k))
	}
	var spans []base.Span
	for _, from := range ends {
		for _, to := range ends {
			spans = append(spans, base.Span{From: from, To: to}, base.Span{From: from, To: to, Exclusive: true})
		}
		spans = append(spans, base.Prefix(from))
	}
	for _, flushed := range []bool{false, true} {
		if flushed {
			require.NoError(t, db.Flush())
		}
		for _, span := range spans {
			want := [][2]string{}
			for _, k := range keys {
				if span.Contains([]byte(k)) {
					want = append(want, [2]string{k, "of " + k})
				}
			}
			require.Equal(t, want, read(t, db.Scan(f, span)), "%+v", span)
			slices.Reverse(want)
			span.Reverse = true
			require.Equal(t, want, read(t, db.Scan(f, span)), "%+v", span)
		}
	}
}

func TestScanOfLargeRows(t *testing.T) {
	db, f := newDB(t)
	sizes := []int{0, fillBytes - 13, fillBytes - 12, fillBytes - 11, 1, 3 * fillBytes, 2, keepFill + 1, 1 << 20, 4, fillBytes / 2, fillBytes / 2}
	want := [][2]string{}
	for i, n := range sizes {
		want = append(want, [2]string{fmt.Sprintf("%04d", i), strings.Repeat(string(rune('a'+i)), n)})
	}
	want = append(want, [2]string{strings.Repeat("k", 2*fillBytes), "a long key"})
	put(t, db, f, want...)
	for range 2 { // a second scan takes a buffer that is there
		assert.True(t, slices.Equal(want, all(t, db, f)))
		reversed := slices.Clone(want)
		slices.Reverse(reversed)
		assert.True(t, slices.Equal(reversed, read(t, db.Scan(f, base.Span{Reverse: true}))))
	}
}

func TestScanSeesItsMoment(t *testing.T) {
	db, f := newDB(t)
	want := [][2]string{}
	for i := range 500 {
		want = append(want, [2]string{fmt.Sprintf("%04d", i), "old"})
	}
	put(t, db, f, want...)
	scan := db.Scan(f, base.Span{})
	begun := db.Scan(f, base.Span{Reverse: true})
	require.True(t, begun.Next())
	batch := db.NewBatch(0)
	for i := range 1000 {
		if key := fmt.Appendf(nil, "%04d", i); i%3 == 0 {
			batch.Delete(f, key)
		} else {
			batch.Put(f, key, []byte("new"))
		}
	}
	require.NoError(t, batch.Write())
	batch.Close()
	require.NoError(t, db.Flush())
	assert.Equal(t, want, read(t, scan))
	assert.Len(t, read(t, begun), len(want)-1)
	assert.Len(t, all(t, db, f), 1000-334)
}

func TestScanClosedEarly(t *testing.T) {
	db, f := newDB(t)
	for i := range 20 {
		put(t, db, f, [2]string{fmt.Sprintf("%04d", i), "v"})
	}
	for _, steps := range []int{0, 1, 3, 4, 5, 19} {
		scan := db.Scan(f, base.Span{})
		for range steps {
			require.True(t, scan.Next())
		}
		scan.Close()
		scan.Close()
		assert.False(t, scan.Next())
		assert.Nil(t, scan.Key())
		assert.Nil(t, scan.Value())
		require.ErrorIs(t, scan.Err(), store.ErrClosed)
		assert.Equal(t, int64(1), Live(), "the database alone")
	}
	scan := db.Scan(f, base.Span{To: []byte("0001")})
	assert.True(t, scan.Next())
	scan.Close()
	assert.False(t, scan.Next())
	require.ErrorIs(t, scan.Err(), store.ErrClosed, "rows that were already here are not shown either")
}

// A value that is kept without a copy is overwritten in race builds, so tests see it.
func TestBuffersAreReused(t *testing.T) {
	db, f := newDB(t)
	put(t, db, f, [2]string{"a", strings.Repeat("1", 9000)}, [2]string{"b", strings.Repeat("2", 9000)})
	first, second := db.Scan(f, base.Span{}), db.Scan(f, base.Span{})
	require.True(t, first.Next())
	require.True(t, second.Next())
	first.Close()
	third := db.Scan(f, base.Span{Reverse: true})
	require.True(t, third.Next())
	assert.Equal(t, bytes.Repeat([]byte("1"), 9000), second.Value(), "buffers are not shared while in use")
	assert.Equal(t, bytes.Repeat([]byte("2"), 9000), third.Value())
	second.Close()
	third.Close()
}

func TestScanErrorEndsIt(t *testing.T) {
	db, f := newDB(t)
	for i := range 2000 {
		put(t, db, f, [2]string{fmt.Sprintf("%04d", i), strings.Repeat("v", 100)})
	}
	require.NoError(t, db.Flush())
	scan := db.Scan(f, base.Span{})
	defer scan.Close()
	damage(t, db.dir, "*.sst") // in place: RocksDB keeps the file open
	n := 0
	for scan.Next() {
		n++
	}
	require.Error(t, scan.Err())
	assert.NotErrorIs(t, scan.Err(), store.ErrClosed)
	assert.Less(t, n, 2000)
	assert.False(t, scan.Next())
	var scratch []byte
	_, _, err := db.Get(f, []byte("1999"), &scratch)
	require.Error(t, err)
}
