package policy_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/dsl/internal/policy"
	"github.com/forebay-streams/forebay/store"
)

// parse reads "a=1,b=2"; "k" alone has a null value, "∅" is the empty list.
func parse(text string) store.Headers {
	var list []store.Header
	for pair := range strings.SplitSeq(text, ",") {
		if pair == "∅" {
			continue
		}
		h := store.Header{}
		var value string
		var ok bool
		if h.Key, value, ok = strings.Cut(pair, "="); ok {
			h.Value = []byte(value)
		}
		list = append(list, h)
	}
	return store.NewHeaders(list...)
}

func show(h store.Headers) string {
	var out []string
	for h := range h.All() {
		if h.Value == nil {
			out = append(out, h.Key)
		} else {
			out = append(out, h.Key+"="+string(h.Value))
		}
	}
	if out == nil {
		return "∅"
	}
	return strings.Join(out, ",")
}

func union(t testing.TB, headers, size int) policy.Merge {
	m, err := policy.Union(headers, size, nil)
	require.NoError(t, err)
	return m
}

func TestPolicies(t *testing.T) {
	all := map[string]policy.Merge{
		"latest": policy.Latest, "empty": policy.Empty, "first": policy.First,
		"union": union(t, policy.DefaultMaxHeaders, policy.DefaultMaxBytes), "union 2": union(t, 2, policy.DefaultMaxBytes),
		"union 9 bytes": union(t, 64, 9),
		"tenant": policy.Func(func(stored *store.Headers, in store.Headers) store.Headers {
			if stored == nil {
				return in
			}
			return store.Headers{}
		}),
	}
	for _, c := range []struct {
		policy  string
		updates []string
		want    []string // after each
	}{
		{"latest", []string{"a=1", "a=2,b=9", "a=1", "∅"}, []string{"a=1", "a=2,b=9", "a=1", "∅"}},
		{"empty", []string{"a=1", "a=2,b=9", "a=1"}, []string{"∅", "∅", "∅"}},
		{"first", []string{"a=1", "a=2,b=9", "a=1"}, []string{"a=1", "a=1", "a=1"}},
		{"first", []string{"∅", "a=2"}, []string{"∅", "∅"}},
		{"union", []string{"a=1", "a=2,b=9", "a=1"}, []string{"a=1", "a=1,a=2,b=9", "a=2,b=9,a=1"}},
		{"union", []string{"a=1,a=1", "a=1"}, []string{"a=1", "a=1"}},
		{"union", []string{"a", "a=", "a"}, []string{"a", "a,a=", "a=,a"}},
		{"union 2", []string{"a=1", "a=2,b=9", "a=1"}, []string{"a=1", "a=2,b=9", "b=9,a=1"}},
		{"union 9 bytes", []string{"a=1,b=2", "c=3", "dddd=55555"}, []string{"a=1,b=2", "b=2,c=3", "∅"}},
		{"tenant", []string{"a=1", "a=2"}, []string{"a=1", "∅"}},
	} {
		var row *store.Headers
		for i, update := range c.updates {
			h, err := all[c.policy](row, parse(update))
			require.NoError(t, err)
			require.Equal(t, c.want[i], show(h), "%s, update %d", c.policy, i)
			row = &h
		}
	}
}

func TestUnionLimits(t *testing.T) {
	for _, limits := range [][2]int{{0, 1}, {1, 0}, {-1, 5}} {
		_, err := policy.Union(limits[0], limits[1], nil)
		require.ErrorIs(t, err, store.ErrConfig)
	}
	trimmed := 0
	m, err := policy.Union(2, 100, func(n int) { trimmed += n })
	require.NoError(t, err)
	stored := parse("a=1,b=2")
	_, err = m(&stored, parse("c=3,d=4,b=2"))
	require.NoError(t, err)
	assert.Equal(t, 2, trimmed, "a and c, not the double b")
}

// The rules of Union, on random lists: the last of equal headers, the order, the limits,
// and nothing trimmed without need.
func TestUnionRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	random := func() store.Headers {
		var list []store.Header
		for range r.IntN(70) {
			h := store.Header{Key: fmt.Sprint(r.IntN(30))}
			if n := r.IntN(80); n > 0 {
				h.Value = bytes.Repeat([]byte{byte(r.IntN(3))}, n-1)
			}
			list = append(list, h)
		}
		return store.NewHeaders(list...)
	}
	block := func(list []store.Header) []byte {
		b, err := store.NewHeaders(list...).AppendBlock(nil)
		require.NoError(t, err)
		return b
	}
	same := func(a, b store.Header) bool {
		return a.Key == b.Key && bytes.Equal(a.Value, b.Value) && (a.Value == nil) == (b.Value == nil)
	}
	for range 2000 {
		maxHeaders, maxBytes := 1+r.IntN(100), 1+r.IntN(3000)
		stored, incoming := random(), random()
		if r.IntN(2) == 0 {
			packed, err := stored.Pack()
			require.NoError(t, err)
			stored = packed
		}
		got, err := union(t, maxHeaders, maxBytes)(&stored, incoming)
		require.NoError(t, err)
		all := append(stored.List(), incoming.List()...)
		var want []store.Header
		for i, h := range all {
			if !slices.ContainsFunc(all[i+1:], func(o store.Header) bool { return same(h, o) }) {
				want = append(want, h)
			}
		}
		drop := 0
		for len(want)-drop > maxHeaders || len(block(want[drop:])) > maxBytes {
			drop++
		}
		require.True(t, store.NewHeaders(want[drop:]...).Equal(got))
		again, err := union(t, maxHeaders, maxBytes)(&got, incoming)
		require.NoError(t, err)
		if drop == 0 {
			require.True(t, got.Equal(again), "the same record twice changes nothing")
		}
	}
}

func TestIndependence(t *testing.T) {
	for name, m := range map[string]policy.Merge{
		"latest": policy.Latest, "first": policy.First, "union": union(t, 64, 8192),
		"func": policy.Func(func(stored *store.Headers, in store.Headers) store.Headers {
			if stored != nil {
				assert.Error(t, stored.Add("x", nil), "read-only")
				return *stored
			}
			assert.Error(t, in.Add("x", nil), "read-only")
			return in
		}),
	} {
		stored, incoming := parse("a=1"), parse("b=2")
		for _, old := range []*store.Headers{nil, &stored} {
			h, err := m(old, incoming)
			require.NoError(t, err)
			require.NoError(t, h.Add("later", nil), name)
			assert.Equal(t, "a=1", show(stored), name)
			assert.Equal(t, "b=2", show(incoming), name)
		}
	}
}

func TestMalformed(t *testing.T) {
	bad := store.HeadersFromBlock([]byte{9})
	good := parse("a=1")
	for name, m := range map[string]policy.Merge{
		"union": union(t, 64, 8192),
		"func":  policy.Func(func(_ *store.Headers, in store.Headers) store.Headers { t.Error("called"); return in }),
	} {
		_, err := m(&bad, good)
		require.ErrorIs(t, err, store.ErrCorrupt, name)
		_, err = m(&good, bad)
		require.ErrorIs(t, err, store.ErrCorrupt, name)
	}
	h, err := policy.Latest(&bad, good)
	require.NoError(t, err, "the stored list is not decoded")
	assert.Equal(t, "a=1", show(h))
}

// The worked example of merged sessions: two found, and the record that joins them.
func TestFold(t *testing.T) {
	for name, c := range map[string]struct {
		merge policy.Merge
		want  string
	}{
		"latest": {policy.Latest, "c=3"}, "first": {policy.First, "a=1"},
		"union": {union(t, 64, 8192), "a=1,b=2,c=3"}, "empty": {policy.Empty, "∅"},
	} {
		folded, err := policy.Fold(c.merge, []store.Headers{parse("a=1"), parse("b=2")})
		require.NoError(t, err)
		h, err := c.merge(folded, parse("c=3"))
		require.NoError(t, err)
		assert.Equal(t, c.want, show(h), name)
	}
	none, err := policy.Fold(policy.First, nil)
	require.NoError(t, err)
	assert.Nil(t, none)
	bad := store.HeadersFromBlock([]byte{9})
	_, err = policy.Fold(union(t, 64, 8192), []store.Headers{bad, bad})
	require.ErrorIs(t, err, store.ErrCorrupt)
}
