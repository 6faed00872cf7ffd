package single

import (
	"fmt"
	"iter"

	"github.com/forebay-streams/forebay/kv"
	"github.com/forebay-streams/forebay/store"
)

// View reads a table's store from any goroutine, while the application runs: committed rows
// with their timestamps and headers.
type View[K, V any] struct {
	of    *kv.View[[]byte, []byte]
	name  string
	key   store.Serde[K]
	value store.Serde[V]
}

// NewView returns a view of a key-value store of the topology.
func NewView[K, V any](a *App, name string, key store.Serde[K], value store.Serde[V]) (*View[K, V], error) {
	for _, t := range a.tasks {
		if s, ok := t.State(name); ok {
			if s, ok := s.(*kv.Store[[]byte, []byte]); ok {
				return &View[K, V]{s.View(store.ReadCommitted), name, key, value}, nil
			}
			return nil, fmt.Errorf("the store %q is not a key-value store", name)
		}
	}
	return nil, fmt.Errorf("the topology has no store %q", name)
}

// Get returns the row of a key; ok is false when there is none.
func (v *View[K, V]) Get(key K) (row store.Value[V], ok bool, err error) {
	k, err := v.bytes(key)
	if err != nil {
		return row, false, err
	}
	r, ok, err := v.of.Get(k)
	if err != nil || !ok {
		return row, false, err
	}
	full, err := v.row(kv.Row[[]byte, []byte]{Key: k, Value: r})
	return full.Value, err == nil, err
}

// Range scans the rows between two keys, both included, in the order of their bytes.
func (v *View[K, V]) Range(from, to K) iter.Seq2[kv.Row[K, V], error] {
	return func(yield func(kv.Row[K, V], error) bool) {
		first, err := v.bytes(from)
		if err != nil {
			yield(kv.Row[K, V]{}, err)
			return
		}
		last, err := v.bytes(to)
		if err != nil {
			yield(kv.Row[K, V]{}, err)
			return
		}
		v.scan(v.of.Range(kv.From(first), kv.To(last)))(yield)
	}
}

// All scans every row.
func (v *View[K, V]) All() iter.Seq2[kv.Row[K, V], error] { return v.scan(v.of.All()) }

func (v *View[K, V]) scan(rows iter.Seq2[kv.Row[[]byte, []byte], error]) iter.Seq2[kv.Row[K, V], error] {
	return func(yield func(kv.Row[K, V], error) bool) {
		for r, err := range rows {
			var row kv.Row[K, V]
			if err == nil {
				row, err = v.row(r)
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

func (v *View[K, V]) bytes(key K) ([]byte, error) {
	var h store.Headers
	return v.key.Serialize(v.name, &h, key)
}

// row gives the serdes a private view of the row's headers.
func (v *View[K, V]) row(r kv.Row[[]byte, []byte]) (out kv.Row[K, V], err error) {
	h := r.Headers.Copy()
	out.Timestamp, out.Headers = r.Timestamp, r.Headers.Clone()
	if out.Data, err = v.value.Deserialize(v.name, &h, r.Data); err != nil {
		return out, err
	}
	out.Key, err = v.key.Deserialize(v.name, &h, r.Key)
	return out, err
}
