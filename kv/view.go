package kv

import (
	"iter"
	"sync"

	"github.com/forebay-streams/forebay/internal/family"
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
	return &View[K, V]{store: s, reader: s.core.Overlay.View(isolation == store.ReadUncommitted),
		scratch: sync.Pool{New: func() any { return new(family.Scratch) }}}
}

func noHeaders() store.Headers { return store.Headers{} }

// Get returns the value of a key; ok is false when there is none.
func (v *View[K, V]) Get(key K) (value store.Value[V], ok bool, err error) {
	err = v.store.core.Do("get", func() error {
		s := v.scratch.Get().(*family.Scratch)
		defer v.scratch.Put(s)
		k, err := v.store.codec.LookupKey(s, noHeaders(), key)
		if err != nil {
			return err
		}
		value, ok, err = v.store.codec.Get(v.reader, k, s)
		return err
	})
	return value, ok, err
}

// Range scans the rows between the bounds as [Store.Range] does.
func (v *View[K, V]) Range(bounds ...Bound[K]) iter.Seq2[Row[K, V], error] {
	return v.store.between(v.reader, noHeaders, bounds, false)
}

// ReverseRange is Range in descending order.
func (v *View[K, V]) ReverseRange(bounds ...Bound[K]) iter.Seq2[Row[K, V], error] {
	return v.store.between(v.reader, noHeaders, bounds, true)
}

// All scans every row in ascending order.
func (v *View[K, V]) All() iter.Seq2[Row[K, V], error] { return v.Range() }

// ReverseAll scans every row in descending order.
func (v *View[K, V]) ReverseAll() iter.Seq2[Row[K, V], error] { return v.ReverseRange() }

// Prefix scans the rows whose serialized key starts with prefix.
func (v *View[K, V]) Prefix(prefix []byte) iter.Seq2[Row[K, V], error] {
	return v.store.prefix(v.reader, prefix)
}
