package reccontext_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/formatdoc"
	"github.com/forebay-streams/forebay/internal/reccontext"
	"github.com/forebay-streams/forebay/store"
)

func TestVectors(t *testing.T) {
	for _, row := range formatdoc.Rows(t, "record-context.md", "context", 6) {
		r := store.Record{
			Timestamp: formatdoc.Int(t, row[0]),
			Offset:    formatdoc.Int(t, row[1]),
			Topic:     string(formatdoc.Hex(t, row[2])),
			Partition: int32(formatdoc.Int(t, row[3])),
			Headers:   store.NewHeaders(formatdoc.List(t, row[4])...),
		}
		b := formatdoc.Hex(t, row[5])
		got, err := reccontext.Append([]byte("x"), r)
		require.NoError(t, err)
		assert.Equal(t, append([]byte("x"), b...), got)

		back, rest, err := reccontext.Decode(append(bytes.Clone(b), "rest"...))
		require.NoError(t, err)
		assert.Equal(t, "rest", string(rest))
		assert.Equal(t, r.Headers.List(), back.Headers.List())
		back.Headers = r.Headers
		assert.Equal(t, r, back)

		for cut := range b {
			_, _, err := reccontext.Decode(b[:cut])
			requireReason(t, err, "context_length")
		}
	}
}

func requireReason(t *testing.T, err error, reason string) {
	t.Helper()
	var c *store.CorruptError
	require.ErrorAs(t, err, &c)
	require.ErrorIs(t, err, store.ErrCorrupt)
	require.Equal(t, reason, c.Reason)
}

func TestMalformedVectors(t *testing.T) {
	for _, row := range formatdoc.Rows(t, "record-context.md", "context-malformed", 2) {
		r, rest, err := reccontext.Decode(formatdoc.Hex(t, row[0]))
		requireReason(t, err, row[1])
		assert.Zero(t, r)
		assert.Nil(t, rest)
	}
}

func TestCountOfOldWriters(t *testing.T) {
	b, err := reccontext.Append(nil, store.Record{Topic: "t"})
	require.NoError(t, err)
	old := binary.BigEndian.AppendUint32(bytes.Clone(b[:len(b)-4]), 1<<32-1)
	r, rest, err := reccontext.Decode(old)
	require.NoError(t, err)
	assert.Empty(t, rest)
	assert.Equal(t, store.Record{Topic: "t"}, r)
}

func TestUnreadableHeaders(t *testing.T) {
	got, err := reccontext.Append([]byte("x"), store.Record{Headers: store.HeadersFromBlock([]byte{0})})
	requireReason(t, err, "block_empty")
	assert.Equal(t, []byte("x"), got)
}

func TestTooLarge(t *testing.T) {
	list := slices.Repeat([]store.Header{{Value: make([]byte, 16<<20)}}, 128)
	got, err := reccontext.Append([]byte("x"), store.Record{Headers: store.NewHeaders(list...)})
	require.ErrorIs(t, err, store.ErrTooLarge)
	assert.Equal(t, []byte("x"), got)
}

func FuzzRecordContext(f *testing.F) {
	for _, row := range formatdoc.Rows(f, "record-context.md", "context", 6) {
		f.Add(formatdoc.Hex(f, row[5]))
	}
	for _, row := range formatdoc.Rows(f, "record-context.md", "context-malformed", 2) {
		f.Add(formatdoc.Hex(f, row[0]))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, rest, err := reccontext.Decode(b)
		if err != nil {
			require.ErrorIs(t, err, store.ErrCorrupt)
			require.Zero(t, r)
			return
		}
		used := b[:len(b)-len(rest)]
		again, err := reccontext.Append(nil, r)
		require.NoError(t, err)
		if r.Headers.Empty() { // −1 is read as 0
			used, again = used[:len(used)-4], again[:len(again)-4]
		}
		require.True(t, bytes.Equal(used, again))
	})
}
