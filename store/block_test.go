package store_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/formatdoc"
	"github.com/forebay-streams/forebay/store"
)

// requireReason checks the one error of malformed bytes.
func requireReason(t *testing.T, err error, reason string) {
	t.Helper()
	require.ErrorIs(t, err, store.ErrCorrupt)
	var c *store.CorruptError
	require.ErrorAs(t, err, &c)
	require.Equal(t, reason, c.Reason)
}

// requireUnreadable checks that no look shows a header of a malformed block.
func requireUnreadable(t *testing.T, h store.Headers) {
	t.Helper()
	for range 2 { // the answer never changes
		require.ErrorIs(t, h.Err(), store.ErrCorrupt)
		require.Zero(t, h.Len())
		require.Empty(t, h.List())
		require.Empty(t, h.AppendTo(nil))
		for x := range h.All() {
			require.Fail(t, "shown", "%v", x)
		}
		for _, key := range []string{"", "k", "\xff"} {
			x, ok := h.Last(key)
			require.False(t, ok)
			require.Zero(t, x)
			require.Empty(t, h.ForKey(key))
		}
	}
}

func TestVarintVectors(t *testing.T) {
	for _, row := range formatdoc.Rows(t, "headers.md", "varint", 2) {
		value, b := formatdoc.Int(t, row[0]), formatdoc.Hex(t, row[1])
		assert.Equal(t, b, store.AppendVarint(nil, int(value)))
		got, next, err := store.ReadVarint(append([]byte{0xff}, append(b, 0xff)...), 1)
		require.NoError(t, err)
		assert.Equal(t, value, int64(got))
		assert.Equal(t, 1+len(b), next)
		for cut := range b {
			_, _, err = store.ReadVarint(b[:cut], 0)
			requireReason(t, err, "varint_truncated")
		}
	}
	for _, row := range formatdoc.Rows(t, "headers.md", "varint-malformed", 2) {
		_, _, err := store.ReadVarint(formatdoc.Hex(t, row[0]), 0)
		requireReason(t, err, row[1])
	}
}

func TestBlockVectors(t *testing.T) {
	for _, row := range formatdoc.Rows(t, "headers.md", "block", 2) {
		list, block := formatdoc.List(t, row[0]), formatdoc.Hex(t, row[1])
		got, err := store.NewHeaders(list...).AppendBlock([]byte("x"))
		require.NoError(t, err)
		assert.Equal(t, append([]byte("x"), block...), got)
		stored := store.HeadersFromBlock(block)
		require.NoError(t, stored.Err())
		assert.Equal(t, list, stored.List())
		assert.Equal(t, len(list), stored.Len())
		assert.Equal(t, len(list) == 0, stored.Empty())
	}
}

func TestMalformedBlockVectors(t *testing.T) {
	for _, row := range formatdoc.Rows(t, "headers.md", "block-malformed", 2) {
		block := formatdoc.Hex(t, row[0])
		h := store.HeadersFromBlock(block)
		requireReason(t, h.Err(), row[1])
		requireUnreadable(t, h)
		assert.False(t, h.Empty(), "the block is there")

		got, err := h.AppendBlock(nil)
		require.NoError(t, err, "an untouched block passes")
		assert.Equal(t, block, got)

		require.NoError(t, h.Add("added", nil))
		requireReason(t, h.Err(), row[1])
		requireUnreadable(t, h)
		_, ok := h.Last("added")
		assert.False(t, ok)
		got, err = h.AppendBlock([]byte("x"))
		requireReason(t, err, row[1])
		assert.Equal(t, []byte("x"), got)
		requireReason(t, h.Remove("added"), row[1])
	}
}

func TestEveryCutOfABlockIsMalformed(t *testing.T) {
	for _, row := range formatdoc.Rows(t, "headers.md", "block", 2) {
		block := formatdoc.Hex(t, row[1])
		for cut := 1; cut < len(block); cut++ {
			requireUnreadable(t, store.HeadersFromBlock(block[:cut]))
		}
	}
}

func TestUTF8Vectors(t *testing.T) {
	for _, row := range formatdoc.Rows(t, "headers.md", "utf8", 2) {
		in, want := string(formatdoc.Hex(t, row[0])), string(formatdoc.Hex(t, row[1]))
		assert.Equal(t, want, store.JavaKey(in), row[0])

		list := []store.Header{{Key: "first"}, {Key: in}, {Key: in}}
		var added store.Headers
		require.NoError(t, added.Add(in, nil))
		for name, h := range map[string]store.Headers{
			"Add":            added,
			"NewHeaders":     store.NewHeaders(store.Header{Key: in}),
			"HeadersOf":      store.HeadersOf(list[1:2]),
			"HeadersFromMap": store.HeadersFromMap(map[string][]byte{in: nil}),
		} {
			assert.Equal(t, []store.Header{{Key: want}}, h.List(), name)
		}
		assert.Equal(t, want, store.HeadersOf(list).List()[2].Key)
		assert.Equal(t, in, list[1].Key, "the caller's list stays as it is")
	}
}

func TestTooLarge(t *testing.T) {
	value := make([]byte, 16<<20)
	list := make([]store.Header, 128)
	for i := range list {
		list[i].Value = value
	}
	h := store.NewHeaders(list...)
	dst := []byte("x")
	got, err := h.AppendBlock(dst)
	require.ErrorIs(t, err, store.ErrTooLarge)
	assert.Equal(t, dst, got)
	got, err = store.WithHeaders.Append(dst, store.Row{Value: []byte{}, Headers: h})
	require.ErrorIs(t, err, store.ErrTooLarge)
	assert.Equal(t, dst, got)

	h = store.NewHeaders(list[1:]...)
	got, err = store.Aggregation.Append(dst, store.Row{Value: value, Headers: h})
	require.ErrorIs(t, err, store.ErrTooLarge, "each part fits, the row does not")
	assert.Equal(t, dst, got)
}

func TestClaimedLengthsAreNotAllocated(t *testing.T) {
	// 2^30 headers are claimed, with a byte for each of four.
	block := append(store.AppendVarint(nil, 1<<30), 0, 0, 0, 0)
	assert.Zero(t, testing.AllocsPerRun(10, func() {
		if store.HeadersFromBlock(block).Len() != 0 {
			t.Fail()
		}
	})-1, "the error alone")
}

func TestLargeLengths(t *testing.T) {
	// Lengths around each step of the varint, as a key and as a value.
	for _, n := range []int{63, 64, 8191, 8192, 1<<20 - 1, 1 << 20} {
		list := []store.Header{{Key: strings.Repeat("k", n), Value: bytes.Repeat([]byte{1}, n)}}
		block, err := store.NewHeaders(list...).AppendBlock(nil)
		require.NoError(t, err)
		assert.Equal(t, list, store.HeadersFromBlock(block).List())
	}
	_, _, err := store.ReadVarint(store.AppendVarint(nil, math.MaxInt32+1), 0)
	requireReason(t, err, "varint_overflow")
}
