package dsl

import (
	"cmp"
	"fmt"

	"github.com/forebay-streams/forebay/dsl/internal/engine"
	"github.com/forebay-streams/forebay/store"
)

// CogroupedStream is grouped streams that go into one aggregate together.
type CogroupedStream[K, A any] struct {
	b       *Builder
	key     store.Serde[K]
	members []member[A]
}

// member is one of the streams.
type member[A any] struct {
	fold  func(initial func() A) fold
	input func(store string) *engine.Node
	given bool // it has a function
}

// Cogroup begins to group streams together, with the first of them.
func Cogroup[K, V, A any](g *GroupedStream[K, V], add func(key K, value V, aggregate A) A) *CogroupedStream[K, A] {
	b, key, _, _ := g.of()
	return AndCogroup(&CogroupedStream[K, A]{b: b, key: key}, g, add)
}

// AndCogroup adds another stream, which may have values of another type.
func AndCogroup[K, V, A any](c *CogroupedStream[K, A], g *GroupedStream[K, V], add func(key K, value V, aggregate A) A) *CogroupedStream[K, A] {
	if c == nil {
		c = &CogroupedStream[K, A]{}
	}
	if g == nil {
		g = &GroupedStream[K, V]{stream: (*Stream[K, V])(nil).orEmpty()}
	}
	out := *c
	out.b = cmp.Or(c.b, g.stream.b)
	out.b.takes("Cogroup", c.b, g.stream.b)
	out.members = append(append([]member[A]{}, c.members...), member[A]{
		fold:  func(initial func() A) fold { return folding(initial, add) },
		input: func(store string) *engine.Node { return g.input(store).node },
		given: add != nil,
	})
	return &out
}

// Aggregate folds the values of each key, whichever stream they come from, into an aggregate
// that begins with initial. A nil result deletes the key. A nil serde is the one known for
// the type.
func (c *CogroupedStream[K, A]) Aggregate(initial func() A, value store.Serde[A], options ...StoreOption) *Table[K, A] {
	s := collect(options)
	value = known(value)
	n, shelf := c.aggregate(s, initial, nil, func(operator, name string) *shelf {
		return plainShelf(s, func() (*engine.Store, opener) { return keyValue(c.b, operator, name, c.key, value, s) })
	})
	c.b.needs(n.Name, "initial of Aggregate", initial != nil)
	return &Table[K, A]{b: c.b, node: n, key: c.key, value: value, state: shelf.state}
}

// AggregateCogroup is Aggregate in time windows or sliding windows.
func AggregateCogroup[K, A any](c *CogroupedStream[K, A], w Windows, initial func() A, value store.Serde[A], options ...StoreOption) *Table[Windowed[K], A] {
	s := collect(options)
	value = known(value)
	n, shelf := c.aggregate(s, initial, nil, func(operator, name string) *shelf {
		return windowShelf(c.b, operator, name, w, false, c.format(operator, value, s), s)
	})
	c.b.needs(n.Name, "initial of AggregateCogroup", initial != nil)
	return &Table[Windowed[K], A]{b: c.b, node: n, key: windowedKeySerde(c.key, w), value: value, state: shelf.state, windows: shelf.windows}
}

// AggregateCogroupSessions is Aggregate in sessions, whose aggregates merge joins.
func AggregateCogroupSessions[K, A any](c *CogroupedStream[K, A], w SessionWindows, initial func() A, merge func(key K, a, b A) A, value store.Serde[A], options ...StoreOption) *Table[Windowed[K], A] {
	s := collect(options)
	value = known(value)
	n, shelf := c.aggregate(s, initial, merging(merge), func(operator, name string) *shelf {
		return sessionShelf(c.b, operator, name, w, false, c.format(operator, value, s), s)
	})
	c.b.needs(n.Name, "initial of AggregateCogroupSessions", initial != nil)
	c.b.needs(n.Name, "merge of AggregateCogroupSessions", merge != nil)
	var key store.Serde[Windowed[K]]
	if c.key != nil {
		key = SessionSerde(c.key)
	}
	return &Table[Windowed[K], A]{b: c.b, node: n, key: key, value: value, state: shelf.state, windows: shelf.windows}
}

func (c *CogroupedStream[K, A]) format(operator string, value store.Serde[A], s settings) rowFormat {
	f := &format[K, A]{key: serdeFor(c.b, operator, "a key", c.key), value: serdeFor(c.b, operator, "a value", value)}
	f.headers, f.policy = c.b.rowHeaders(operator, s)
	return f
}

// aggregate adds a node for each stream, all on one shelf, and one that brings their changes
// together.
func (c *CogroupedStream[K, A]) aggregate(s settings, initial func() A, merge func(key, a, b any) any, make func(operator, name string) *shelf) (*engine.Node, *shelf) {
	const prefix = "COGROUPKSTREAM-"
	b := c.b
	storeName := s.store
	if storeName == "" {
		storeName = b.name(prefix + "AGGREGATE-STATE-STORE-")
	}
	inputs := []*engine.Node{}
	for _, m := range c.members {
		inputs = append(inputs, m.input(storeName))
	}
	var kept *shelf
	var nodes []*engine.Node
	for i, m := range c.members {
		name := b.nameOr(suffixed(s.name, fmt.Sprintf("-cogroup-agg-%d", i)), prefix+"AGGREGATE-")
		if kept == nil {
			kept = make(name, storeName)
		}
		b.needs(name, "add of Cogroup", m.given)
		f := m.fold(initial)
		f.merge = merge
		nodes = append(nodes, kept.add(b, name, f, inputs[i]))
	}
	merged := b.nameOr(suffixed(s.name, "-cogroup-merge"), prefix+"MERGE-")
	return b.processor(merged, stateless(func(c *engine.Context, r engine.Record) error { return c.Forward(r) }), nodes...), kept
}
