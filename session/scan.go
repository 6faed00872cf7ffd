package session

import (
	"bytes"
	"iter"
	"math"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/family"
	"github.com/forebay-streams/forebay/internal/segment"
	"github.com/forebay-streams/forebay/internal/windowkey"
	"github.com/forebay-streams/forebay/store"
)

// reader is the overlay or a view of it.
type reader interface {
	family.Reader
	base.Combed
}

// Bound is an end of a range of keys; see [From] and [To].
type Bound[K any] struct {
	key  K
	from bool
}

// From begins a range at a key, included.
func From[K any](key K) Bound[K] { return Bound[K]{key, true} }

// To ends a range at a key, included.
func To[K any](key K) Bound[K] { return Bound[K]{key, false} }

// query is what a scan asks for; nil keys are open ends.
type query struct {
	first, last []byte
	one         bool  // first is the only key
	byEnd       bool  // ends between from and to, of all keys
	from, to    int64 // else: the earliest end and the latest start
	reverse     bool
}

// void tells whether no session can answer. A latest start before the earliest end does
// not make it so.
func (q *query) void() bool {
	return q.to < 0 || q.byEnd && q.to < q.from || q.first != nil && q.last != nil && bytes.Compare(q.first, q.last) > 0
}

// rows walks over the rows of a query.
type rows struct {
	base.Cursor
	layout *layout
	schema windowkey.SessionSchema
	query  query
	row    windowkey.SessionRow
	err    error
}

// open begins a query.
func (l *layout) open(r reader, at segment.State, q query) base.Cursor {
	q.from = max(q.from, 0)
	if !q.byEnd || l.memory {
		// Kafka Streams emits on close from what retention hides already.
		q.from = max(q.from, l.oldest(at))
	}
	if q.void() {
		return base.Slice(nil)
	}
	c := &rows{layout: l, schema: l.rows, query: q}
	if l.index && !q.byEnd {
		c.schema = windowkey.SessionIndex
	}
	last := int64(math.MaxInt64)
	comb := base.Comb{Span: base.Span{Reverse: q.reverse}}
	switch {
	case q.byEnd:
		last = q.to
		comb.From, comb.To = c.schema.Ends(q.from, q.to)
		comb.Exclusive = true
	case q.one:
		comb.From, comb.To = c.schema.One(q.first, q.from, q.to)
	default:
		comb.From, comb.To = c.schema.Range(q.first, q.last, q.from, q.to)
	}
	comb.First, comb.Last = segment.Prefix(l.clock.First(at, q.from)), segment.Prefix(l.clock.ID(last))
	c.Cursor = r.Comb(comb)
	return c
}

func (c *rows) Next() bool {
	for c.err == nil && c.Cursor.Next() {
		if c.row, c.err = c.layout.parse(c.schema, c.Cursor.Key()); c.err == nil && c.wanted() {
			return true
		}
	}
	return false
}

// wanted is the rest of what the bounds let through.
func (c *rows) wanted() bool {
	q := &c.query
	switch {
	case c.row.End < q.from:
		return false
	case q.byEnd:
		return c.row.End <= q.to
	case c.row.Start > q.to:
		return false
	case q.one:
		return bytes.Equal(c.row.Key, q.first)
	}
	return (q.first == nil || bytes.Compare(c.row.Key, q.first) >= 0) && (q.last == nil || bytes.Compare(c.row.Key, q.last) <= 0)
}

func (c *rows) Err() error {
	if c.err != nil {
		return c.err
	}
	return c.Cursor.Err()
}

// where is a place to read from: the owner's overlay, or a view.
type where struct {
	reader reader
	// moment opens a cursor on rows and a state of the same moment.
	moment  func(open func(segment.State))
	headers func() store.Headers // what key serializers see
}

func (s *Store[K, V]) here() where {
	// Called when the loop begins, so that it sees the record and stream time of then.
	return where{s.core.Overlay, func(open func(segment.State)) { open(s.clock.Now()) }, func() store.Headers { return s.core.Record.Headers }}
}

// scan is a sequence of rows. fill serializes the query's keys.
func (s *Store[K, V]) scan(from where, q query, fill func(*family.Scratch, store.Headers, *query) error) iter.Seq2[Row[K, V], error] {
	// A sequence can be ranged over many times, and by views from several goroutines: what
	// a loop changes is its own.
	return func(yield func(Row[K, V], error) bool) {
		var current *rows
		family.Scan(s.core, func(sc *family.Scratch) (cursor base.Cursor, err error) {
			q := q
			if fill != nil {
				if err := fill(sc, from.headers(), &q); err != nil {
					return nil, err
				}
			}
			from.moment(func(at segment.State) { cursor = s.layout.open(from.reader, at, q) })
			current, _ = cursor.(*rows)
			return cursor, nil
		}, func(sc *family.Scratch, _ []byte, row *store.Row, r *Row[K, V]) (err error) {
			if err := s.codec.DecodeValue(sc, row, &r.Value); err != nil {
				return err
			}
			r.Start, r.End, r.Timestamp = current.row.Start, current.row.End, current.row.End
			r.Key, err = s.codec.DecodeKey(sc, current.row.Key, &row.Headers)
			return err
		})(yield)
	}
}

func (s *Store[K, V]) one(from where, key K, end, start int64, reverse bool) iter.Seq2[Row[K, V], error] {
	return s.scan(from, query{from: end, to: start, reverse: reverse, one: true}, func(sc *family.Scratch, h store.Headers, q *query) (err error) {
		q.first, err = s.codec.LookupKey(sc, h, key)
		return err
	})
}

func (s *Store[K, V]) keys(from where, end, start int64, bounds []Bound[K], reverse bool) iter.Seq2[Row[K, V], error] {
	return s.scan(from, query{from: end, to: start, reverse: reverse}, func(sc *family.Scratch, h store.Headers, q *query) error {
		for _, b := range bounds {
			sc.Key = nil // both bounds are in use at the same time
			k, err := s.codec.LookupKey(sc, h, b.key)
			if err != nil {
				return err
			}
			if b.from {
				q.first = k
			} else {
				q.last = k
			}
		}
		return nil
	})
}

func (s *Store[K, V]) byEnd(from where, first, last int64) iter.Seq2[Row[K, V], error] {
	return s.scan(from, query{from: first, to: last, byEnd: true}, func(*family.Scratch, store.Headers, *query) error {
		if !s.layout.byTime {
			return ErrUnordered
		}
		return nil
	})
}
