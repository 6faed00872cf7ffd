package dsl

import (
	"github.com/forebay-streams/forebay/dsl/internal/engine"
	"github.com/forebay-streams/forebay/store"
)

// rowFormat is a [format] whose types are gone, for operators that need them for nothing
// else.
type rowFormat interface {
	encode(topic string, in store.Record, key, value any, stored *store.Headers) (written, error)
	copied(topic string, in store.Record, key any, r row) (written, error)
	lookup(topic string, in store.Headers, key any) ([]byte, error)
	read(topic string, in store.Headers, v store.Value[[]byte]) (row, error)
	readKey(topic string, h store.Headers, key []byte) (any, error)
	flushed(topic string, key []byte, w store.Flushed[[]byte]) (engine.Record, error)
	bytes(topic string, h store.Headers, value any) ([]byte, error)
	plain(topic string, r store.Row) (any, error)
	kept() (headers bool, p HeaderPolicy)
	windowed(key any, start, end int64) any
}

func (f *format[K, V]) kept() (bool, HeaderPolicy) { return f.headers, f.policy }

// bytes serializes a value over a private copy of the headers.
func (f *format[K, V]) bytes(topic string, h store.Headers, value any) ([]byte, error) {
	s := h.Copy()
	return f.value.encode(topic, &s, value)
}

// plain deserializes a value that is kept outside of tables; a tombstone's is nil.
func (f *format[K, V]) plain(topic string, r store.Row) (any, error) {
	s := r.Headers.Copy()
	return f.value.decode(topic, &s, r.Value)
}

// windowed makes a windowed key.
func (f *format[K, V]) windowed(key any, start, end int64) any {
	return Windowed[K]{as[K](key), start, end}
}

// unwindow takes a windowed key apart.
func unwindow(key any) (inner any, start, end int64) {
	return key.(interface{ parts() (any, int64, int64) }).parts()
}

func (w Windowed[K]) parts() (any, int64, int64) { return box(w.Key), w.Start, w.End }
