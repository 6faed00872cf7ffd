package kv

import (
	"iter"
	"sync"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/overlay"
	"github.com/forebay-streams/forebay/store"
)

// View reads a store from any goroutine while the owner writes. It sees whole commits,
// or with store.ReadUncommitted what the owner sees. It needs no closing, and serves
// until the store is closed. Keys are serialized with empty headers.
type View[K, V any] struct {
	store   *Store[K, V]
	reader  *overlay.View
	scratch sync.Pool
}

// View returns a view. Many goroutines may share it.
func (s *Store[K, V]) View(isolation store.Isolation) *View[K, V] {
	return &View[K, V]{store: s, reader: s.overlay.View(isolation == store.ReadUncommitted),
		scratch: sync.Pool{New: func() any { return new(scratch) }}}
}

// Get returns the value of a key; ok is false when there is none.
func (v *View[K, V]) Get(key K) (value store.Value[V], ok bool, err error) {
	if err := v.store.check("get"); err != nil {
		return value, false, err
	}
	s := v.scratch.Get().(*scratch)
	defer v.scratch.Put(s)
	k, err := v.store.lookupKey(s, store.Headers{}, key)
	if err == nil {
		value, ok, err = v.store.get(v.reader, k, s)
	}
	return value, ok, v.store.fail("get", err)
}

// Range scans the rows between the bounds as [Store.Range] does.
func (v *View[K, V]) Range(bounds ...Bound[K]) iter.Seq2[Row[K, V], error] {
	return v.scan(bounds, false)
}

// ReverseRange is Range in descending order.
func (v *View[K, V]) ReverseRange(bounds ...Bound[K]) iter.Seq2[Row[K, V], error] {
	return v.scan(bounds, true)
}

// All scans every row in ascending order.
func (v *View[K, V]) All() iter.Seq2[Row[K, V], error] { return v.scan(nil, false) }

// ReverseAll scans every row in descending order.
func (v *View[K, V]) ReverseAll() iter.Seq2[Row[K, V], error] { return v.scan(nil, true) }

// Prefix scans the rows whose serialized key starts with prefix.
func (v *View[K, V]) Prefix(prefix []byte) iter.Seq2[Row[K, V], error] {
	return v.source().scan(prefixSpan(prefix))
}

func (v *View[K, V]) scan(bounds []Bound[K], reverse bool) iter.Seq2[Row[K, V], error] {
	return v.source().scan(func(s *scratch) (base.Span, error) {
		return v.store.span(s, store.Headers{}, bounds, reverse)
	})
}

func (v *View[K, V]) source() source[K, V] {
	s := v.store.source()
	s.reader = v.reader
	return s
}
