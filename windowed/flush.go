package windowed

import (
	"github.com/forebay-streams/forebay/internal/overlay"
	"github.com/forebay-streams/forebay/store"
)

// Flushed is a write that left the cache; see [Store.SetFlushListener].
type Flushed[K, V any] struct {
	Key        K
	Start, End int64
	store.Flushed[V]
}

// SetFlushListener forwards writes when the cache is flushed, as a table or an aggregation
// of Kafka Streams does: the listener is called once per written key and flush, in the order
// of the last writes, each after its changelog record; with oldValues it gets what was there
// before. A flush comes with Flush and Commit, or when a cache must make room, which any
// call of any store of the budget may bring about. A delete of what the store never had is
// then neither logged nor forwarded. What was written before the listener was set is not
// forwarded. False: the store has no cache, and never calls the listener. Nil removes it.
//
// During the call the store works under the record of that write, and the listener may
// read and write this store and others: what it writes here is flushed by the same flush.
// It may not flush, commit, abort or close this store. After its error every Flush and
// Commit fails with it until [Store.Abort], since something was not forwarded.
func (s *Store[K, V]) SetFlushListener(listener func(Flushed[K, V]) error, oldValues bool) (cached bool) {
	l := &s.layout
	f := overlay.Forward{Old: oldValues, Shown: func(flat []byte) bool {
		r, err := l.parse(l.rows, flat)
		return err == nil && r.Start >= l.oldest(s.clock.Now())
	}}
	if listener != nil {
		f.Call = func(f overlay.Forwarded) error {
			return s.inner(func() error {
				r, err := l.parse(l.rows, f.Key)
				if err != nil {
					return err
				}
				out := Flushed[K, V]{Start: r.Start, End: l.end(r.Start)}
				if out.Key, out.Flushed, err = s.codec.DecodeFlushed(&s.scratch, r.Key, &f); err != nil {
					return err
				}
				return listener(out)
			})
		}
	}
	return s.core.Forward(f)
}

// inner runs a listener, which may call the store.
func (s *Store[K, V]) inner(call func() error) error {
	return s.scratch.Inner(&s.spare[0], func() error {
		return s.owner.Inner(&s.spare[1], func() error { return s.indexed.Inner(&s.spare[2], call) })
	})
}
