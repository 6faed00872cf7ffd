package kv

import (
	"github.com/forebay-streams/forebay/internal/overlay"
	"github.com/forebay-streams/forebay/store"
)

// Flushed is a write that left the cache; see [Store.SetFlushListener].
type Flushed[K, V any] struct {
	Key K
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
	f := overlay.Forward{Old: oldValues}
	if listener != nil {
		f.Call = func(f overlay.Forwarded) error {
			return s.scratch.Inner(&s.spare, func() (err error) {
				var out Flushed[K, V]
				if out.Key, out.Flushed, err = s.codec.DecodeFlushed(&s.scratch, f.Key, &f); err != nil {
					return err
				}
				return listener(out)
			})
		}
	}
	return s.core.Forward(f)
}
