package base_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/forebay-streams/forebay/internal/base"
)

func TestPrefix(t *testing.T) {
	for _, c := range []struct{ prefix, to []byte }{
		{nil, nil},
		{[]byte{}, nil},
		{[]byte{0}, []byte{1}},
		{[]byte("a"), []byte("b")},
		{[]byte("ab"), []byte("ac")},
		{[]byte{'a', 0xff}, []byte("b")},
		{[]byte{'a', 0xff, 0xff}, []byte("b")},
		{[]byte{0xfe, 0xff}, []byte{0xff}},
		{[]byte{0xff, 0}, []byte{0xff, 1}},
		{[]byte{0xff}, nil},
		{[]byte{0xff, 0xff, 0xff}, nil},
	} {
		span := base.Prefix(c.prefix)
		assert.Equal(t, base.Span{From: c.prefix, To: c.to, Exclusive: true}, span)
		assert.Equal(t, c.to, span.Upper())
	}
	prefix := []byte("ab")
	span := base.Prefix(prefix)
	assert.Equal(t, "ab", string(prefix), "not changed")
	span.To[0] = 'x'
	assert.Equal(t, "ab", string(prefix), "not shared")
}

// Every prefix of up to two bytes against every key of up to three.
func TestPrefixContainsWhatStartsWithIt(t *testing.T) {
	keys := words(3)
	for _, prefix := range words(2) {
		span := base.Prefix([]byte(prefix))
		for _, key := range keys {
			want := len(key) >= len(prefix) && key[:len(prefix)] == prefix
			assert.Equal(t, want, span.Contains([]byte(key)), "%x in %x", key, prefix)
		}
	}
}

// words are all keys of up to n bytes over the ends of the byte order.
func words(n int) []string {
	all, last := []string{""}, []string{""}
	for range n {
		var next []string
		for _, w := range last {
			for _, c := range []byte{0, 1, 0xfe, 0xff} {
				next = append(next, w+string([]byte{c}))
			}
		}
		all, last = append(all, next...), next
	}
	return all
}

func TestContains(t *testing.T) {
	for _, c := range []struct {
		span    base.Span
		in, out []string
	}{
		{base.Span{}, []string{"", "\x00", "a", "\xff\xff"}, nil},
		{base.Span{Exclusive: true}, []string{"", "\x00", "a", "\xff\xff"}, nil},
		{base.Span{From: []byte{}}, []string{"", "\x00", "a"}, nil},
		{base.Span{From: []byte("b")}, []string{"b", "b\x00", "c", "\xff"}, []string{"", "a", "a\xff"}},
		{base.Span{To: []byte("b")}, []string{"", "a", "a\xff", "b"}, []string{"b\x00", "c"}},
		{base.Span{To: []byte("b"), Exclusive: true}, []string{"", "a", "a\xff"}, []string{"b", "b\x00", "c"}},
		{base.Span{To: []byte{}}, []string{""}, []string{"\x00", "a"}},
		{base.Span{To: []byte{}, Exclusive: true}, nil, []string{"", "\x00", "a"}},
		{base.Span{From: []byte("b"), To: []byte("b")}, []string{"b"}, []string{"a\xff", "b\x00"}},
		{base.Span{From: []byte("b"), To: []byte("b"), Exclusive: true}, nil, []string{"a\xff", "b", "b\x00"}},
		{base.Span{From: []byte("c"), To: []byte("a")}, nil, []string{"a", "b", "c"}},
	} {
		c.span.Reverse = !c.span.Reverse
		for range 2 { // the direction changes nothing
			c.span.Reverse = !c.span.Reverse
			for _, key := range c.in {
				assert.True(t, c.span.Contains([]byte(key)), "%+v %x", c.span, key)
				assert.True(t, c.span.Below([]byte(key)), "%+v %x", c.span, key)
			}
			for _, key := range c.out {
				assert.False(t, c.span.Contains([]byte(key)), "%+v %x", c.span, key)
			}
		}
	}
	assert.True(t, base.Span{To: []byte{}}.Contains(nil), "a nil key is the empty key")
	assert.False(t, base.Span{To: []byte{}, Exclusive: true}.Contains(nil))
}

func TestUpper(t *testing.T) {
	for _, c := range []struct {
		span base.Span
		want []byte
	}{
		{base.Span{}, nil},
		{base.Span{Exclusive: true}, nil},
		{base.Span{To: []byte{}}, []byte{0}},
		{base.Span{To: []byte{}, Exclusive: true}, []byte{}},
		{base.Span{To: []byte("ab")}, []byte("ab\x00")},
		{base.Span{To: []byte("ab"), Exclusive: true}, []byte("ab")},
		{base.Span{To: []byte{0xff}}, []byte{0xff, 0}},
	} {
		upper := c.span.Upper()
		assert.Equal(t, c.want, upper, fmt.Sprintf("%+v", c.span))
		for _, key := range words(3) {
			assert.Equal(t, c.span.Below([]byte(key)), upper == nil || key < string(upper), "%+v %x", c.span, key)
		}
	}
	to := append(make([]byte, 0, 8), "ab"...)
	base.Span{To: to}.Upper()[0] = 'x'
	assert.Equal(t, "ab", string(to), "not shared")
}
