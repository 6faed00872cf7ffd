package store_test

import (
	"bytes"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/formatdoc"
	"github.com/forebay-streams/forebay/store"
)

// seed adds one column of each row of a page's vectors.
func seed(f *testing.F, page, block string, columns, column int) {
	for _, row := range formatdoc.Rows(f, page, block, columns) {
		f.Add(formatdoc.Hex(f, row[column]))
	}
}

// requireReadable checks a good block: whatever is read from it encodes to the same
// bytes, and nobody had to see the stored form for that.
func requireReadable(t *testing.T, h store.Headers, block []byte) {
	t.Helper()
	list := h.List()
	require.Len(t, list, h.Len())
	again, err := store.NewHeaders(list...).AppendBlock(nil)
	require.NoError(t, err)
	require.True(t, bytes.Equal(block, again), "%x became %x", block, again)
	for i, x := range list {
		require.True(t, utf8.ValidString(x.Key))
		if i > 3 {
			continue // look-ups of all would take quadratic time
		}
		all := h.ForKey(x.Key)
		last, ok := h.Last(x.Key)
		require.True(t, ok)
		require.True(t, sameHeader(all[len(all)-1], last))
	}
	require.True(t, h.Equal(store.HeadersOf(list)))
}

func FuzzHeadersBlock(f *testing.F) {
	seed(f, "headers.md", "block", 2, 1)
	seed(f, "headers.md", "block-malformed", 2, 0)
	f.Fuzz(func(t *testing.T, block []byte) {
		h := store.HeadersFromBlock(block)
		added := h
		require.NoError(t, added.Add("k", []byte("v")))
		if h.Err() != nil {
			requireUnreadable(t, h)
			requireUnreadable(t, added)
			return
		}
		requireReadable(t, h, block)
		require.Equal(t, h.Len()+1, added.Len())
		encoded, err := added.AppendBlock(nil)
		require.NoError(t, err)
		requireReadable(t, added, encoded)
	})
}

func FuzzLayoutDecode(f *testing.F) {
	seed(f, "values.md", "values", 5, 4)
	seed(f, "values.md", "malformed", 4, 1)
	seed(f, "values.md", "malformed-conversions", 4, 1)
	f.Fuzz(func(t *testing.T, b []byte) {
		if b == nil {
			b = []byte{}
		}
		for _, l := range layouts {
			r, err := l.Decode(b)
			if err != nil {
				require.ErrorIs(t, err, store.ErrCorrupt)
				require.True(t, r.Tombstone())
				require.True(t, r.Headers.Empty())
				_, err = l.Convert(nil, store.Plain, b)
				require.ErrorIs(t, err, store.ErrCorrupt)
				continue
			}
			require.False(t, r.Tombstone())
			if block, err := r.Headers.AppendBlock(nil); r.Headers.Err() == nil {
				require.NoError(t, err)
				requireReadable(t, r.Headers, block)
			} else {
				requireUnreadable(t, r.Headers)
			}
			again, err := l.Append(nil, r)
			require.NoError(t, err)
			require.True(t, bytes.Equal(b, again))
			for _, to := range layouts {
				want, err := to.Append(nil, r)
				require.NoError(t, err)
				got, err := l.Convert(nil, to, b)
				require.NoError(t, err)
				require.True(t, bytes.Equal(want, got))
			}
		}
	})
}

func FuzzPosition(f *testing.F) {
	seed(f, "position.md", "position", 3, 2)
	seed(f, "position.md", "position-malformed", 2, 0)
	for _, row := range formatdoc.Rows(f, "position.md", "position", 3) {
		f.Add(parsePosition(f, row[0]).Bytes())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := store.DecodePosition(b)
		if err != nil {
			require.ErrorIs(t, err, store.ErrCorrupt)
			require.True(t, p.Empty())
			return
		}
		again, err := store.DecodePosition(p.Bytes())
		require.NoError(t, err)
		require.True(t, p.Equal(again))
		require.Equal(t, p.Bytes(), again.Bytes())
	})
}

func FuzzInterchange(f *testing.F) {
	for _, row := range formatdoc.Rows(f, "interchange.md", "interchange", 3) {
		f.Add(formatdoc.Hex(f, row[2]), row[0] == "be")
	}
	for _, row := range formatdoc.Rows(f, "interchange.md", "interchange-malformed", 3) {
		f.Add(formatdoc.Hex(f, row[1]), row[0] == "be")
	}
	f.Fuzz(func(t *testing.T, b []byte, big bool) {
		order := orders["le"]
		if big {
			order = orders["be"]
		}
		h, rest, err := store.CutInterchange(b, order)
		if err != nil {
			require.ErrorIs(t, err, store.ErrCorrupt)
			require.True(t, h.Empty())
			require.Nil(t, rest)
			return
		}
		require.NoError(t, h.Err())
		block, err := h.AppendBlock(nil)
		require.NoError(t, err)
		requireReadable(t, h, block)
		again, err := store.AppendInterchange(nil, h, order)
		require.NoError(t, err)
		require.True(t, bytes.Equal(b, append(again, rest...)))
		_, err = store.ParseInterchange(b, order)
		require.Equal(t, len(rest) > 0, err != nil)
	})
}

// subpart is the length of the longest start of s that some sequence of up to four
// bytes can have, surrogates counted as sequences.
func subpart(s string) int {
	type span struct{ from, to byte }
	tail := span{0x80, 0xbf}
	for _, form := range [][]span{
		{{0x00, 0x7f}},
		{{0xc2, 0xdf}, tail},
		{{0xe0, 0xe0}, {0xa0, 0xbf}, tail},
		{{0xe1, 0xef}, tail, tail},
		{{0xf0, 0xf0}, {0x90, 0xbf}, tail, tail},
		{{0xf1, 0xf3}, tail, tail, tail},
		{{0xf4, 0xf4}, {0x80, 0x8f}, tail, tail},
	} {
		n := 0
		for n < len(form) && n < len(s) && s[n] >= form[n].from && s[n] <= form[n].to {
			n++
		}
		if n > 0 {
			return n
		}
	}
	return 1
}

func FuzzJavaKey(f *testing.F) {
	for _, row := range formatdoc.Rows(f, "headers.md", "utf8", 2) {
		f.Add(string(formatdoc.Hex(f, row[0])))
	}
	f.Fuzz(func(t *testing.T, key string) {
		got := store.JavaKey(key)
		require.True(t, utf8.ValidString(got))
		require.Equal(t, got, store.JavaKey(got))
		if utf8.ValidString(key) {
			require.Equal(t, key, got)
		}
		var want []byte
		for rest := key; rest != ""; {
			n := subpart(rest)
			if utf8.ValidString(rest[:n]) {
				want = append(want, rest[:n]...)
			} else {
				want = append(want, 0xef, 0xbf, 0xbd)
			}
			rest = rest[n:]
		}
		require.Equal(t, string(want), got)
	})
}
