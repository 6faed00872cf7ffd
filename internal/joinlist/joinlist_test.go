package joinlist_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/formatdoc"
	"github.com/forebay-streams/forebay/internal/joinlist"
	"github.com/forebay-streams/forebay/store"
)

func elements(t *testing.T, column string) (list []joinlist.Element) {
	for e := range strings.SplitSeq(column, ",") {
		b := formatdoc.Hex(t, e)
		list = append(list, joinlist.Element{Left: b[0] == 1, Value: b[1:]})
	}
	return list
}

func TestVectors(t *testing.T) {
	for _, row := range formatdoc.Rows(t, "join-list.md", "list", 2) {
		list, b := elements(t, row[0]), formatdoc.Hex(t, row[1])
		got, err := joinlist.Encode(list)
		require.NoError(t, err)
		assert.Equal(t, b, got)
		back, err := joinlist.Decode(b)
		require.NoError(t, err)
		assert.Equal(t, list, back)

		var grown []byte
		for _, e := range list {
			before := bytes.Clone(grown)
			next, err := joinlist.Append(grown, e)
			require.NoError(t, err)
			assert.Equal(t, before, grown, "stored bytes are never changed")
			grown = next
		}
		assert.Equal(t, b, grown)
		for cut := range b {
			_, err := joinlist.Decode(b[:cut])
			require.ErrorIs(t, err, store.ErrCorrupt)
		}
	}
}

func TestMalformedVectors(t *testing.T) {
	for _, row := range formatdoc.Rows(t, "join-list.md", "list-malformed", 3) {
		b := formatdoc.Hex(t, row[0])
		list, err := joinlist.Decode(b)
		var c *store.CorruptError
		require.ErrorAs(t, err, &c)
		require.ErrorIs(t, err, store.ErrCorrupt)
		assert.Equal(t, row[2], c.Reason, row[0])
		assert.Nil(t, list)
		grown, err := joinlist.Append(b, joinlist.Element{})
		require.ErrorAs(t, err, &c)
		assert.Equal(t, row[2], c.Reason, row[0])
		assert.Nil(t, grown)
	}
}

func TestEmptyListIsADelete(t *testing.T) {
	b, err := joinlist.Encode(nil)
	require.NoError(t, err)
	assert.Nil(t, b)
}

func TestTooLarge(t *testing.T) {
	list := slices.Repeat([]joinlist.Element{{Value: make([]byte, 16<<20)}}, 128)
	b, err := joinlist.Encode(list)
	require.ErrorIs(t, err, store.ErrTooLarge)
	assert.Nil(t, b)
}

func TestAppendDoesNotShare(t *testing.T) {
	b, err := joinlist.Encode([]joinlist.Element{{Left: true, Value: []byte("a")}})
	require.NoError(t, err)
	b = slices.Grow(b, 64)
	x, err := joinlist.Append(b, joinlist.Element{Value: []byte("x")})
	require.NoError(t, err)
	_, err = joinlist.Append(b, joinlist.Element{Value: []byte("y")})
	require.NoError(t, err)
	list, err := joinlist.Decode(x)
	require.NoError(t, err)
	assert.Equal(t, []joinlist.Element{{Left: true, Value: []byte("a")}, {Value: []byte("x")}}, list)
}

func FuzzJoinList(f *testing.F) {
	for _, row := range formatdoc.Rows(f, "join-list.md", "list", 2) {
		f.Add(formatdoc.Hex(f, row[1]))
	}
	for _, row := range formatdoc.Rows(f, "join-list.md", "list-malformed", 3) {
		f.Add(formatdoc.Hex(f, row[0]))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := joinlist.Decode(b)
		if err != nil {
			require.ErrorIs(t, err, store.ErrCorrupt)
			require.Nil(t, list)
			return
		}
		again, err := joinlist.Encode(list)
		require.NoError(t, err)
		require.Equal(t, b, again)
		e := joinlist.Element{Left: true, Value: []byte("new")}
		grown, err := joinlist.Append(b, e)
		require.NoError(t, err)
		want, err := joinlist.Encode(append(list, e))
		require.NoError(t, err)
		require.Equal(t, want, grown)
	})
}
