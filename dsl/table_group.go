package dsl

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/forebay-streams/forebay/dsl/internal/engine"
	"github.com/forebay-streams/forebay/dsl/internal/wire"
	"github.com/forebay-streams/forebay/store"
)

// GroupedTable is a table whose rows are grouped by new keys, to be aggregated. When a row
// changes, its old value is taken out of its group and the new one added.
type GroupedTable[K, V any] struct {
	b     *Builder
	node  *engine.Node
	key   store.Serde[K]
	value store.Serde[V]
	name  string // of the grouping; empty: none
}

// GroupTableBy groups the rows of a table by a new key, with a new value; a nil one leaves
// the row out. The groups go through a repartition topic, named after the grouping if it has
// a name, else after the aggregation's store. Nil serdes are those known for the types.
func GroupTableBy[K, V, L, W any](t *Table[K, V], to func(key K, value V) (L, W), key store.Serde[L], value store.Serde[W], options ...GroupOption) *GroupedTable[L, W] {
	name := collect(options).name
	nodeName := t.b.nameOr(name, "KTABLE-SELECT-")
	if key == nil {
		key = sameSerde[K, L](t.key)
	}
	k := serdeFor(t.b, nodeName, "a key", key)
	t.state.enableOld(true)
	n := t.b.processor(nodeName, func() engine.Processor { return &regroup[K, V, L, W]{to: to, key: k} }, t.node)
	t.b.needs(nodeName, "GroupTableBy", to != nil)
	return &GroupedTable[L, W]{b: t.b, node: n, key: key, value: value, name: name}
}

// regroup splits changes into what leaves a group and what joins one.
type regroup[K, V, L, W any] struct {
	c   *engine.Context
	to  func(K, V) (L, W)
	key codec[L]
}

func (p *regroup[K, V, L, W]) Init(c *engine.Context) error { p.c = c; return nil }

func (p *regroup[K, V, L, W]) Process(r engine.Record) error {
	if r.Key == nil {
		return errors.New("a table's record has no key")
	}
	if r.Stale {
		return nil
	}
	leaves, left := p.pair(r.Key, r.Old)
	joins, added := p.pair(r.Key, r.Value)
	if left && added {
		same, err := p.sameGroup(leaves.Key, joins.Key)
		if err != nil {
			return err
		}
		if same {
			r.Key, r.Value, r.Old = joins.Key, joins.Value, leaves.Value
			return p.c.Forward(r)
		}
	}
	if left {
		r.Key, r.Value, r.Old = leaves.Key, nil, leaves.Value
		if err := p.c.Forward(r); err != nil {
			return err
		}
	}
	if added {
		r.Key, r.Value, r.Old = joins.Key, joins.Value, nil
		return p.c.Forward(r)
	}
	return nil
}

// pair is a row's group and what it adds to it; ok is false if it is left out.
func (p *regroup[K, V, L, W]) pair(key, value any) (out Pair[any, any], ok bool) {
	if value == nil {
		return out, false
	}
	l, w := p.to(as[K](key), as[V](value))
	out = Pair[any, any]{box(l), box(w)}
	return out, out.Key != nil && out.Value != nil
}

// sameGroup compares keys as the groups' store does: by their bytes.
func (p *regroup[K, V, L, W]) sameGroup(a, b any) (bool, error) {
	var h, g store.Headers
	x, err := p.key.encode("", &h, a)
	if err != nil {
		return false, err
	}
	y, err := p.key.encode("", &g, b)
	return bytes.Equal(x, y), err
}

// Count counts the rows of each group.
func (g *GroupedTable[K, V]) Count(options ...StoreOption) *Table[K, int64] {
	one := func(n int64) func(K, V, int64) int64 { return func(_ K, _ V, a int64) int64 { return a + n } }
	return AggregateTable(g, func() int64 { return 0 }, one(1), one(-1), store.Int64(), options...)
}

// Reduce combines the values of each group: add takes a value in, subtract takes one out. The
// first value is the result of itself; a nil result deletes the group.
func (g *GroupedTable[K, V]) Reduce(add, subtract func(aggregate, value V) V, options ...StoreOption) *Table[K, V] {
	return aggregateTable(g, "KTABLE-REDUCE-", tableFold{
		add:      func(_, value, a any) any { return box(add(as[V](a), as[V](value))) },
		subtract: func(_, value, a any) any { return box(subtract(as[V](a), as[V](value))) },
	}, known(g.value), collect(options)).needs("add of Reduce", add != nil).needs("subtract of Reduce", subtract != nil)
}

// AggregateTable folds the values of each group into an aggregate that begins with initial:
// add takes a value in, subtract takes one out. A nil result deletes the group. A nil serde
// is the one known for the type.
func AggregateTable[K, V, A any](g *GroupedTable[K, V], initial func() A, add, subtract func(key K, value V, aggregate A) A, value store.Serde[A], options ...StoreOption) *Table[K, A] {
	return aggregateTable(g, "KTABLE-AGGREGATE-", tableFold{
		initial:  func() any { return box(initial()) },
		add:      func(key, value, a any) any { return box(add(as[K](key), as[V](value), as[A](a))) },
		subtract: func(key, value, a any) any { return box(subtract(as[K](key), as[V](value), as[A](a))) },
	}, known(value), collect(options)).
		needs("initial of AggregateTable", initial != nil).needs("add of AggregateTable", add != nil).needs("subtract of AggregateTable", subtract != nil)
}

// tableFold says how rows join and leave a group.
type tableFold struct {
	initial       func() any // nil: the first value itself is the aggregate
	add, subtract func(key, value, aggregate any) any
}

func aggregateTable[K, V, A any](g *GroupedTable[K, V], prefix string, f tableFold, value store.Serde[A], s settings) *Table[K, A] {
	b := g.b
	storeName := s.store
	if storeName == "" {
		storeName = b.name("KTABLE-AGGREGATE-STATE-STORE-")
	}
	sinkName := b.nameOr(suffixed(s.name, "-sink"), "KSTREAM-SINK-")
	sourceName := b.nameOr(suffixed(s.name, "-source"), "KSTREAM-SOURCE-")
	name := b.nameOr(s.name, prefix)
	base := storeName
	if g.name != "" {
		base = g.name
	}
	topic := engine.Topic{Name: base + "-repartition", Internal: true}
	k, v := serdeFor(b, sinkName, "a key", g.key), serdeFor(b, sinkName, "a value", g.value)
	b.add(&engine.Node{Name: sinkName, Parents: []*engine.Node{g.node}, Sink: &engine.Sink{
		Topic: topic, Encode: encodeChange(k, v), Partition: partition[K, V](b, sinkName, settings{}, g.key)}})
	source := b.add(&engine.Node{Name: sourceName, Source: &engine.Source{Topics: []engine.Topic{topic}, Decode: decodeChange(k, v)}})
	st, open := keyValue(b, name, storeName, g.key, value, s)
	sendOld := false
	n := b.processor(name, func() engine.Processor { return &tableAggregate{tableFold: f, open: open, sendOld: sendOld} }, source)
	n.Connect(st)
	return &Table[K, A]{b: b, node: n, key: g.key, value: value, state: ownState(st, open, s, &sendOld)}
}

func encodeChange[K, V any](k codec[K], v codec[V]) func(string, *store.Headers, engine.Record) ([]byte, []byte, error) {
	return func(topic string, h *store.Headers, r engine.Record) (key, value []byte, err error) {
		if key, err = k.encode(topic, h, r.Key); err != nil {
			return nil, nil, fmt.Errorf("the key cannot be written: %w", err)
		}
		var c wire.Change
		if c.New, err = v.encode(topic, h, r.Value); err == nil {
			c.Old, err = v.encode(topic, h, r.Old)
		}
		if err == nil {
			value, err = wire.AppendChange(nil, c)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("the change cannot be written: %w", err)
		}
		return key, value, nil
	}
}

func decodeChange[K, V any](k codec[K], v codec[V]) func(string, *store.Headers, []byte, []byte) (any, any, any, error) {
	return func(topic string, h *store.Headers, key, value []byte) (rk, rv, old any, err error) {
		if rk, err = k.decode(topic, h, key); err != nil {
			return nil, nil, nil, fmt.Errorf("the key cannot be read: %w", err)
		}
		c, err := wire.DecodeChange(value)
		if err == nil {
			rv, err = v.decode(topic, h, c.New)
		}
		if err == nil {
			old, err = v.decode(topic, h, c.Old)
		}
		if err != nil {
			return nil, nil, nil, fmt.Errorf("the change cannot be read: %w", err)
		}
		return rk, rv, old, nil
	}
}

// tableAggregate folds changes into groups.
type tableAggregate struct {
	tableFold
	c       *engine.Context
	open    opener
	sendOld bool
	rows    rows
	cached  bool
}

func (p *tableAggregate) Init(c *engine.Context) (err error) {
	p.c = c
	if p.rows, err = p.open(c); err == nil {
		p.cached = p.rows.forwardFlushed(c, p.sendOld)
	}
	return err
}

func (p *tableAggregate) Process(r engine.Record) error {
	if r.Key == nil {
		return errors.New("a change of a group has no key")
	}
	in := p.c.Record()
	row, ok, err := p.rows.get(in, r.Key)
	if err != nil {
		return err
	}
	value := row.value
	if r.Old != nil && ok {
		value = p.subtract(r.Key, r.Old, value)
	}
	if r.Value != nil {
		value = p.added(r.Key, r.Value, value)
	}
	if ok && (r.Old != nil || r.Value != nil) {
		r.Timestamp = max(r.Timestamp, row.timestamp)
	}
	at, err := p.rows.put(in, r.Key, value, r.Timestamp, stored(row, ok))
	if err != nil || at.rejected || p.cached {
		return err
	}
	r.Value, r.Old, r.Headers, r.Stale = value, nil, at.out, at.stale
	if p.sendOld {
		r.Old = row.value
	}
	return p.c.Forward(r)
}

func (p *tableAggregate) added(key, value, aggregate any) any {
	switch {
	case aggregate != nil:
		return p.add(key, value, aggregate)
	case p.initial == nil:
		return value
	}
	return p.add(key, value, p.initial())
}
