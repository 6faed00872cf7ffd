package dsl

import (
	"github.com/forebay-streams/forebay/dsl/internal/engine"
	"github.com/forebay-streams/forebay/store"
)

// GroupedStream is a stream whose records are grouped by key, to be aggregated.
type GroupedStream[K, V any] struct {
	stream *Stream[K, V]
	name   string // of the grouping; empty: none
	// through is the repartitioned stream, once there is one.
	through *Stream[K, V]
}

// GroupByKey groups the records by their keys. A stream whose keys may have changed goes
// through a repartition topic, named after the grouping if it has a name, else after the
// aggregation's store.
func (s *Stream[K, V]) GroupByKey(options ...GroupOption) *GroupedStream[K, V] {
	return &GroupedStream[K, V]{stream: s, name: collect(options).name}
}

// GroupBy groups the records by a new key (SelectKey and GroupByKey). The serde of the new
// key is nil if it is known.
func GroupBy[K, V, L any](s *Stream[K, V], to func(key K, value V) L, key store.Serde[L], options ...GroupOption) *GroupedStream[L, V] {
	name := collect(options).name
	grouped := selectKey(s, to, s.b.nameOr(name, "KSTREAM-KEY-SELECT-")).needs("GroupBy", to != nil)
	if key != nil {
		grouped.key = key
	}
	return &GroupedStream[L, V]{stream: grouped, name: name}
}

// input is the stream that an aggregation reads, repartitioned if need be.
func (g *GroupedStream[K, V]) input(store string) *Stream[K, V] {
	if !g.stream.rekeyed {
		return g.stream
	}
	if g.through != nil {
		return g.through
	}
	base := store
	if g.name != "" {
		base = g.name
	}
	through := repartitioned(g.stream, base, settings{})
	if g.name != "" {
		g.through = through // a second aggregation of a named grouping reads the same topic
	}
	return through
}

// Grouping is grouped records that can be aggregated: of a [GroupedStream] the result's keys
// are K, of windows and sessions over one they are Windowed[K].
type Grouping[K, V, R any] interface {
	// groups adds an aggregation.
	groups(a aggregation[K, V, R]) aggregated
	of() (*Builder, store.Serde[K], store.Serde[V], store.Serde[R])
}

// Groups are a [Grouping] without sessions, whose aggregates would have to be merged.
type Groups[K, V, R any] interface {
	Grouping[K, V, R]
	neverMerge()
}

func (g *GroupedStream[K, V]) neverMerge() {}

// aggregation is what all kinds have in common, untyped in the aggregate.
type aggregation[K, V, R any] struct {
	fold
	prefix   string // of the node's name
	settings settings
	// burn takes a number for a store's name that is not used.
	burn bool
	// keyValue makes a store with one row for each key.
	keyValue func(operator, name string) (*engine.Store, opener)
	// format is that of the rows of other stores.
	format func(operator string) rowFormat
}

// fold says how records become an aggregate.
type fold struct {
	// initial is the aggregate of nothing; nil: the first value itself is.
	initial func() any
	// update returns the new aggregate; nil deletes the row.
	update func(key, value, aggregate any) any
	// merge joins the aggregates of two sessions.
	merge func(key, a, b any) any
	// unseen says that update cannot see a null value: such a record is dropped.
	unseen bool
}

// first is the aggregate of one record.
func (f *fold) first(r engine.Record) any {
	if f.initial == nil {
		return r.Value
	}
	return f.update(r.Key, r.Value, f.initial())
}

// with adds a record to a row, or to nothing.
func (f *fold) with(r engine.Record, base row, ok bool) any {
	if !ok {
		return f.first(r)
	}
	return f.update(r.Key, r.Value, base.value)
}

// shelf is where aggregates are kept, and how.
type shelf struct {
	store     *engine.Store
	state     *tableState
	windows   *closing // nil: no windows
	processor func(fold) func() engine.Processor
}

// add adds a node that folds records into the shelf.
func (s *shelf) add(b *Builder, name string, f fold, parent *engine.Node) *engine.Node {
	n := b.processor(name, s.processor(f), parent)
	n.Connect(s.store)
	return n
}

// aggregated is the node that an aggregation made.
type aggregated struct {
	node  *engine.Node
	shelf *shelf
}

// Count counts the records of each key. A record without key or value is dropped.
func (g *GroupedStream[K, V]) Count(options ...StoreOption) *Table[K, int64] {
	return Count(g, options...)
}

// Reduce combines the values of each key; the first one is the result of itself. A record
// without key or value is dropped. A nil result deletes the key.
func (g *GroupedStream[K, V]) Reduce(combine func(aggregate, value V) V, options ...StoreOption) *Table[K, V] {
	return Reduce(g, combine, options...)
}

// Aggregate folds the values of each key, or of each window of a key, into an aggregate that
// begins with initial. A record without key is dropped; without windows also one without
// value. A nil result deletes the row. A nil serde is the one known for the type.
func Aggregate[K, V, R, A any](g Groups[K, V, R], initial func() A, add func(key K, value V, aggregate A) A, value store.Serde[A], options ...StoreOption) *Table[R, A] {
	return aggregateWith(g, aggregation[K, V, R]{
		prefix: "KSTREAM-AGGREGATE-",
		fold:   folding(initial, add),
	}, value, collect(options)).needs("initial of Aggregate", initial != nil).needs("add of Aggregate", add != nil)
}

func folding[K, V, A any](initial func() A, add func(K, V, A) A) fold {
	return fold{
		initial: func() any { return box(initial()) },
		update:  func(key, value, a any) any { return box(add(as[K](key), as[V](value), as[A](a))) },
		unseen:  !canBeNil[V](),
	}
}

// Count counts the records of each key, or of each window or session of a key. A record
// without key is dropped; without windows also one without value.
func Count[K, V, R any](g Grouping[K, V, R], options ...StoreOption) *Table[R, int64] {
	s := collect(options)
	return aggregateWith(g, aggregation[K, V, R]{
		prefix: "KSTREAM-AGGREGATE-",
		burn:   s.materialized && s.store == "",
		fold: fold{
			initial: func() any { return int64(0) },
			update:  func(_, _, a any) any { return a.(int64) + 1 },
			merge:   func(_, a, b any) any { return a.(int64) + b.(int64) },
		},
	}, store.Int64(), s)
}

// Reduce combines the values of each key, or of each window or session of a key; the first
// one is the result of itself. A nil result deletes the row.
func Reduce[K, V, R any](g Grouping[K, V, R], combine func(aggregate, value V) V, options ...StoreOption) *Table[R, V] {
	_, _, value, _ := g.of()
	update := func(_, value, a any) any { return box(combine(as[V](a), as[V](value))) }
	return aggregateWith(g, aggregation[K, V, R]{
		prefix: "KSTREAM-REDUCE-",
		fold:   fold{update: update, merge: func(_, a, b any) any { return update(nil, b, a) }, unseen: !canBeNil[V]()},
	}, value, collect(options)).needs("Reduce", combine != nil)
}

func aggregateWith[K, V, R, A any](g Grouping[K, V, R], a aggregation[K, V, R], value store.Serde[A], s settings) *Table[R, A] {
	b, key, _, resultKey := g.of()
	a.settings = s
	value = known(value)
	a.keyValue = func(operator, name string) (*engine.Store, opener) {
		return keyValue(b, operator, name, key, value, s)
	}
	a.format = func(operator string) rowFormat {
		f := &format[K, A]{key: serdeFor(b, operator, "a key", key), value: serdeFor(b, operator, "a value", value)}
		f.headers, f.policy = b.rowHeaders(operator, s)
		return f
	}
	out := g.groups(a)
	return &Table[R, A]{b: b, node: out.node, key: resultKey, value: value, state: out.shelf.state, windows: out.shelf.windows}
}

func (g *GroupedStream[K, V]) of() (*Builder, store.Serde[K], store.Serde[V], store.Serde[K]) {
	return g.stream.b, known(g.stream.key), known(g.stream.value), known(g.stream.key)
}

// names takes the names of an aggregation's store and node.
func (a *aggregation[K, V, R]) names(b *Builder) (storeName, node string) {
	if a.burn {
		b.counter++
	}
	storeName = a.settings.store
	if storeName == "" {
		storeName = b.name(a.prefix + "STATE-STORE-")
	}
	return storeName, b.nameOr(a.settings.name, a.prefix)
}

func (g *GroupedStream[K, V]) groups(a aggregation[K, V, K]) aggregated {
	b := g.stream.b
	storeName, name := a.names(b)
	in := g.input(storeName)
	out := plainShelf(a.settings, func() (*engine.Store, opener) { return a.keyValue(name, storeName) })
	return aggregated{out.add(b, name, a.fold, in.node), out}
}

// plainShelf keeps one aggregate for each key.
func plainShelf(s settings, make func() (*engine.Store, opener)) *shelf {
	st, open := make()
	sendOld := false
	return &shelf{store: st, state: ownState(st, open, s, &sendOld), processor: func(f fold) func() engine.Processor {
		return func() engine.Processor { return &aggregate{fold: f, open: open, sendOld: sendOld} }
	}}
}

// ownState is the state of a table that always has a store.
func ownState(st *engine.Store, open opener, s settings, sendOld *bool) *tableState {
	out := &tableState{
		materialized: true,
		versioned:    s.history != nil,
		enableOld:    func(bool) bool { *sendOld = true; return true },
		view:         func() viewSource { return storeView(st, open) },
	}
	if s.history != nil {
		out.history = s.history.Milliseconds()
	}
	return out
}

// aggregate folds records into the rows of a key-value store.
type aggregate struct {
	fold
	c       *engine.Context
	open    opener
	sendOld bool
	rows    rows
	cached  bool
}

func (p *aggregate) Init(c *engine.Context) (err error) {
	p.c = c
	if p.rows, err = p.open(c); err == nil {
		p.cached = p.rows.forwardFlushed(c, p.sendOld)
	}
	return err
}

func (p *aggregate) Process(r engine.Record) error {
	switch {
	case r.Key == nil:
		p.c.Drop(nullKey)
		return nil
	case r.Value == nil:
		p.c.Drop(nullValue)
		return nil
	}
	in := p.c.Record()
	old, ok, err := p.rows.get(in, r.Key)
	if err != nil {
		return err
	}
	r.Value = p.with(r, old, ok)
	if ok {
		r.Timestamp = max(r.Timestamp, old.timestamp)
	}
	at, err := p.rows.put(in, r.Key, r.Value, r.Timestamp, stored(old, ok))
	if err != nil || at.rejected || p.cached {
		return err
	}
	r.Headers, r.Stale, r.Old = at.out, at.stale, nil
	if p.sendOld {
		r.Old = old.value
	}
	return p.c.Forward(r)
}
