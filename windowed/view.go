package windowed

import (
	"iter"
	"math"
	"sync"

	"github.com/forebay-streams/forebay/internal/family"
	"github.com/forebay-streams/forebay/internal/overlay"
	"github.com/forebay-streams/forebay/internal/segment"
	"github.com/forebay-streams/forebay/store"
)

// View reads a store from any goroutine while the owner writes. It sees whole commits,
// or with store.ReadUncommitted what the owner sees. It needs no closing, and serves
// until the store is closed. Keys are serialized with empty headers.
type View[K, V any] struct {
	store       *Store[K, V]
	reader      *overlay.View
	uncommitted bool
	scratch     sync.Pool
}

type viewScratch struct{ row, flat family.Scratch }

// View returns a view. Many goroutines may share it.
func (s *Store[K, V]) View(isolation store.Isolation) *View[K, V] {
	uncommitted := isolation == store.ReadUncommitted
	return &View[K, V]{store: s, reader: s.core.Overlay.View(uncommitted), uncommitted: uncommitted,
		scratch: sync.Pool{New: func() any { return new(viewScratch) }}}
}

func noHeaders() store.Headers { return store.Headers{} }

// settled is the state when no commit is under way.
func (v *View[K, V]) settled() (at segment.State) {
	v.store.clock.Moment(v.uncommitted, func(s segment.State) { at = s })
	return at
}

func (v *View[K, V]) there() where {
	return where{v.reader, func(open func(segment.State)) { v.store.clock.Moment(v.uncommitted, open) }, noHeaders}
}

// Fetch returns the value under a key and the start of a window, as [Store.Fetch] does.
func (v *View[K, V]) Fetch(key K, start int64) (value store.Value[V], ok bool, err error) {
	err = v.store.core.Do("fetch", func() error {
		s := v.scratch.Get().(*viewScratch)
		defer v.scratch.Put(s)
		k, err := v.store.codec.LookupKey(&s.row, noHeaders(), key)
		if err != nil {
			return err
		}
		value, ok, err = v.store.fetch(v.reader, v.store.clock.At(v.uncommitted), v.settled, k, start, &s.row, &s.flat)
		return err
	})
	return value, ok, err
}

// FetchRange scans the windows of one key, as [Store.FetchRange] does.
func (v *View[K, V]) FetchRange(key K, from, to int64) iter.Seq2[Row[K, V], error] {
	return v.store.one(v.there(), key, from, to, false)
}

// BackwardFetchRange is FetchRange in the opposite order.
func (v *View[K, V]) BackwardFetchRange(key K, from, to int64) iter.Seq2[Row[K, V], error] {
	return v.store.one(v.there(), key, from, to, true)
}

// FetchKeys scans the windows of a range of keys, as [Store.FetchKeys] does.
func (v *View[K, V]) FetchKeys(from, to int64, bounds ...Bound[K]) iter.Seq2[Row[K, V], error] {
	return v.store.keys(v.there(), from, to, bounds, false)
}

// BackwardFetchKeys is FetchKeys in the opposite order.
func (v *View[K, V]) BackwardFetchKeys(from, to int64, bounds ...Bound[K]) iter.Seq2[Row[K, V], error] {
	return v.store.keys(v.there(), from, to, bounds, true)
}

// FetchAll scans the windows of all keys, as [Store.FetchAll] does.
func (v *View[K, V]) FetchAll(from, to int64) iter.Seq2[Row[K, V], error] {
	return v.store.times(v.there(), from, to, false)
}

// BackwardFetchAll is FetchAll in the opposite order.
func (v *View[K, V]) BackwardFetchAll(from, to int64) iter.Seq2[Row[K, V], error] {
	return v.store.times(v.there(), from, to, true)
}

// All scans every window that has not expired.
func (v *View[K, V]) All() iter.Seq2[Row[K, V], error] { return v.FetchAll(0, math.MaxInt64) }

// BackwardAll is All in the opposite order.
func (v *View[K, V]) BackwardAll() iter.Seq2[Row[K, V], error] {
	return v.BackwardFetchAll(0, math.MaxInt64)
}
