package dsltest

import (
	"fmt"
	"iter"

	"github.com/forebay-streams/forebay/dsl"
	"github.com/forebay-streams/forebay/dsl/internal/engine"
	"github.com/forebay-streams/forebay/kv"
	"github.com/forebay-streams/forebay/session"
	"github.com/forebay-streams/forebay/store"
	"github.com/forebay-streams/forebay/windowed"
)

// Input pipes records of one topic.
type Input[K, V any] struct {
	driver *Driver
	topic  string
	key    store.Serde[K]
	value  store.Serde[V]
}

// NewInput returns an input.
func NewInput[K, V any](d *Driver, topic string, key store.Serde[K], value store.Serde[V]) *Input[K, V] {
	return &Input[K, V]{d, topic, key, value}
}

// Pipe gives a record to the topology and processes all that follows from it. Timestamps are
// ms since the epoch.
func (in *Input[K, V]) Pipe(key K, value V, timestamp int64, headers ...store.Header) error {
	r := Record{Topic: in.topic, Timestamp: timestamp, Headers: store.NewHeaders(headers...)}
	var err error
	if r.Key, err = in.key.Serialize(in.topic, &r.Headers, key); err != nil {
		return err
	}
	if r.Value, err = in.value.Serialize(in.topic, &r.Headers, value); err != nil {
		return err
	}
	return in.driver.Pipe(r)
}

// PipeNull is Pipe with a null value.
func (in *Input[K, V]) PipeNull(key K, timestamp int64, headers ...store.Header) error {
	r := Record{Topic: in.topic, Timestamp: timestamp, Headers: store.NewHeaders(headers...)}
	var err error
	if r.Key, err = in.key.Serialize(in.topic, &r.Headers, key); err != nil {
		return err
	}
	return in.driver.Pipe(r)
}

// Output reads records of one topic.
type Output[K, V any] struct {
	driver *Driver
	topic  string
	key    store.Serde[K]
	value  store.Serde[V]
}

// NewOutput returns an output.
func NewOutput[K, V any](d *Driver, topic string, key store.Serde[K], value store.Serde[V]) *Output[K, V] {
	return &Output[K, V]{d, topic, key, value}
}

// Message is a record with its types.
type Message[K, V any] struct {
	Key       K
	Value     V
	Null      bool // the value is null
	Timestamp int64
	Headers   store.Headers
}

// Read returns what was produced since the last Read.
func (out *Output[K, V]) Read() (list []Message[K, V], err error) {
	for _, r := range out.driver.Read(out.topic) {
		m := Message[K, V]{Null: r.Value == nil, Timestamp: r.Timestamp, Headers: r.Headers}
		h := r.Headers.Copy()
		if r.Key != nil {
			if m.Key, err = out.key.Deserialize(out.topic, &h, r.Key); err != nil {
				return list, err
			}
		}
		if r.Value != nil {
			if m.Value, err = out.value.Deserialize(out.topic, &h, r.Value); err != nil {
				return list, err
			}
		}
		list = append(list, m)
	}
	return list, nil
}

// Row is a row of a store, with its headers. Key is a dsl.Windowed for windows and sessions.
type Row[K, V any] struct {
	Key K
	store.Value[V]
}

// Rows returns all rows of a table's store, in the order of their keys' bytes.
func Rows[K, V any](d *Driver, name string, key store.Serde[K], value store.Serde[V]) ([]Row[K, V], error) {
	s, err := state[*kv.Store[[]byte, []byte]](d, name)
	if err != nil {
		return nil, err
	}
	return collect(s.All(), func(r kv.Row[[]byte, []byte]) (Row[K, V], error) { return read(name, key, value, r.Key, r.Value) })
}

// Get returns one row of a table's store.
func Get[K, V any](d *Driver, name string, key store.Serde[K], value store.Serde[V], of K) (v store.Value[V], ok bool, err error) {
	s, err := state[*kv.Store[[]byte, []byte]](d, name)
	if err != nil {
		return v, false, err
	}
	var h store.Headers
	k, err := key.Serialize(name, &h, of)
	if err != nil {
		return v, false, err
	}
	r, ok, err := s.Get(k)
	if err != nil || !ok {
		return v, false, err
	}
	row, err := read(name, key, value, k, r)
	return row.Value, err == nil, err
}

// Windows returns all rows of a store of time or sliding windows that it still shows.
func Windows[K, V any](d *Driver, name string, key store.Serde[K], value store.Serde[V]) ([]Row[dsl.Windowed[K], V], error) {
	s, err := state[*windowed.Store[[]byte, []byte]](d, name)
	if err != nil {
		return nil, err
	}
	return collect(s.All(), func(r windowed.Row[[]byte, []byte]) (Row[dsl.Windowed[K], V], error) {
		return readWindow(name, key, value, r.Key, r.Start, r.End, r.Value)
	})
}

// Sessions returns all sessions of a store that it still shows.
func Sessions[K, V any](d *Driver, name string, key store.Serde[K], value store.Serde[V]) ([]Row[dsl.Windowed[K], V], error) {
	s, err := state[*session.Store[[]byte, []byte]](d, name)
	if err != nil {
		return nil, err
	}
	return collect(s.FetchKeys(), func(r session.Row[[]byte, []byte]) (Row[dsl.Windowed[K], V], error) {
		return readWindow(name, key, value, r.Key, r.Start, r.End, r.Value)
	})
}

// readWindow is read for a row of a window or session.
func readWindow[K, V any](name string, key store.Serde[K], value store.Serde[V], k []byte, start, end int64, v store.Value[[]byte]) (out Row[dsl.Windowed[K], V], err error) {
	row, err := read(name, key, value, k, v)
	return Row[dsl.Windowed[K], V]{Key: dsl.Windowed[K]{Key: row.Key, Start: start, End: end}, Value: row.Value}, err
}

// collect reads all rows of a scan.
func collect[R, T any](scan iter.Seq2[R, error], of func(R) (T, error)) (rows []T, err error) {
	for r, err := range scan {
		if err != nil {
			return nil, err
		}
		row, err := of(r)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func state[S engine.State](d *Driver, name string) (s S, err error) {
	for _, t := range d.tasks {
		if open, ok := t.State(name); ok {
			if s, ok = open.(S); !ok {
				return s, fmt.Errorf("the store %q is of another kind: %T", name, open)
			}
			return s, nil
		}
	}
	return s, fmt.Errorf("the topology has no store %q", name)
}

func read[K, V any](name string, key store.Serde[K], value store.Serde[V], k []byte, v store.Value[[]byte]) (r Row[K, V], err error) {
	r.Timestamp, r.Headers = v.Timestamp, v.Headers.Clone()
	h := r.Headers.Copy()
	if r.Data, err = value.Deserialize(name, &h, v.Data); err != nil {
		return r, err
	}
	r.Key, err = key.Deserialize(name, &h, k)
	return r, err
}
