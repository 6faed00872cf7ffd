package kv

import (
	"iter"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/family"
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
	return s.scan(bounds, false)
}

// ReverseRange is Range in descending order.
func (s *Store[K, V]) ReverseRange(bounds ...Bound[K]) iter.Seq2[Row[K, V], error] {
	return s.scan(bounds, true)
}

// All scans every row in ascending order.
func (s *Store[K, V]) All() iter.Seq2[Row[K, V], error] { return s.scan(nil, false) }

// ReverseAll scans every row in descending order.
func (s *Store[K, V]) ReverseAll() iter.Seq2[Row[K, V], error] { return s.scan(nil, true) }

// Prefix scans the rows whose serialized key starts with prefix, in ascending order.
func (s *Store[K, V]) Prefix(prefix []byte) iter.Seq2[Row[K, V], error] {
	return s.prefix(s.core.Overlay, prefix)
}

func (s *Store[K, V]) scan(bounds []Bound[K], reverse bool) iter.Seq2[Row[K, V], error] {
	// Called when the loop begins, so that it sees the record of then.
	headers := func() store.Headers { return s.core.Record.Headers }
	return s.between(s.core.Overlay, headers, bounds, reverse)
}

// between is a range over the overlay or a view of it.
func (s *Store[K, V]) between(from family.Reader, headers func() store.Headers, bounds []Bound[K], reverse bool) iter.Seq2[Row[K, V], error] {
	return family.Scan(s.core, func(sc *family.Scratch) (base.Cursor, error) {
		span, err := s.span(sc, headers(), bounds)
		span.Reverse = reverse
		if err != nil {
			return nil, err
		}
		return from.Scan(span), nil
	}, s.decode)
}

func (s *Store[K, V]) prefix(from family.Reader, prefix []byte) iter.Seq2[Row[K, V], error] {
	return family.Scan(s.core, func(*family.Scratch) (base.Cursor, error) {
		return from.Scan(base.Prefix(prefix)), nil
	}, s.decode)
}

func (s *Store[K, V]) decode(sc *family.Scratch, key []byte, row *store.Row, out *Row[K, V]) (err error) {
	if err := s.codec.DecodeValue(sc, row, &out.Value); err != nil {
		return err
	}
	out.Key, err = s.codec.DecodeKey(sc, key, &row.Headers)
	return err
}

// span serializes bounds; of two for the same end the last counts.
func (s *Store[K, V]) span(sc *family.Scratch, headers store.Headers, bounds []Bound[K]) (span base.Span, err error) {
	for _, b := range bounds {
		sc.Key = nil // both bounds are in use at the same time
		k, err := s.codec.LookupKey(sc, headers, b.key)
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
