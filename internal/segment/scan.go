package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/store"
)

func prefixOf(key []byte) uint64 { return binary.BigEndian.Uint64(key) }

// Get reads a row; the result borrows scratch.
func (t *Table) Get(key []byte, scratch *[]byte) (store.Row, bool, error) {
	set := t.set.Load()
	if set == nil {
		return store.Row{}, false, store.ErrClosed
	}
	id, own := Split(key)
	at, ok := find(*set, id)
	if !ok {
		return store.Row{}, false, nil
	}
	s := (*set)[at]
	row, ok, err := t.get(s, own, scratch)
	if s.gone(err) {
		return store.Row{}, false, nil
	}
	return row, ok, err
}

func (t *Table) get(s *segment, own []byte, scratch *[]byte) (store.Row, bool, error) {
	if t.index == nil || !t.index.Headers || t.index.Has(own) {
		return s.Get(own, scratch)
	}
	snapshot, err := s.Snapshot() // a row lies in two places
	if err != nil {
		return store.Row{}, false, err
	}
	defer snapshot.Close()
	return t.getBase(snapshot, own, scratch)
}

// getBase reads a base row with what its index row has of it.
func (t *Table) getBase(r base.Reader, own []byte, scratch *[]byte) (store.Row, bool, error) {
	row, ok, err := r.Get(own, scratch)
	if err != nil || !ok || t.index == nil || !t.index.Headers || t.index.Has(own) {
		return row, ok, err
	}
	entry, ok, err := r.Get(t.index.Of(nil, own), new([]byte))
	if ok {
		row.Headers = entry.Headers
	}
	return row, true, err
}

// gone tells whether an error only says that the segment has expired meanwhile.
func (s *segment) gone(err error) bool { return errors.Is(err, store.ErrClosed) && s.retired.Load() }

// part is what a scan reads of one segment.
type part struct {
	segment  *segment
	snapshot base.Snapshot // nil: the cursor is open
	cursor   base.Cursor
	span     base.Span
}

// Scan walks over segments and their rows in order of the flat keys.
func (t *Table) Scan(span base.Span) base.Cursor {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.walk(t.parts(span), span.Reverse)
}

// Comb walks over the same span of each segment.
func (t *Table) Comb(c base.Comb) base.Cursor {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.walk(t.teeth(c), c.Reverse)
}

func (t *Table) teeth(c base.Comb) (parts []part) {
	for _, s := range t.segments() {
		if p := Prefix(s.id); c.First <= p && p <= c.Last {
			parts = append(parts, part{segment: s, span: c.Span})
		}
	}
	return parts
}

func (t *Table) parts(span base.Span) (parts []part) {
	for _, s := range t.segments() {
		if own, ok := within(span, Key(nil, s.id)); ok {
			parts = append(parts, part{segment: s, span: own})
		}
	}
	return parts
}

// within is what a span of the flat keyspace covers behind a prefix.
func within(span base.Span, prefix []byte) (base.Span, bool) {
	own := base.Span{Exclusive: span.Exclusive, Reverse: span.Reverse}
	if rest, ok := bytes.CutPrefix(span.From, prefix); ok {
		own.From = rest
	} else if bytes.Compare(span.From, prefix) > 0 {
		return own, false
	}
	if rest, ok := bytes.CutPrefix(span.To, prefix); ok {
		own.To = rest
	} else if span.To != nil && bytes.Compare(span.To, prefix) <= 0 {
		return own, false
	}
	return own, true
}

// walk opens a scan over the parts as they are now. The caller holds the lock.
func (t *Table) walk(parts []part, reverse bool) base.Cursor {
	if t.closed() {
		return base.Failed(store.ErrClosed)
	}
	if reverse {
		slices.Reverse(parts)
	}
	c := &chain{table: t, parts: parts}
	for i := range parts {
		p := &parts[i]
		p.segment.hold()
		// The caller may reuse its buffers.
		p.span.From, p.span.To = bytes.Clone(p.span.From), bytes.Clone(p.span.To)
		if !t.index.Has(p.span.From) && (t.index == nil || !t.index.Headers) {
			p.cursor = p.segment.Scan(p.span)
			continue
		}
		// Two rows are read for one, and must be of one moment. Only here, as releasing a
		// snapshot makes RocksDB rewrite settled files.
		var err error
		if p.snapshot, err = p.segment.Snapshot(); err != nil {
			c.err = err
			c.parts = parts[:i+1] // what is held
			break
		}
	}
	return c
}

// chain walks over the parts one after the other.
type chain struct {
	table *Table
	parts []part // the first is the current one
	key   []byte
	err   error
	done  bool
}

func (c *chain) Next() bool {
	for c.err == nil && len(c.parts) > 0 {
		p := &c.parts[0]
		if p.cursor == nil {
			p.cursor = c.table.enter(p)
		}
		if len(c.key) < base.PrefixSize {
			c.key = Key(c.key, p.segment.id)
		}
		if p.cursor.Next() {
			c.key = append(c.key[:base.PrefixSize], p.cursor.Key()...)
			return true
		}
		if err := p.cursor.Err(); err != nil && !p.segment.gone(err) {
			c.err = err
			return false
		}
		c.leave()
	}
	c.done = c.err == nil
	return false
}

func (c *chain) leave() {
	c.parts[0].close()
	c.parts, c.key = c.parts[1:], c.key[:0]
}

func (p *part) close() {
	if p.cursor != nil {
		p.cursor.Close()
	}
	if p.snapshot != nil {
		p.snapshot.Close()
	}
	p.segment.release()
}

func (c *chain) Key() []byte     { return c.key }
func (c *chain) Row() *store.Row { return c.parts[0].cursor.Row() }
func (c *chain) Err() error      { return c.err }

func (c *chain) Close() {
	for len(c.parts) > 0 {
		c.leave()
	}
	if !c.done && c.err == nil {
		c.err = store.ErrClosed
	}
}

// Snapshot fixes all segments as they are now.
func (t *Table) Snapshot() (base.Snapshot, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.closed() {
		return nil, store.ErrClosed
	}
	out := &snapshot{table: t}
	for _, s := range t.segments() {
		one, err := s.Snapshot()
		if err != nil {
			out.Close()
			return nil, err
		}
		s.hold()
		out.parts = append(out.parts, part{segment: s, snapshot: one})
	}
	return out, nil
}

type snapshot struct {
	table *Table
	parts []part
}

func (s *snapshot) Get(key []byte, scratch *[]byte) (store.Row, bool, error) {
	id, own := Split(key)
	for i := range s.parts {
		if p := &s.parts[i]; p.segment.id == id {
			row, ok, err := s.table.getBase(p.snapshot, own, scratch)
			if p.segment.gone(err) {
				return store.Row{}, false, nil
			}
			return row, ok, err
		}
	}
	return store.Row{}, false, nil
}

// Scan enters every segment at once: it may outlive the snapshot.
func (s *snapshot) Scan(span base.Span) base.Cursor {
	c := &chain{table: s.table}
	for _, p := range s.parts {
		if own, ok := within(span, Key(nil, p.segment.id)); ok {
			p.segment.hold()
			one := part{segment: p.segment, snapshot: unowned{p.snapshot}, span: own}
			one.cursor = s.table.enter(&one)
			c.parts = append(c.parts, one)
		}
	}
	if span.Reverse {
		slices.Reverse(c.parts)
	}
	return c
}

func (s *snapshot) Close() {
	for i := range s.parts {
		s.parts[i].close()
	}
	s.parts = nil
}

// unowned is a snapshot that somebody else closes.
type unowned struct{ base.Snapshot }

func (unowned) Close() {}
