package session

import (
	"iter"
	"math"
	"sync"

	"github.com/forebay-streams/forebay/internal/family"
	"github.com/forebay-streams/forebay/internal/overlay"
	"github.com/forebay-streams/forebay/internal/segment"
	"github.com/forebay-streams/forebay/internal/windowkey"
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

// FetchSession returns the aggregate of exactly this session, as [Store.FetchSession] does.
func (v *View[K, V]) FetchSession(key K, start, end int64) (value store.Value[V], ok bool, err error) {
	err = v.store.core.Do("fetch", func() error {
		s := v.scratch.Get().(*viewScratch)
		defer v.scratch.Put(s)
		k, err := v.store.codec.LookupKey(&s.row, noHeaders(), key)
		if err != nil {
			return err
		}
		value, ok, err = v.store.fetch(v.reader, v.store.clock.At(v.uncommitted), v.settled, windowkey.SessionRow{Key: k, Start: start, End: end}, &s.row, &s.flat)
		return err
	})
	return value, ok, err
}

// FindSessions scans sessions of one key, as [Store.FindSessions] does.
func (v *View[K, V]) FindSessions(key K, earliestEnd, latestStart int64) iter.Seq2[Row[K, V], error] {
	return v.store.one(v.there(), key, earliestEnd, latestStart, false)
}

// BackwardFindSessions is FindSessions in the opposite order.
func (v *View[K, V]) BackwardFindSessions(key K, earliestEnd, latestStart int64) iter.Seq2[Row[K, V], error] {
	return v.store.one(v.there(), key, earliestEnd, latestStart, true)
}

// FindKeys scans sessions of a range of keys, as [Store.FindKeys] does.
func (v *View[K, V]) FindKeys(earliestEnd, latestStart int64, bounds ...Bound[K]) iter.Seq2[Row[K, V], error] {
	return v.store.keys(v.there(), earliestEnd, latestStart, bounds, false)
}

// BackwardFindKeys is FindKeys in the opposite order.
func (v *View[K, V]) BackwardFindKeys(earliestEnd, latestStart int64, bounds ...Bound[K]) iter.Seq2[Row[K, V], error] {
	return v.store.keys(v.there(), earliestEnd, latestStart, bounds, true)
}

// Fetch scans all sessions of one key.
func (v *View[K, V]) Fetch(key K) iter.Seq2[Row[K, V], error] {
	return v.FindSessions(key, 0, math.MaxInt64)
}

// BackwardFetch is Fetch in the opposite order.
func (v *View[K, V]) BackwardFetch(key K) iter.Seq2[Row[K, V], error] {
	return v.BackwardFindSessions(key, 0, math.MaxInt64)
}

// FetchKeys scans all sessions of a range of keys.
func (v *View[K, V]) FetchKeys(bounds ...Bound[K]) iter.Seq2[Row[K, V], error] {
	return v.FindKeys(0, math.MaxInt64, bounds...)
}

// BackwardFetchKeys is FetchKeys in the opposite order.
func (v *View[K, V]) BackwardFetchKeys(bounds ...Bound[K]) iter.Seq2[Row[K, V], error] {
	return v.BackwardFindKeys(0, math.MaxInt64, bounds...)
}

// FindByEnd scans sessions by their end, as [Store.FindByEnd] does.
func (v *View[K, V]) FindByEnd(earliestEnd, latestEnd int64) iter.Seq2[Row[K, V], error] {
	return v.store.byEnd(v.there(), earliestEnd, latestEnd)
}
