package store_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/formatdoc"
	"github.com/forebay-streams/forebay/store"
)

// forms returns headers equal to the list in every state that they can have inside.
func forms(t *testing.T, list ...store.Header) map[string]store.Headers {
	t.Helper()
	block, err := store.NewHeaders(list...).AppendBlock(nil)
	require.NoError(t, err)
	row, err := store.WithHeaders.Encode(store.Row{Value: []byte("v"), Headers: store.NewHeaders(list...)})
	require.NoError(t, err)
	borrowed, err := decodeBorrowed(store.WithHeaders, row)
	require.NoError(t, err)
	out := map[string]store.Headers{
		"list":     store.NewHeaders(list...),
		"block":    store.HeadersFromBlock(block),
		"borrowed": borrowed.Headers,
	}
	for cut := range list {
		block, err = store.NewHeaders(list[:cut]...).AppendBlock(nil)
		require.NoError(t, err)
		h := store.HeadersFromBlock(block)
		for _, x := range list[cut:] {
			require.NoError(t, h.Add(x.Key, x.Value))
		}
		out["added after "+string(rune('0'+cut))] = h
	}
	return out
}

func eachForm(t *testing.T, list []store.Header, test func(t *testing.T, h store.Headers)) {
	t.Helper()
	for name, h := range forms(t, list...) {
		t.Run(name, func(t *testing.T) { test(t, h) })
	}
}

func header(key, value string) store.Header { return store.Header{Key: key, Value: []byte(value)} }

func TestLooks(t *testing.T) {
	list := []store.Header{header("a", "1"), header("b", "2"), {Key: "a"}, header("", "x"), header("A", "")}
	eachForm(t, list, func(t *testing.T, h store.Headers) {
		assert.Equal(t, 5, h.Len())
		assert.False(t, h.Empty())
		assert.Equal(t, list, h.List())
		assert.Equal(t, append([]store.Header{{Key: "z"}}, list...), h.AppendTo([]store.Header{{Key: "z"}}))
		assert.Equal(t, list, slices.Collect(h.All()))

		last, ok := h.Last("a")
		assert.True(t, ok)
		assert.Equal(t, store.Header{Key: "a"}, last, "the last one, whose value is null")
		last, ok = h.Last("A")
		assert.True(t, ok)
		assert.Equal(t, header("A", ""), last, "keys are case-sensitive, empty is not null")
		last, ok = h.Last("")
		assert.True(t, ok)
		assert.Equal(t, header("", "x"), last)
		last, ok = h.Last("none")
		assert.False(t, ok)
		assert.Zero(t, last)

		assert.Equal(t, []store.Header{header("a", "1"), {Key: "a"}}, h.ForKey("a"))
		assert.Empty(t, h.ForKey("none"))

		n := 0
		for range h.All() {
			if n++; n == 2 {
				break
			}
		}
		assert.Equal(t, 2, n)
	})
}

func TestEmptyList(t *testing.T) {
	for name, h := range map[string]store.Headers{
		"zero": {}, "none": store.NewHeaders(), "nil block": store.HeadersFromBlock(nil),
		"empty block": store.HeadersFromBlock([]byte{}), "nil map": store.HeadersFromMap(nil),
	} {
		assert.True(t, h.Empty(), name)
		require.NoError(t, h.Err(), name)
		assert.Zero(t, h.Len(), name)
		assert.Nil(t, h.List(), name)
		assert.Equal(t, "headers(none)", h.String(), name)
		assert.True(t, h.Equal(store.Headers{}), name)
	}
}

func TestAdd(t *testing.T) {
	eachForm(t, []store.Header{header("a", "1")}, func(t *testing.T, h store.Headers) {
		require.NoError(t, h.Add("a", []byte("2")))
		require.NoError(t, h.Add("", nil))
		assert.Equal(t, []store.Header{header("a", "1"), header("a", "2"), {}}, h.List())
	})
}

func TestRemove(t *testing.T) {
	list := []store.Header{header("a", "1"), header("b", "2"), {Key: "a"}}
	eachForm(t, list, func(t *testing.T, h store.Headers) {
		require.NoError(t, h.Remove("none"))
		assert.Equal(t, list, h.List())
		require.NoError(t, h.Remove("a"))
		assert.Equal(t, list[1:2], h.List())
		require.NoError(t, h.Remove("b"))
		assert.True(t, h.Empty())
		require.NoError(t, h.Add("c", nil))
		assert.Equal(t, []store.Header{{Key: "c"}}, h.List())
	})
}

func TestReadOnly(t *testing.T) {
	list := []store.Header{header("a", "1")}
	eachForm(t, list, func(t *testing.T, h store.Headers) {
		assert.False(t, h.ReadOnly())
		writable := h
		h.SetReadOnly()
		assert.True(t, h.ReadOnly())
		require.ErrorIs(t, h.Add("a", nil), store.ErrReadOnly)
		require.ErrorIs(t, h.Remove("a"), store.ErrReadOnly)
		require.ErrorIs(t, h.Remove("none"), store.ErrReadOnly, "checked first")
		assert.Equal(t, list, h.List())
		assert.True(t, h.Equal(writable), "the mode does not count")
		assert.True(t, h.Clone().ReadOnly())

		c := h.Copy()
		require.NoError(t, c.Add("b", nil))
		assert.True(t, h.ReadOnly())
		assert.Equal(t, list, h.List())
		require.NoError(t, writable.Add("b", nil), "an earlier copy keeps its own mode")
	})
	broken := store.HeadersFromBlock([]byte{0})
	broken.SetReadOnly()
	require.ErrorIs(t, broken.Remove("a"), store.ErrReadOnly)
}

func TestCopiesAreIndependent(t *testing.T) {
	list := []store.Header{header("a", "1"), header("b", "2")}
	for _, copied := range []func(store.Headers) store.Headers{
		func(h store.Headers) store.Headers { return h },
		store.Headers.Copy,
		store.Headers.Clone,
	} {
		eachForm(t, list, func(t *testing.T, h store.Headers) {
			require.NoError(t, h.Add("c", nil)) // may leave room to grow
			c := copied(h)
			require.NoError(t, c.Add("copy", nil))
			require.NoError(t, h.Add("original", nil))
			require.NoError(t, c.Add("copy", nil))
			want := append(slices.Clone(list), store.Header{Key: "c"})
			assert.Equal(t, append(slices.Clone(want), store.Header{Key: "original"}), h.List())
			assert.Equal(t, append(want, store.Header{Key: "copy"}, store.Header{Key: "copy"}), c.List())
			require.NoError(t, c.Remove("a"))
			assert.Len(t, h.ForKey("a"), 1)
			require.NoError(t, h.Remove("b"))
			assert.Len(t, c.ForKey("b"), 1)
		})
	}
	eachForm(t, list, func(t *testing.T, h store.Headers) {
		got := h.List()
		got[0] = header("changed", "")
		assert.Equal(t, list, h.List(), "a returned list is the caller's")
	})
}

func TestNewHeadersCopiesItsList(t *testing.T) {
	list := []store.Header{header("a", "1"), header("b", "2")}
	h := store.NewHeaders(list...)
	list[0].Key = "changed"
	assert.Equal(t, "a", h.List()[0].Key)

	room := append(make([]store.Header, 0, 8), header("a", "1"))
	h = store.HeadersOf(room)
	require.NoError(t, h.Add("b", nil))
	assert.Zero(t, room[:2][1], "Add never writes into the given list")
}

func TestEqual(t *testing.T) {
	lists := [][]store.Header{
		nil,
		{header("k", "v")},
		{header("k", "")},
		{{Key: "k"}},
		{header("K", "v")},
		{header("k", "v"), header("k", "v")},
		{header("a", "1"), header("b", "2")},
		{header("b", "2"), header("a", "1")},
	}
	for i, a := range lists {
		for j, b := range lists {
			for _, x := range forms(t, a...) {
				for _, y := range forms(t, b...) {
					require.Equal(t, i == j, x.Equal(y), "%v %v", a, b)
				}
			}
		}
	}
}

func TestEqualOfUnreadable(t *testing.T) {
	broken, other := store.HeadersFromBlock([]byte{0}), store.HeadersFromBlock([]byte{1})
	assert.True(t, broken.Equal(store.HeadersFromBlock([]byte{0})))
	assert.False(t, broken.Equal(other))
	assert.False(t, broken.Equal(store.Headers{}), "unreadable is not empty")
	assert.False(t, store.Headers{}.Equal(broken))
	added := broken
	require.NoError(t, added.Add("k", nil))
	assert.False(t, broken.Equal(added))
	assert.False(t, added.Equal(store.NewHeaders(store.Header{Key: "k"})))
	same := broken
	require.NoError(t, same.Add("k", nil))
	assert.True(t, added.Equal(same))
}

func TestHeadersFromMap(t *testing.T) {
	h := store.HeadersFromMap(map[string][]byte{"b": []byte("2"), "": {}, "a": nil, "Z": []byte("1")})
	assert.Equal(t, []store.Header{header("", ""), header("Z", "1"), {Key: "a"}, header("b", "2")}, h.List())
}

func TestStringTellsSizesOnly(t *testing.T) {
	h := store.HeadersFromBlock([]byte{0})
	assert.Equal(t, "headers(1 bytes)", h.String(), "malformed, and nobody noticed")
	require.NoError(t, h.Add("secret", nil))
	assert.Equal(t, "headers(1 bytes + 1)", h.String())
	assert.Equal(t, "headers(2)", store.NewHeaders(header("a", ""), header("b", "")).String())
}

func TestBorrowedLooksSurviveTheBuffer(t *testing.T) {
	list := []store.Header{header("a", "11"), header("b", ""), {Key: "a"}, header("c", "3")}
	encoded, err := store.WithHeaders.Encode(store.Row{Value: []byte("value"), Headers: store.NewHeaders(list...)})
	require.NoError(t, err)
	buffer := slices.Clone(encoded)
	row, err := decodeBorrowed(store.WithHeaders, buffer)
	require.NoError(t, err)
	h := row.Headers

	last, ok := h.Last("c")
	require.True(t, ok)
	null, ok := h.Last("a")
	require.True(t, ok)
	empty, ok := h.Last("b")
	require.True(t, ok)
	all, listed, forKey, into := slices.Collect(h.All()), h.List(), h.ForKey("a"), h.AppendTo(nil)
	clone, cloned := h.Clone(), row.Clone()
	added := h
	require.NoError(t, added.Add("d", nil))
	added = added.Clone()
	removed := h
	require.NoError(t, removed.Remove("b"))

	for i := range buffer {
		buffer[i] = 0xee
	}
	assert.Equal(t, header("c", "3"), last)
	assert.Equal(t, store.Header{Key: "a"}, null)
	assert.Equal(t, header("b", ""), empty)
	assert.Equal(t, list, all)
	assert.Equal(t, list, listed)
	assert.Equal(t, list, into)
	assert.Equal(t, []store.Header{list[0], list[2]}, forKey)
	assert.Equal(t, list, clone.List())
	assert.Equal(t, list, cloned.Headers.List())
	assert.Equal(t, []byte("value"), cloned.Value)
	assert.Equal(t, append(slices.Clone(list), store.Header{Key: "d"}), added.List())
	assert.Equal(t, []store.Header{list[0], list[2], list[3]}, removed.List())
	require.Error(t, h.Err(), "the handle itself dies with the buffer")
}

func TestValuesCannotGrowIntoTheBlock(t *testing.T) {
	h := store.HeadersFromBlock(formatdoc.Hex(t, "04026b0276026b0276"))
	first := h.List()[0].Value
	_ = append(first, 0xee)
	last, _ := h.Last("k")
	assert.Equal(t, header("k", "v"), last)
	require.NoError(t, h.Err())
}

func TestAllocations(t *testing.T) {
	row, err := store.WithHeaders.Encode(threeHeaders())
	require.NoError(t, err)
	decoded, err := store.WithHeaders.Decode(row)
	require.NoError(t, err)
	h := decoded.Headers
	for name, f := range map[string]func(){
		"Decode":         func() { _, _ = store.WithHeaders.Decode(row) },
		"DecodeBorrowed": func() { _ = store.WithHeaders.DecodeBorrowed(row, new(store.Row)) },
		"Empty":          func() { _ = h.Empty() },
		"Last":           func() { _, _ = h.Last("tracestate") },
		"Err":            func() { _ = h.Err() },
		"Len":            func() { _ = h.Len() },
		"Equal":          func() { _ = h.Equal(decoded.Headers) },
	} {
		assert.Zero(t, testing.AllocsPerRun(100, f), name)
	}
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { _ = h.List() }), 2.0,
		"the slice, and one that the race detector causes: nothing for each header")
}
