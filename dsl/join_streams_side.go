package dsl

import (
	"bytes"
	"math"
	"time"

	"github.com/forebay-streams/forebay/dsl/internal/engine"
	"github.com/forebay-streams/forebay/dsl/internal/wire"
	"github.com/forebay-streams/forebay/internal/joinlist"
	"github.com/forebay-streams/forebay/store"
)

// joinClock is what both sides of a join share.
type joinClock struct {
	streamTime int64
	// oldest is at most the time of the oldest record that waits; it is not known at first.
	oldest int64
	known  bool
	next   time.Time // when unmatched records are looked for again
}

// streamJoinSide joins the records of one side with those that the other side keeps.
type streamJoinSide struct {
	c *engine.Context
	streamJoin
	isLeft bool
	clock  *joinClock
	others *sideRows
	// unmatched records of both sides wait here; nil: there is no such store.
	unmatched *unmatchedRows
	sides     map[bool]*sideRows
}

func (p *streamJoinSide) Init(c *engine.Context) (err error) {
	p.c = c
	p.clock = engine.Share(c, p.streamJoin.clock, func() *joinClock { return &joinClock{streamTime: -1} })
	if !p.isLeft {
		p.windows = p.windows.Other()
	}
	p.sides = map[bool]*sideRows{}
	for _, left := range []bool{true, false} {
		if p.sides[left], err = engine.Open[*sideRows](c, p.side(left).store); err != nil {
			return err
		}
	}
	p.others = p.sides[!p.isLeft]
	if p.shared != "" {
		p.unmatched, err = engine.Open[*unmatchedRows](c, p.shared)
	}
	return err
}

// keeps tells whether a record of this side comes out if it meets none.
func (p *streamJoinSide) keeps() bool {
	if p.isLeft {
		return p.keepLeft
	}
	return p.keepRight
}

func (p *streamJoinSide) Process(r engine.Record) error {
	p.clock.streamTime = max(p.clock.streamTime, r.Timestamp)
	switch {
	case r.Value == nil:
		p.c.Drop(nullValue)
		return nil
	case r.Key == nil && p.keeps():
		return p.alone(r)
	case r.Key == nil:
		p.c.Drop(nullKey)
		return nil
	}
	if p.unmatched != nil {
		p.unmatched.SetRecord(p.c.Record())
		if r.Timestamp == p.clock.streamTime {
			if err := p.emitExpired(r); err != nil {
				return err
			}
		}
	}
	topic, _ := p.others.ChangelogPartition()
	h := r.Headers.Copy()
	key, err := p.key.encode(topic, &h, r.Key)
	if err != nil {
		return err
	}
	if key == nil {
		return errNilBytes
	}
	met, err := p.pairs(r, topic, key)
	if err != nil || met || !p.keeps() {
		return err
	}
	if p.unmatched == nil || !p.windows.Waits(r.Timestamp, p.clock.streamTime) {
		return p.alone(r)
	}
	return p.wait(r, key)
}

// alone forwards a record that has met none.
func (p *streamJoinSide) alone(r engine.Record) error {
	r.Value = p.joined(p.isLeft, r.Value, nil)
	return p.c.Forward(r)
}

// pairs joins a record with all it meets.
func (p *streamJoinSide) pairs(r engine.Record, topic string, key []byte) (met bool, err error) {
	window := p.windows.Match(r.Timestamp)
	p.others.SetRecord(p.c.Record())
	for row, err := range p.others.FetchRange(key, window.From, window.To) {
		if err != nil {
			return met, err
		}
		met = true
		if err := p.forget(wire.Unmatched{Time: row.Start, Left: !p.isLeft, Key: key}); err != nil {
			return met, err
		}
		h := r.Headers.Copy()
		if p.headers {
			h = row.Headers.Copy()
		}
		value, err := p.side(!p.isLeft).value.decode(topic, &h, row.Data)
		if err != nil {
			return met, err
		}
		pair := r
		pair.Timestamp, pair.Value = max(r.Timestamp, row.Start), p.joined(p.isLeft, r.Value, value)
		if err := p.c.Forward(pair); err != nil {
			return met, err
		}
	}
	return met, nil
}

// forget removes all records of a time, side and key from those that wait.
func (p *streamJoinSide) forget(u wire.Unmatched) error {
	if p.unmatched == nil {
		return nil
	}
	at := wire.AppendUnmatched(nil, u)
	if _, ok, err := p.unmatched.Get(at); err != nil || !ok {
		return err
	}
	return p.unmatched.Tombstone(at)
}

// wait puts a record among those that wait.
func (p *streamJoinSide) wait(r engine.Record, key []byte) error {
	topic, _ := p.unmatched.ChangelogPartition()
	h := r.Headers.Copy()
	value, err := p.side(p.isLeft).value.encode(topic, &h, r.Value)
	if err != nil {
		return err
	}
	if value == nil {
		return errNilBytes
	}
	at := wire.AppendUnmatched(nil, wire.Unmatched{Time: r.Timestamp, Left: p.isLeft, Key: key})
	list, _, err := p.unmatched.Get(at)
	if err != nil {
		return err
	}
	grown, err := joinlist.Append(list.Data, joinlist.Element{Left: p.isLeft, Value: value})
	if err != nil {
		return store.Locate(err, p.shared, "", at)
	}
	p.clock.oldest = min(p.clock.oldest, r.Timestamp)
	return p.unmatched.Put(at, store.Value[[]byte]{Data: grown, Timestamp: r.Timestamp})
}

// emitExpired forwards the records that can meet none any more, at most once in an interval
// of wall-clock time. in is the record being processed.
func (p *streamJoinSide) emitExpired(in engine.Record) error {
	c := p.clock
	if c.known && !p.windows.Expired(c.oldest, c.streamTime) {
		return nil
	}
	now := p.c.Now()
	if now.Before(c.next) {
		return nil
	}
	c.next = now.Add(p.c.EmitInterval())
	oldest := int64(math.MaxInt64)
	open := map[bool]bool{} // by side, whether one that still waits was seen
	for row, err := range p.unmatched.All() {
		if err != nil {
			return err
		}
		at := bytes.Clone(row.Key)
		u, err := wire.ParseUnmatched(at)
		if err != nil {
			return store.Locate(err, p.shared, "", at)
		}
		of := p.windows
		if u.Left != p.isLeft {
			of = of.Other()
		}
		if !of.Expired(u.Time, c.streamTime) {
			oldest, open[u.Left] = min(oldest, u.Time), true
			if open[!u.Left] {
				break
			}
			continue
		}
		list, err := joinlist.Decode(bytes.Clone(row.Data))
		if err != nil {
			return store.Locate(err, p.shared, "", at)
		}
		if err := p.emit(in, u, list); err != nil {
			return err
		}
		if err := p.unmatched.Tombstone(at); err != nil { // not before all of the list are out
			return err
		}
	}
	c.oldest, c.known = oldest, true
	return nil
}

// emit forwards the records of one time, side and key.
func (p *streamJoinSide) emit(in engine.Record, u wire.Unmatched, list []joinlist.Element) error {
	topic, _ := p.unmatched.ChangelogPartition()
	own, err := p.rowsOf(u)
	if err != nil {
		return err
	}
	for _, e := range list {
		out := engine.Record{Timestamp: u.Time, Headers: in.Headers}
		if p.ownHeaders {
			out.Headers = own.take(e.Value)
		}
		h := out.Headers.Copy()
		if out.Key, err = p.key.decode(topic, &h, u.Key); err != nil {
			return err
		}
		value, err := p.side(u.Left).value.decode(topic, &h, e.Value)
		if err != nil {
			return err
		}
		out.Value = p.joined(u.Left, value, nil)
		if err := p.c.Forward(out); err != nil {
			return err
		}
	}
	return nil
}

// sourceRows are a side's records of one key and time, in the order in which they came.
type sourceRows []store.Value[[]byte]

// rowsOf reads the records that a list was made of, to find their headers.
func (p *streamJoinSide) rowsOf(u wire.Unmatched) (rows sourceRows, err error) {
	if !p.ownHeaders {
		return nil, nil
	}
	for row, err := range p.sides[u.Left].FetchHeld(u.Key, u.Time, u.Time) {
		if err != nil {
			return nil, err
		}
		v := row.Clone().Value
		v.Data = bytes.Clone(v.Data)
		rows = append(rows, v)
	}
	return rows, nil
}

// take returns the headers of the first row with that value, and removes it: equal values
// have theirs in order. Without such a row there are none.
func (rows *sourceRows) take(value []byte) store.Headers {
	for i, row := range *rows {
		if bytes.Equal(row.Data, value) {
			*rows = append((*rows)[:i:i], (*rows)[i+1:]...)
			return row.Headers
		}
	}
	return store.Headers{}
}
