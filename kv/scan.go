package kv

import (
	"iter"
	"sync/atomic"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/store"
)

// Bound is an end of a range; see [From] and [To].
type Bound[K any] struct {
	key  K
	from bool
}

// From begins a range at a key, included.
func From[K any](key K) Bound[K] { return Bound[K]{key, true} }

// To ends a range at a key, included.
func To[K any](key K) Bound[K] { return Bound[K]{key, false} }

// Range scans the rows between the bounds, in ascending order of serialized keys. An end
// without a bound is open; a range whose bounds are inverted is empty. The scan sees
// the rows as they are when its loop begins; see package store for its rules.
func (s *Store[K, V]) Range(bounds ...Bound[K]) iter.Seq2[Row[K, V], error] {
	return s.source().scan(func(sc *scratch) (base.Span, error) { return s.span(sc, s.record.Headers, bounds, false) })
}

// ReverseRange is Range in descending order.
func (s *Store[K, V]) ReverseRange(bounds ...Bound[K]) iter.Seq2[Row[K, V], error] {
	return s.source().scan(func(sc *scratch) (base.Span, error) { return s.span(sc, s.record.Headers, bounds, true) })
}

// All scans every row in ascending order.
func (s *Store[K, V]) All() iter.Seq2[Row[K, V], error] { return s.Range() }

// ReverseAll scans every row in descending order.
func (s *Store[K, V]) ReverseAll() iter.Seq2[Row[K, V], error] { return s.ReverseRange() }

// Prefix scans the rows whose serialized key starts with prefix, in ascending order.
func (s *Store[K, V]) Prefix(prefix []byte) iter.Seq2[Row[K, V], error] {
	return s.source().scan(prefixSpan(prefix))
}

func (s *Store[K, V]) source() source[K, V] {
	return source[K, V]{name: s.name, codec: &s.codec, reader: s.overlay, open: &s.open, closed: &s.closed}
}

func prefixSpan(prefix []byte) func(*scratch) (base.Span, error) {
	return func(*scratch) (base.Span, error) { return base.Prefix(prefix), nil }
}

// span serializes bounds; of two for the same end the last counts.
func (c *codec[K, V]) span(s *scratch, headers store.Headers, bounds []Bound[K], reverse bool) (base.Span, error) {
	span := base.Span{Reverse: reverse}
	for _, b := range bounds {
		s.key = nil // both bounds are in use at the same time
		k, err := c.lookupKey(s, headers, b.key)
		if err != nil {
			return span, err
		}
		if b.from {
			span.From = k
		} else {
			span.To = k
		}
	}
	return span, nil
}

// source is what a scan reads from and reports to.
type source[K, V any] struct {
	name   string
	codec  *codec[K, V]
	reader reader
	open   *atomic.Int64
	closed *atomic.Bool
}

func (s source[K, V]) scan(span func(*scratch) (base.Span, error)) iter.Seq2[Row[K, V], error] {
	fail := func(err error) error { return &store.Error{Store: s.name, Op: "scan", Err: err} }
	return func(yield func(Row[K, V], error) bool) {
		if s.closed.Load() {
			yield(Row[K, V]{}, fail(store.ErrClosed))
			return
		}
		var sc scratch
		sp, err := span(&sc)
		if err != nil {
			yield(Row[K, V]{}, fail(err))
			return
		}
		s.open.Add(1)
		cursor := s.reader.Scan(sp)
		defer func() {
			cursor.Close()
			s.open.Add(-1)
		}()
		for cursor.Next() {
			row, err := s.codec.decode(&sc, cursor.Key(), cursor.Row())
			if err != nil {
				yield(Row[K, V]{}, fail(err))
				return
			}
			if !yield(row, nil) {
				return
			}
		}
		if err := cursor.Err(); err != nil {
			yield(Row[K, V]{}, fail(err))
		}
	}
}
