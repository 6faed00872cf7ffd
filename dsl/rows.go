package dsl

import (
	"github.com/forebay-streams/forebay/dsl/internal/engine"
	"github.com/forebay-streams/forebay/kv"
	"github.com/forebay-streams/forebay/store"
	"github.com/forebay-streams/forebay/versioned"
)

// row is a stored row as operators see it.
type row struct {
	value     any // never nil
	timestamp int64
	headers   store.Headers
}

// stored is what a header policy merges with: nil when there was no row.
func stored(r row, ok bool) *store.Headers {
	if !ok {
		return nil
	}
	return &r.headers
}

// format says how rows become bytes, and which headers ride on them.
type format[K, V any] struct {
	key     codec[K]
	value   codec[V]
	headers bool // the store keeps headers
	policy  HeaderPolicy
}

// written is a row on its way to the store.
type written struct {
	// record is the context under which the row is put.
	record store.Record
	key    []byte
	value  []byte        // nil: a delete
	rides  store.Headers // beside the value in store and changelog
	out    store.Headers // of what is forwarded
}

// encode turns a row into bytes. in is the record being processed, and stored what is merged
// with its headers. No two of in, rides and out share a list.
func (f *format[K, V]) encode(topic string, in store.Record, key, value any, stored *store.Headers) (w written, err error) {
	if value == nil || !f.headers || f.policy.empty() {
		return f.encodeOver(topic, in, key, value, store.Headers{})
	}
	h, err := f.policy.merge(stored, in.Headers)
	if err != nil {
		return w, err
	}
	return f.encodeOver(topic, in, key, value, h)
}

// copied is encode of a row that was read, and keeps its headers whatever the policy is.
func (f *format[K, V]) copied(topic string, in store.Record, key any, r row) (written, error) {
	return f.encodeOver(topic, in, key, r.value, r.headers)
}

// encodeOver is encode with the headers that the row keeps.
func (f *format[K, V]) encodeOver(topic string, in store.Record, key, value any, h store.Headers) (w written, err error) {
	w.record, w.out = in, in.Headers.Copy()
	if value == nil {
		return w, f.erase(topic, &w, key)
	}
	if f.headers && !f.policy.empty() {
		w.out, w.record.Headers = h.Copy(), h.Copy()
	}
	if !f.headers {
		h = in.Headers // for the serdes only
	}
	s := h.Copy()
	if w.key, err = f.keyBytes(topic, &s, key); err != nil {
		return w, err
	}
	if w.value, err = f.value.encode(topic, &s, value); err != nil {
		return w, err
	}
	if w.value == nil {
		w.record, w.out = in, in.Headers.Copy()
		return w, f.erase(topic, &w, key)
	}
	if f.headers {
		w.rides = withoutReplaced(h, s)
	}
	return w, nil
}

// erase makes a delete of the row.
func (f *format[K, V]) erase(topic string, w *written, key any) (err error) {
	s := w.record.Headers.Copy()
	w.key, err = f.keyBytes(topic, &s, key)
	w.record.Headers, w.value = s, nil
	return err
}

func (f *format[K, V]) keyBytes(topic string, h *store.Headers, key any) ([]byte, error) {
	b, err := f.key.encode(topic, h, key)
	if err == nil && b == nil {
		err = store.ErrNilKey
	}
	return b, err
}

// lookup serializes the key of a look-up over a private copy of the headers.
func (f *format[K, V]) lookup(topic string, in store.Headers, key any) ([]byte, error) {
	s := in.Copy()
	return f.keyBytes(topic, &s, key)
}

// read decodes a row of a store.
func (f *format[K, V]) read(topic string, in store.Headers, v store.Value[[]byte]) (row, error) {
	s := in
	if f.headers {
		s = v.Headers.Copy()
	}
	value, err := f.value.decode(topic, &s, v.Data)
	return row{value, v.Timestamp, v.Headers}, err
}

// readKey decodes the key of a row, which was written over its headers.
func (f *format[K, V]) readKey(topic string, h store.Headers, key []byte) (any, error) {
	s := h.Copy()
	return f.key.decode(topic, &s, key)
}

// withoutReplaced removes from merged headers what a serde has written anew behind them, so
// that policies that keep old headers do not collect a schema id with every update.
func withoutReplaced(merged, s store.Headers) store.Headers {
	n := merged.Len()
	if merged.Empty() || s.Len() == n {
		return s
	}
	list := s.List()
	added := map[string]bool{}
	for _, h := range list[min(n, len(list)):] {
		added[h.Key] = true
	}
	kept := make([]store.Header, 0, len(list))
	for i, h := range list {
		if i >= n || !added[h.Key] {
			kept = append(kept, h)
		}
	}
	return store.HeadersOf(kept)
}

// rows is the typed side of an operator's store with one row for each key.
type rows interface {
	// get returns the current row.
	get(in store.Record, key any) (row, bool, error)
	// getAsOf returns the row that was valid at a time: that of a versioned store. Others
	// have only the current one.
	getAsOf(in store.Record, key any, at int64) (row, bool, error)
	// put writes a row, or deletes it if the value is nil. old is what get answered.
	put(in store.Record, key, value any, timestamp int64, old *store.Headers) (placed, error)
	// forwardFlushed has changes forwarded when the cache is flushed. False: there is no
	// cache, and the operator forwards them.
	forwardFlushed(c *engine.Context, old bool) bool
}

// placed is what became of a put.
type placed struct {
	out      store.Headers // of what is forwarded
	rejected bool          // too late for a versioned store: nothing is forwarded
	stale    bool          // filed into the past of its key
}

// opener makes the rows of an operator when its task starts.
type opener func(c *engine.Context) (rows, error)

type kvRows[K, V any] struct {
	format[K, V]
	topic string
	store *kv.Store[[]byte, []byte]
}

func (t *kvRows[K, V]) get(in store.Record, key any) (r row, ok bool, err error) {
	k, err := t.lookup(t.topic, in.Headers, key)
	if err != nil {
		return r, false, err
	}
	v, ok, err := t.store.Get(k)
	if err != nil || !ok {
		return r, false, err
	}
	r, err = t.read(t.topic, in.Headers, v)
	return r, err == nil, err
}

func (t *kvRows[K, V]) getAsOf(in store.Record, key any, _ int64) (row, bool, error) {
	return t.get(in, key)
}

func (t *kvRows[K, V]) put(in store.Record, key, value any, timestamp int64, old *store.Headers) (placed, error) {
	w, err := t.encode(t.topic, in, key, value, old)
	if err != nil {
		return placed{}, err
	}
	t.store.SetRecord(w.record)
	if w.value == nil {
		err = t.store.Tombstone(w.key)
	} else {
		err = t.store.Put(w.key, store.Value[[]byte]{Data: w.value, Timestamp: timestamp, Headers: w.rides})
	}
	return placed{out: w.out}, err
}

func (t *kvRows[K, V]) forwardFlushed(c *engine.Context, old bool) bool {
	return t.store.SetFlushListener(func(f kv.Flushed[[]byte, []byte]) error {
		if c.Leaf() {
			return nil
		}
		r, err := t.flushed(t.topic, f.Key, f.Flushed)
		if err != nil {
			return err
		}
		return c.Under(f.Record, func() error { return c.Forward(r) })
	}, old)
}

// flushed is what a flush forwards: the row's timestamp, and the headers of the context.
func (f *format[K, V]) flushed(topic string, key []byte, w store.Flushed[[]byte]) (r engine.Record, err error) {
	r.Headers, r.Timestamp = w.Record.Headers.Copy(), w.Record.Timestamp
	over := w.Record.Headers
	for _, side := range []struct {
		v  *store.Value[[]byte]
		to *any
	}{{w.Old, &r.Old}, {w.New, &r.Value}} {
		if side.v == nil {
			continue
		}
		read, err := f.read(topic, w.Record.Headers, *side.v)
		if err != nil {
			return r, err
		}
		*side.to = read.value
	}
	if w.New != nil {
		if f.headers {
			over = w.New.Headers
		}
		r.Timestamp = max(w.New.Timestamp, 0)
	}
	r.Key, err = f.readKey(topic, over, key)
	return r, err
}

type versionedRows[K, V any] struct {
	format[K, V]
	topic string
	store *versioned.Store[[]byte, []byte]
}

func (t *versionedRows[K, V]) get(in store.Record, key any) (row, bool, error) {
	k, err := t.lookup(t.topic, in.Headers, key)
	if err != nil {
		return row{}, false, err
	}
	return t.version(in)(t.store.Get(k))
}

func (t *versionedRows[K, V]) getAsOf(in store.Record, key any, at int64) (row, bool, error) {
	k, err := t.lookup(t.topic, in.Headers, key)
	if err != nil {
		return row{}, false, err
	}
	return t.version(in)(t.store.GetAsOf(k, at))
}

func (t *versionedRows[K, V]) version(in store.Record) func(versioned.Version[[]byte], bool, error) (row, bool, error) {
	return func(v versioned.Version[[]byte], ok bool, err error) (row, bool, error) {
		if err != nil || !ok {
			return row{}, false, err
		}
		r, err := t.read(t.topic, in.Headers, v.Value)
		return r, err == nil, err
	}
}

// put merges with the version that is valid at the new one's time, not with old.
func (t *versionedRows[K, V]) put(in store.Record, key, value any, timestamp int64, _ *store.Headers) (p placed, err error) {
	var valid *store.Headers
	if t.headers && value != nil && !t.policy.simple() {
		r, ok, err := t.getAsOf(in, key, timestamp)
		if err != nil {
			return p, err
		}
		valid = stored(r, ok)
	}
	w, err := t.encode(t.topic, in, key, value, valid)
	if err != nil {
		return p, err
	}
	t.store.SetRecord(w.record)
	var at versioned.Placed
	if w.value == nil {
		at, err = t.store.Tombstone(w.key, timestamp)
	} else {
		at, err = t.store.Put(w.key, store.Value[[]byte]{Data: w.value, Timestamp: timestamp, Headers: w.rides})
	}
	return placed{out: w.out, rejected: at == versioned.TooOld, stale: at != versioned.Latest && at != versioned.TooOld}, err
}

func (t *versionedRows[K, V]) forwardFlushed(*engine.Context, bool) bool { return false }
