package dsl

import (
	"errors"

	"github.com/forebay-streams/forebay/dsl/internal/engine"
	"github.com/forebay-streams/forebay/store"
)

// Table is a stream of changes: the current value under each key. Its methods and the
// package's functions add operators behind it and return what they make.
type Table[K, V any] struct {
	b     *Builder
	node  *engine.Node
	key   store.Serde[K]
	value store.Serde[V]
	// state is how the table's current rows can be read, and old values be had.
	state *tableState
	// windows is set where the keys are windows: their grace and gap, for suppress.
	windows *closing
}

// orEmpty puts an empty table in the place of a nil one, so that the error comes from Build.
func (t *Table[K, V]) orEmpty() *Table[K, V] {
	if t != nil {
		return t
	}
	return &Table[K, V]{node: &engine.Node{}, state: &tableState{
		enableOld: func(bool) bool { return true },
		view:      func() viewSource { return viewSource{} },
	}}
}

// needs reports a nil function of the operator that made the table.
func (t *Table[K, V]) needs(function string, given bool) *Table[K, V] {
	t.b.needs(t.node.Name, function, given)
	return t
}

// closing is how long after its end a window may still change, in ms.
type closing struct {
	wait int64
	// inclusive windows contain their end: sliding and session windows.
	inclusive bool
}

// tableState is what operators downstream may ask of a table.
type tableState struct {
	// materialized tables have a store.
	materialized bool
	// versioned tables keep, and pass on, what is not the latest.
	versioned bool
	// history of a versioned table in ms.
	history int64
	// enableOld makes the table send old values; without force only if nothing needs to be
	// materialised for it. False: it cannot.
	enableOld func(force bool) bool
	// view is how others read the current rows; it may materialise the table.
	view func() viewSource
}

// viewSource is how a node reads a table: it connects the stores and opens the view.
type viewSource struct {
	stores []*engine.Store
	open   func(c *engine.Context) (view, error)
}

// view reads the rows of a table that may have no store of its own.
type view interface {
	get(in store.Record, key any) (row, bool, error)
	getAsOf(in store.Record, key any, at int64) (row, bool, error)
}

// storeView reads a table that has a store.
func storeView(s *engine.Store, open opener) viewSource {
	return viewSource{[]*engine.Store{s}, func(c *engine.Context) (view, error) { return open(c) }}
}

// ReadTable reads a topic as a table (StreamsBuilder.table in Java): a null value deletes
// its key, a record without key is dropped. Nil serdes are those known for the types.
func ReadTable[K, V any](b *Builder, topic string, key store.Serde[K], value store.Serde[V], options ...TableOption) *Table[K, V] {
	s := collect(options)
	named := s.store != ""
	if !named {
		s.store = b.name(topic + "-STATE-STORE-")
	}
	sourceName := b.nameOr(suffixed(s.name, "-source"), "KSTREAM-SOURCE-")
	name := b.nameOr(s.name, "KTABLE-SOURCE-")
	if err := distinct([]string{topic}); err != nil {
		b.fail(name, err)
	}
	key, value = known(key), known(value)
	n := b.add(&engine.Node{Name: sourceName, Source: source(b, sourceName, key, value, s, topic)})
	return tableFrom(b, n, name, key, value, s, named || s.history != nil)
}

func suffixed(name, suffix string) string {
	if name == "" {
		return ""
	}
	return name + suffix
}

// tableFrom makes a table of the changes that a node forwards as plain records.
func tableFrom[K, V any](b *Builder, parent *engine.Node, name string, key store.Serde[K], value store.Serde[V], s settings, now bool) *Table[K, V] {
	t := &Table[K, V]{b: b, key: key, value: value, state: &tableState{versioned: s.history != nil}}
	if s.history != nil {
		t.state.history = s.history.Milliseconds()
	}
	var open opener
	var st *engine.Store
	sendOld := false
	t.node = b.processor(name, func() engine.Processor { return &tableSource{open: open, sendOld: sendOld} }, parent)
	materialize := func() {
		if st == nil {
			st, open = keyValue(b, name, s.store, key, value, s)
			t.node.Connect(st)
			t.state.materialized = true
		}
	}
	if now {
		materialize()
	}
	t.state.enableOld = func(force bool) bool {
		if st == nil && !force {
			return false
		}
		materialize()
		sendOld = true
		return true
	}
	t.state.view = func() viewSource {
		materialize()
		return storeView(st, open)
	}
	return t
}

// tableSource turns records into changes of a table.
type tableSource struct {
	c       *engine.Context
	open    opener // nil: the table has no store
	sendOld bool
	rows    rows
	cached  bool
}

func (p *tableSource) Init(c *engine.Context) (err error) {
	p.c = c
	if p.open == nil {
		return nil
	}
	if p.rows, err = p.open(c); err == nil {
		p.cached = p.rows.forwardFlushed(c, p.sendOld)
	}
	return err
}

func (p *tableSource) Process(r engine.Record) error {
	if r.Key == nil {
		p.c.Drop(nullKey)
		return nil
	}
	if p.rows == nil {
		return p.c.Forward(r)
	}
	in := p.c.Record()
	old, ok, err := p.rows.get(in, r.Key)
	if err != nil {
		return err
	}
	at, err := p.rows.put(in, r.Key, r.Value, r.Timestamp, stored(old, ok))
	if err != nil {
		return err
	}
	if at.rejected {
		p.c.Drop(tooOld)
		return nil
	}
	if ok && r.Timestamp < old.timestamp && !at.stale {
		p.c.Warn(outOfOrder)
	}
	if p.cached {
		return nil
	}
	r.Headers, r.Stale = at.out, at.stale
	if p.sendOld {
		r.Old = old.value
	}
	return p.c.Forward(r)
}

const (
	tooOld     = "too old for the history"
	outOfOrder = "older than the row that it replaces"
	nullKey    = "no key"
	nullValue  = "no value"
)

// ToTable makes a table of the stream: each record is the new value of its key, a null
// value deletes it.
func (s *Stream[K, V]) ToTable(options ...StoreOption) *Table[K, V] {
	o := collect(options)
	name := s.b.nameOr(o.name, "KSTREAM-TOTABLE-")
	named := o.store != ""
	if !named {
		o.store = s.b.name("KSTREAM-TOTABLE-STATE-STORE-")
	}
	from := s
	if s.rekeyed {
		from = repartitioned(s, name, settings{})
	}
	return tableFrom(s.b, from.node, name, s.key, s.value, o, named || o.history != nil)
}

// ToStream is the stream of the table's changes. A deletion is a null value.
func (t *Table[K, V]) ToStream(options ...Option) *Stream[K, V] {
	n := t.b.processor(t.b.nameOr(collect(options).name, "KTABLE-TOSTREAM-"), stateless(func(c *engine.Context, r engine.Record) error {
		r.Old, r.Stale = nil, false
		return c.Forward(r)
	}), t.node)
	return &Stream[K, V]{b: t.b, node: n, key: t.key, value: t.value}
}

// WithKeySerde is the table with another serde for its keys.
func (t *Table[K, V]) WithKeySerde(key store.Serde[K]) *Table[K, V] {
	out := *t
	out.key = key
	return &out
}

// WithValueSerde is the table with another serde for its values.
func (t *Table[K, V]) WithValueSerde(value store.Serde[V]) *Table[K, V] {
	out := *t
	out.value = value
	return &out
}

var errVersionedParent = errors.New("not available downstream of a versioned table")
