package windowed

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
	one         bool // first is the only key
	byTime      bool // in order of time where the store has it
	from, to    int64
	reverse     bool
	held        bool // what has expired too, as long as it is there
}

// rows walks over the rows of a query.
type rows struct {
	base.Cursor
	layout *layout
	schema windowkey.Schema
	query  query
	row    windowkey.Row
	err    error
}

// open begins a query. A range that is inverted, of keys or of times, is empty.
func (l *layout) open(r reader, at segment.State, q query) base.Cursor {
	q.from = max(q.from, 0)
	if !q.held {
		q.from = max(q.from, l.oldest(at))
	}
	if q.to < q.from || q.first != nil && q.last != nil && bytes.Compare(q.first, q.last) > 0 {
		return base.Slice(nil)
	}
	c := &rows{layout: l, schema: l.rows, query: q}
	if l.index && !q.byTime {
		c.schema = windowkey.Index
	}
	comb := base.Comb{Span: base.Span{Reverse: q.reverse}}
	comb.First, comb.Last = segment.Prefix(l.clock.First(at, q.from)), segment.Prefix(l.clock.ID(q.to))
	if q.one {
		comb.From, comb.To = c.schema.One(q.first, q.from, q.to)
	} else {
		comb.From, comb.To = c.schema.Range(q.first, q.last, q.from, q.to)
	}
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
	if c.row.Start < q.from || c.row.Start > q.to {
		return false
	}
	if q.one {
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
	return where{s.table, func(open func(segment.State)) { open(s.clock.Now()) }, func() store.Headers { return s.core.Record.Headers }}
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
			r.Start, r.End = current.row.Start, s.layout.end(current.row.Start)
			r.Key, err = s.codec.DecodeKey(sc, current.row.Key, &row.Headers)
			return err
		})(yield)
	}
}

func (s *Store[K, V]) one(from where, key K, first, last int64, reverse bool) iter.Seq2[Row[K, V], error] {
	return s.scan(from, query{from: first, to: last, reverse: reverse, one: true}, func(sc *family.Scratch, h store.Headers, q *query) (err error) {
		q.first, err = s.codec.LookupKey(sc, h, key)
		return err
	})
}

func (s *Store[K, V]) keys(from where, first, last int64, bounds []Bound[K], reverse bool) iter.Seq2[Row[K, V], error] {
	return s.scan(from, query{from: first, to: last, reverse: reverse}, func(sc *family.Scratch, h store.Headers, q *query) error {
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

func (s *Store[K, V]) times(from where, first, last int64, reverse bool) iter.Seq2[Row[K, V], error] {
	return s.scan(from, query{from: first, to: last, reverse: reverse, byTime: true}, nil)
}

// FetchRange scans the windows of one key that start between the two times, both
// included, in order of their start. Duplicates come in the order in which they were put.
func (s *Store[K, V]) FetchRange(key K, from, to int64) iter.Seq2[Row[K, V], error] {
	return s.one(s.here(), key, from, to, false)
}

// FetchHeld is [Store.FetchRange] that also shows what has expired and is not gone yet:
// it leaves the disk with its segment.
func (s *Store[K, V]) FetchHeld(key K, from, to int64) iter.Seq2[Row[K, V], error] {
	return s.scan(s.here(), query{from: from, to: to, one: true, held: true}, func(sc *family.Scratch, h store.Headers, q *query) (err error) {
		q.first, err = s.codec.LookupKey(sc, h, key)
		return err
	})
}

// BackwardFetchRange is FetchRange in the opposite order.
func (s *Store[K, V]) BackwardFetchRange(key K, from, to int64) iter.Seq2[Row[K, V], error] {
	return s.one(s.here(), key, from, to, true)
}

// FetchKeys scans the windows of the keys between the bounds that start between the two
// times; an end without a bound is open, and of two for the same end the last counts.
// Rows come segment by segment, in each in the order of keys and starts together; those
// of a time-ordered store without index in order of time.
func (s *Store[K, V]) FetchKeys(from, to int64, bounds ...Bound[K]) iter.Seq2[Row[K, V], error] {
	return s.keys(s.here(), from, to, bounds, false)
}

// BackwardFetchKeys is FetchKeys in the opposite order.
func (s *Store[K, V]) BackwardFetchKeys(from, to int64, bounds ...Bound[K]) iter.Seq2[Row[K, V], error] {
	return s.keys(s.here(), from, to, bounds, true)
}

// FetchAll scans the windows of all keys that start between the two times, in the order
// of FetchKeys; those of a time-ordered store in order of time.
func (s *Store[K, V]) FetchAll(from, to int64) iter.Seq2[Row[K, V], error] {
	return s.times(s.here(), from, to, false)
}

// BackwardFetchAll is FetchAll in the opposite order.
func (s *Store[K, V]) BackwardFetchAll(from, to int64) iter.Seq2[Row[K, V], error] {
	return s.times(s.here(), from, to, true)
}

// All scans every window that has not expired, in the order of FetchAll.
func (s *Store[K, V]) All() iter.Seq2[Row[K, V], error] { return s.FetchAll(0, math.MaxInt64) }

// BackwardAll is All in the opposite order.
func (s *Store[K, V]) BackwardAll() iter.Seq2[Row[K, V], error] {
	return s.BackwardFetchAll(0, math.MaxInt64)
}
