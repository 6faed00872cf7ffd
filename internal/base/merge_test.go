package base_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/base/basetest"
	"github.com/forebay-streams/forebay/store"
)

// rows fails after its last row if err is set, and counts calls of Close.
type rows struct {
	base.Cursor
	left   int // rows before err
	err    error
	failed bool
	closed int
}

func newRows(changes []store.Change) *rows {
	return &rows{Cursor: base.Slice(changes), left: len(changes)}
}

func (r *rows) Next() bool {
	if r.left--; r.left < 0 && r.err != nil {
		r.failed = true
		return false
	}
	return r.Cursor.Next()
}

func (r *rows) Err() error {
	if r.failed {
		return r.err
	}
	return nil
}

func (r *rows) Close() { r.closed++ }

func value(s string) store.Row { return store.Row{Value: []byte(s), Timestamp: 1} }

func TestMergeAgainstMap(t *testing.T) {
	r := basetest.Rand(t)
	for range 3000 {
		first, second, want := basetest.Rows{}, basetest.Rows{}, basetest.Rows{}
		for i := range r.IntN(12) {
			key := fmt.Sprint(r.IntN(12))
			second[key] = value(fmt.Sprint("second", i))
			want[key] = second[key]
		}
		for i := range r.IntN(12) {
			key := fmt.Sprint(r.IntN(12))
			if first[key] = value(fmt.Sprint("first", i)); r.IntN(3) == 0 {
				first[key] = store.Row{}
			}
		}
		for key, row := range first {
			if want[key] = row; row.Tombstone() {
				delete(want, key)
			}
		}
		for _, reverse := range []bool{false, true} {
			span := base.Span{Reverse: reverse}
			merged := base.Merge(base.Slice(first.Within(span)), base.Slice(second.Within(span)), reverse)
			basetest.RequireRows(t, want.Within(span), merged)
		}
	}
}

func TestMergeEndsWithAnErrorOfEither(t *testing.T) {
	errRead := errors.New("read")
	a := basetest.Rows{"a": value("1"), "c": value("1"), "e": value("1"), "f": {}}
	b := basetest.Rows{"a": value("2"), "b": value("2"), "e": value("2"), "f": value("2")}
	for _, reverse := range []bool{false, true} {
		span := base.Span{Reverse: reverse}
		whole, err := basetest.Read(base.Merge(base.Slice(a.Within(span)), base.Slice(b.Within(span)), reverse))
		require.NoError(t, err)
		for failing := range 2 {
			for after := range 5 {
				sides := []*rows{newRows(a.Within(span)), newRows(b.Within(span))}
				sides[failing].left, sides[failing].err = after, errRead
				merged := base.Merge(sides[0], sides[1], reverse)
				got, err := basetest.Read(merged)
				require.ErrorIs(t, err, errRead)
				require.LessOrEqual(t, len(got), len(whole))
				assert.Equal(t, basetest.Show(whole[:len(got)]), basetest.Show(got), "what was shown before is right")
				assert.False(t, merged.Next())
				require.ErrorIs(t, merged.Err(), errRead)
				merged.Close()
				assert.Equal(t, []int{1, 1}, []int{sides[0].closed, sides[1].closed})
			}
		}
	}
}

func TestMergeOfFailedScans(t *testing.T) {
	errOpen := errors.New("open")
	for _, sides := range [][2]base.Cursor{
		{base.Failed(errOpen), base.Slice([]store.Change{{Key: []byte("k"), Row: value("v")}})},
		{base.Slice([]store.Change{{Key: []byte("k"), Row: value("v")}}), base.Failed(errOpen)},
		{base.Failed(errOpen), base.Failed(errOpen)},
	} {
		merged := base.Merge(sides[0], sides[1], false)
		for range 2 {
			assert.False(t, merged.Next())
			require.ErrorIs(t, merged.Err(), errOpen)
		}
		merged.Close()
	}
}

func TestMergeClosesBoth(t *testing.T) {
	first, second := newRows([]store.Change{{Key: []byte("a"), Row: value("1")}}), newRows(nil)
	merged := base.Merge(first, second, false)
	require.True(t, merged.Next())
	assert.Equal(t, "a", string(merged.Key()))
	assert.Equal(t, value("1"), *merged.Row())
	merged.Close()
	assert.Equal(t, []int{1, 1}, []int{first.closed, second.closed})
}

func TestSlice(t *testing.T) {
	changes := []store.Change{{Key: []byte("a"), Row: value("1")}, {Key: []byte("b"), Row: store.Row{}}}
	c := base.Slice(changes)
	require.True(t, c.Next())
	assert.Equal(t, "a", string(c.Key()))
	require.True(t, c.Next())
	assert.True(t, c.Row().Tombstone())
	assert.False(t, c.Next())
	assert.False(t, c.Next())
	require.NoError(t, c.Err())

	c = base.Slice(changes)
	require.True(t, c.Next())
	c.Close()
	assert.False(t, c.Next())
}
