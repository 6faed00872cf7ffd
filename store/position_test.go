package store_test

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/formatdoc"
	"github.com/forebay-streams/forebay/store"
)

// parsePosition reads the page's notation, which is that of Position.String.
func parsePosition(t testing.TB, s string) (p store.Position) {
	if s == "-" {
		return p
	}
	for entry := range strings.FieldsSeq(s) {
		name, offset, _ := strings.Cut(entry, ":")
		i := strings.LastIndexByte(name, '-')
		p.Advance(name[:i], int32(formatdoc.Int(t, name[i+1:])), formatdoc.Int(t, offset))
	}
	return p
}

func TestPositionVectors(t *testing.T) {
	for _, row := range formatdoc.Rows(t, "position.md", "position", 3) {
		p, used := parsePosition(t, row[0]), formatdoc.Hex(t, row[2])
		b := p.Bytes()
		assert.Equal(t, strconv.Itoa(len(b)), row[1])
		assert.Equal(t, used, b[:len(used)])
		assert.Equal(t, make([]byte, len(b)-len(used)), b[len(used):], "the rest is zero")
		assert.Equal(t, "{"+strings.TrimPrefix(row[0], "-")+"}", p.String())

		for n := range len(b) + 1 {
			got, err := store.DecodePosition(b[:n])
			if n < len(used) {
				require.ErrorIs(t, err, store.ErrCorrupt)
				require.True(t, got.Empty(), "never a part of it")
				continue
			}
			require.NoError(t, err, "padding may be cut")
			require.True(t, p.Equal(got))
		}
		got, err := store.DecodePosition(append(bytes.Clone(used), "anything"...))
		require.NoError(t, err)
		assert.True(t, p.Equal(got))
	}
}

func TestMalformedPositionVectors(t *testing.T) {
	for _, row := range formatdoc.Rows(t, "position.md", "position-malformed", 2) {
		p, err := store.DecodePosition(formatdoc.Hex(t, row[0]))
		requireReason(t, err, row[1])
		assert.True(t, p.Empty())
	}
}

func TestPositionCountsThatLie(t *testing.T) {
	b := formatdoc.Hex(t, "007fffffff")
	b = append(b, make([]byte, 64)...)
	assert.LessOrEqual(t, testing.AllocsPerRun(10, func() {
		if _, err := store.DecodePosition(b); err == nil {
			t.Fail()
		}
	}), 1.0, "the error alone")
}

func TestPosition(t *testing.T) {
	var p store.Position
	assert.True(t, p.Empty())
	assert.Equal(t, "{}", p.String())
	_, ok := p.Offset("t", 0)
	assert.False(t, ok)

	p.Advance("t", 1, 0)
	p.Advance("t", 0, 5)
	p.Advance("t", 0, 3)
	p.Advance("s", 7, math.MaxInt64)
	offset, ok := p.Offset("t", 0)
	assert.True(t, ok)
	assert.Equal(t, int64(5), offset, "a smaller offset changes nothing")
	offset, ok = p.Offset("t", 1)
	assert.True(t, ok)
	assert.Zero(t, offset)
	assert.Equal(t, []string{"s", "t"}, p.Topics())
	assert.Equal(t, []int32{0, 1}, p.Partitions("t"))
	assert.Empty(t, p.Partitions("none"))
	assert.False(t, p.Empty())

	c := p.Clone()
	assert.True(t, c.Equal(p))
	c.Advance("t", 0, 6)
	c.Advance("new", 0, 0)
	assert.False(t, c.Equal(p))
	offset, _ = p.Offset("t", 0)
	assert.Equal(t, int64(5), offset)

	p.Advance("t", 1, 9)
	p.Merge(c)
	assert.Equal(t, "{new-0:0 s-7:9223372036854775807 t-0:6 t-1:9}", p.String())
	p.Merge(store.Position{})
	p.Merge(p)
	got, err := store.DecodePosition(p.Bytes())
	require.NoError(t, err)
	assert.True(t, got.Equal(p))
	assert.Equal(t, p.Bytes(), got.Bytes(), "sorted, so equal positions have equal bytes")
}
