package store_test

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/formatdoc"
	"github.com/forebay-streams/forebay/store"
)

type byteOrder interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

var orders = map[string]byteOrder{"be": binary.BigEndian, "le": binary.LittleEndian}

// interchangeHeaders reads a column that may be a map{…}.
func interchangeHeaders(t testing.TB, column string) store.Headers {
	inner, isMap := strings.CutPrefix(column, "map{")
	list := formatdoc.List(t, strings.TrimSuffix(inner, "}"))
	if !isMap {
		return store.NewHeaders(list...)
	}
	m := make(map[string][]byte)
	for _, x := range list {
		m[x.Key] = x.Value
	}
	return store.HeadersFromMap(m)
}

func TestInterchangeVectors(t *testing.T) {
	for _, row := range formatdoc.Rows(t, "interchange.md", "interchange", 3) {
		order, h, b := orders[row[0]], interchangeHeaders(t, row[1]), formatdoc.Hex(t, row[2])
		got, err := store.AppendInterchange([]byte("x"), h, order)
		require.NoError(t, err)
		assert.Equal(t, append([]byte("x"), b...), got)

		back, err := store.ParseInterchange(b, order)
		require.NoError(t, err)
		require.NoError(t, back.Err())
		assert.True(t, back.Equal(h))
		require.NoError(t, back.Add("k", nil))
		assert.Equal(t, h.Len()+1, back.Len())

		back, rest, err := store.CutInterchange(append(b, "rest"...), order)
		require.NoError(t, err)
		assert.Equal(t, "rest", string(rest))
		clear(b)
		assert.True(t, back.Equal(h), "no bytes are shared")
	}
}

func TestMalformedInterchangeVectors(t *testing.T) {
	for _, row := range formatdoc.Rows(t, "interchange.md", "interchange-malformed", 3) {
		h, err := store.ParseInterchange(formatdoc.Hex(t, row[1]), orders[row[0]])
		requireReason(t, err, row[2])
		assert.True(t, h.Empty())
	}
	for _, row := range formatdoc.Rows(t, "interchange.md", "interchange", 3) {
		b := formatdoc.Hex(t, row[2])
		for cut := range b {
			_, err := store.ParseInterchange(b[:cut], orders[row[0]])
			requireReason(t, err, "interchange_truncated")
		}
	}
}

func TestInterchangeNull(t *testing.T) {
	h := store.NewHeaders(header("a", "1"), store.Header{Key: "k"})
	dst := []byte("x")
	got, err := store.AppendInterchange(dst, h, binary.BigEndian)
	require.ErrorIs(t, err, store.ErrUnencodable)
	assert.Equal(t, dst, got)
	got, err = store.AppendInterchange(nil, h, binary.BigEndian, store.NullAsEmpty)
	require.NoError(t, err)
	back, err := store.ParseInterchange(got, binary.BigEndian)
	require.NoError(t, err)
	assert.Equal(t, []store.Header{header("a", "1"), header("k", "")}, back.List())
}

func TestInterchangeLimits(t *testing.T) {
	name := strings.Repeat("n", 65535)
	list := make([]store.Header, 65535)
	for i := range list {
		list[i].Value = []byte{}
	}
	list[7].Key = name
	h := store.NewHeaders(list...)
	b, err := store.AppendInterchange(nil, h, binary.LittleEndian)
	require.NoError(t, err)
	back, err := store.ParseInterchange(b, binary.LittleEndian)
	require.NoError(t, err)
	assert.True(t, back.Equal(h))

	require.NoError(t, h.Add("", []byte{}))
	got, err := store.AppendInterchange([]byte("x"), h, binary.BigEndian)
	require.ErrorIs(t, err, store.ErrTooLarge)
	assert.Equal(t, []byte("x"), got)
	_, err = store.AppendInterchange(nil, store.NewHeaders(header(name+"n", "")), binary.BigEndian)
	require.ErrorIs(t, err, store.ErrTooLarge)
}

func TestInterchangeOfUnreadable(t *testing.T) {
	got, err := store.AppendInterchange([]byte("x"), store.HeadersFromBlock([]byte{0}), binary.BigEndian)
	requireReason(t, err, "block_empty")
	assert.Equal(t, []byte("x"), got, "never written as no headers")
}
