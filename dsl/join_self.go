package dsl

import (
	"github.com/forebay-streams/forebay/dsl/internal/engine"
	"github.com/forebay-streams/forebay/store"
)

// OptimizeSelfJoins lets the join of a stream with itself do with one store instead of two (topology.optimization=single.store.self.join). The numbers of all names
// stay the same.
func OptimizeSelfJoins() BuilderOption {
	return func(c *config) error { c.selfJoins = true; return nil }
}

// selfJoin joins a stream with itself. Every record meets itself, so that left and outer
// joins are inner ones.
func selfJoin[K, L, V any](s *Stream[K, L], j streamJoin, value store.Serde[V], w JoinWindows, o settings) *Stream[K, V] {
	b := s.b
	s = copartitioned(s, o.name, "-left")
	n := streamJoinNames(b, j, o, true)
	j.configure(b, n, w)
	j.key = serdeFor(b, n.merge, "a key", s.key)
	j.left.value = serdeFor(b, n.merge, "a value", s.value)
	st := j.windowStore(b, n.leftWindow, n.leftStore, o)
	put := b.processor(n.leftWindow, func() engine.Processor { return &joinWindow{streamJoin: j, left: true} }, s.node)
	put.Connect(st)
	out := b.processor(n.merge, func() engine.Processor { return &selfJoinSide{streamJoin: j} }, put)
	out.Connect(st)
	return &Stream[K, V]{b: b, node: out, key: s.key, value: value}
}

// selfJoinSide joins records with those of their own stream, in the order in which the two
// sides of an ordinary join would.
type selfJoinSide struct {
	c *engine.Context
	streamJoin
	rows       *sideRows
	streamTime int64
}

func (p *selfJoinSide) Init(c *engine.Context) (err error) {
	p.c, p.streamTime = c, -1
	p.rows, err = engine.Open[*sideRows](c, p.left.store)
	return err
}

func (p *selfJoinSide) Process(r engine.Record) error {
	switch {
	case r.Key == nil:
		p.c.Drop(nullKey)
		return nil
	case r.Value == nil:
		p.c.Drop(nullValue)
		return nil
	}
	p.streamTime = max(p.streamTime, r.Timestamp)
	topic, _ := p.rows.ChangelogPartition()
	h := r.Headers.Copy()
	key, err := p.key.encode(topic, &h, r.Key)
	if err != nil {
		return err
	}
	if key == nil {
		return errNilBytes
	}
	if err := p.pairs(r, topic, key, true, func(int64) error { return nil }); err != nil {
		return err
	}
	alone := true // with itself, once those before it have met it
	self := func() error {
		if !alone || r.Timestamp <= p.streamTime-p.windows.Retention()+1 {
			return nil
		}
		alone = false
		own := r
		own.Value = p.join(r.Value, r.Value)
		return p.c.Forward(own)
	}
	if err := p.pairs(r, topic, key, false, func(at int64) error {
		if at > r.Timestamp {
			return self()
		}
		return nil
	}); err != nil {
		return err
	}
	return self()
}

// pairs joins a record with those before it, as the left one of each pair or as the right one.
func (p *selfJoinSide) pairs(r engine.Record, topic string, key []byte, left bool, before func(at int64) error) error {
	windows := p.windows
	if !left {
		windows = windows.Other()
	}
	match := windows.Match(r.Timestamp)
	p.rows.SetRecord(p.c.Record())
	for row, err := range p.rows.FetchRange(key, match.From, match.To) {
		if err != nil {
			return err
		}
		h := r.Headers.Copy()
		if p.headers {
			h = row.Headers.Copy()
		}
		value, err := p.streamJoin.left.value.decode(topic, &h, row.Data)
		if err != nil {
			return err
		}
		if err := before(row.Start); err != nil {
			return err
		}
		pair := r
		pair.Timestamp, pair.Value = max(r.Timestamp, row.Start), p.joined(left, r.Value, value)
		if err := p.c.Forward(pair); err != nil {
			return err
		}
	}
	return nil
}
