package versioned

import (
	"iter"
	"sync"

	"github.com/forebay-streams/forebay/internal/family"
	"github.com/forebay-streams/forebay/internal/overlay"
	"github.com/forebay-streams/forebay/internal/versions"
	"github.com/forebay-streams/forebay/store"
)

// View reads a store from any goroutine while the owner writes. It sees whole commits,
// or with store.ReadUncommitted what the owner sees. It needs no closing, and serves
// until the store is closed. Keys are serialized with empty headers.
type View[K, V any] struct {
	store       *Store[K, V]
	uncommitted bool
	reader      *overlay.View
	pool        sync.Pool
}

// reading is what one read needs.
type reading struct {
	scratch family.Scratch
	lookup  versions.Lookup
}

// View returns a view. Many goroutines may share it.
func (s *Store[K, V]) View(isolation store.Isolation) *View[K, V] {
	uncommitted := isolation == store.ReadUncommitted
	return &View[K, V]{store: s, uncommitted: uncommitted, reader: s.core.Overlay.View(uncommitted),
		pool: sync.Pool{New: func() any { return &reading{lookup: versions.Lookup{Damaged: s.report.damagedRow}} }}}
}

// Get returns the latest version; ok is false when there is none.
func (v *View[K, V]) Get(key K) (out Version[V], ok bool, err error) {
	return v.read("get", key, func(r *reading, k []byte) (versions.Version, bool, error) {
		return r.lookup.Latest(v.reader, k) // one row
	})
}

// GetAsOf returns the version that was valid at a time, as [Store.GetAsOf] does.
func (v *View[K, V]) GetAsOf(key K, at int64) (out Version[V], ok bool, err error) {
	return v.read("get as of", key, func(r *reading, k []byte) (found versions.Version, ok bool, err error) {
		err = v.together(func(rows versions.Reader, times *versions.Times) (err error) {
			found, ok, err = r.lookup.AsOf(rows, times, k, at)
			return err
		})
		return found, ok, err
	})
}

// History walks over versions as [Store.History] does.
func (v *View[K, V]) History(key K, from, to int64, order Order) iter.Seq2[Version[V], error] {
	return v.store.walk(from, to, order, func(sc *family.Scratch, w *versions.Walk) error {
		k, err := v.store.codec.LookupKey(sc, store.Headers{}, key)
		if err != nil {
			return err
		}
		return v.together(func(rows versions.Reader, times *versions.Times) error { return w.Read(rows, times, k) })
	})
}

func (v *View[K, V]) read(op string, key K, look func(*reading, []byte) (versions.Version, bool, error)) (out Version[V], ok bool, err error) {
	err = v.store.core.Do(op, func() error {
		r := v.pool.Get().(*reading)
		defer v.pool.Put(r)
		k, err := v.store.codec.LookupKey(&r.scratch, store.Headers{}, key)
		if err == nil {
			out, ok, err = found(&v.store.codec, &r.scratch)(look(r, k))
		}
		return err
	})
	return out, ok, err
}

// together reads several rows as they are at one moment. If a commit came between, read
// runs again, on a snapshot.
func (v *View[K, V]) together(read func(versions.Reader, *versions.Times) error) error {
	t := v.store.table
	once := func(fixed bool) error {
		return v.reader.Together(fixed, func(rows overlay.Getter) error {
			// After the snapshot and under the owner's lock: see table.
			times := t.times(v.uncommitted)
			return read(rows, &times)
		})
	}
	before := t.commits.Load()
	if before%2 == 0 {
		if err := once(false); t.commits.Load() == before {
			return err
		}
	}
	return once(true)
}
