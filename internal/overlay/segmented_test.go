package overlay

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/memory"
	"github.com/forebay-streams/forebay/store"
)

func flat(prefix uint64, key string) []byte {
	return append(binary.BigEndian.AppendUint64(nil, prefix), key...)
}

// newSegmented is an overlay whose changelog knows no prefixes, and no keys that begin
// with an i.
func newSegmented(cache bool) (*Overlay, *log) {
	l := &log{}
	return New(memory.New(store.Plain), Config{Layout: store.Plain, Log: l, Cache: cache, Budget: store.NewBudget(1 << 20), InMemory: true,
		LogKey: func(key []byte) ([]byte, bool) { return key[base.PrefixSize:], key[base.PrefixSize] != 'i' }}), l
}

func TestKeysOfTheChangelog(t *testing.T) {
	record := &store.Record{Topic: "in", Timestamp: 1}
	for _, cache := range []bool{false, true} {
		o, l := newSegmented(cache)
		key := flat(3, "k")
		require.NoError(t, o.PutAll([]store.Change{
			{Key: key, Row: store.Row{Value: []byte("1")}}, {Key: flat(3, "ik"), Row: store.Row{Value: []byte("1")}}}, record))
		require.NoError(t, o.Put(flat(3, "gone"), store.Row{}, record))
		copy(key, "reused.!")
		require.NoError(t, o.Commit(context.Background()))
		require.Equal(t, []string{"k=1", "gone"}, l.take())
		row, ok, err := o.Get(flat(3, "ik"), new([]byte))
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, "1", string(row.Value))
	}
}

func TestDroppedWritesAreLoggedAndCounted(t *testing.T) {
	o, l := newSegmented(false)
	require.NoError(t, o.Put(flat(3, "k"), store.Row{Value: []byte("1")}, &store.Record{Topic: "in", Offset: 1, Timestamp: 1}))
	require.NoError(t, o.Drop(flat(3, "k"), store.Row{Value: []byte("2")}, &store.Record{Topic: "in", Offset: 2, Timestamp: 1}))
	require.NoError(t, o.Drop(flat(3, "k"), store.Row{}, &store.Record{Offset: 3, Timestamp: 1}))
	require.NoError(t, o.Commit(context.Background()))
	require.Equal(t, []string{"k=1", "k=2", "k"}, l.take())
	row, _, err := o.Get(flat(3, "k"), new([]byte))
	require.NoError(t, err)
	require.Equal(t, "1", string(row.Value))
	c, _ := o.table.Checkpoint()
	offset, _ := c.Position.Offset("in", 0)
	require.EqualValues(t, 2, offset)
	l.fail = fmt.Errorf("full")
	require.Error(t, o.Drop(flat(3, "k"), store.Row{}, &store.Record{Timestamp: 1}))

	// With a cache they keep their place among the writes of the key.
	o, l = newSegmented(true)
	record := &store.Record{Timestamp: 1}
	require.NoError(t, o.Put(flat(3, "a"), store.Row{Value: []byte("1")}, record))
	require.NoError(t, o.Put(flat(3, "b"), store.Row{Value: []byte("1")}, record))
	require.NoError(t, o.Drop(flat(3, "a"), store.Row{Value: []byte("2")}, record))
	require.Empty(t, l.take())
	require.NoError(t, o.Flush(context.Background()))
	require.Equal(t, []string{"b=1", "a=2"}, l.take())
}

func TestCombsOverOverlayAndTable(t *testing.T) {
	o, _ := newSegmented(false)
	record := &store.Record{Timestamp: 1}
	put := func(prefix uint64, key, value string) {
		row := store.Row{}
		if value != "" {
			row.Value = []byte(value)
		}
		require.NoError(t, o.Put(flat(prefix, key), row, record))
	}
	put(1, "a", "old")
	put(1, "b", "old")
	put(1, "c", "old")
	put(7, "b", "old")
	require.NoError(t, o.Commit(context.Background()))
	put(1, "b", "new")
	put(2, "b", "new")
	put(2, "a", "new")
	put(7, "b", "")
	put(9, "b", "new")
	list := func(c base.Cursor) (out []string) {
		defer c.Close()
		for c.Next() {
			out = append(out, fmt.Sprint(binary.BigEndian.Uint64(c.Key()), " ", show(c.Key()[base.PrefixSize:], *c.Row())))
		}
		require.NoError(t, c.Err())
		return out
	}
	comb := base.Comb{First: 1, Last: 8, Span: base.Span{From: []byte("b"), To: []byte("b")}}
	require.Equal(t, []string{"1 b=new", "2 b=new"}, list(o.Comb(comb)))
	require.Equal(t, []string{"1 b=new", "2 b=new"}, list(o.View(true).Comb(comb)))
	require.Equal(t, []string{"1 b=old", "7 b=old"}, list(o.View(false).Comb(comb)))
	comb.Reverse, comb.To = true, nil
	require.Equal(t, []string{"2 b=new", "1 c=old", "1 b=new"}, list(o.Comb(comb)))
	comb.Last = 1<<64 - 1
	require.Equal(t, []string{"9 b=new", "2 b=new", "1 c=old", "1 b=new"}, list(o.Comb(comb)))
	o.Abort()
	require.Equal(t, []string{"7 b=old", "1 c=old", "1 b=old"}, list(o.Comb(comb)))
}
