package dsl

import (
	"github.com/forebay-streams/forebay/dsl/internal/engine"
	"github.com/forebay-streams/forebay/store"
)

// Filter keeps the rows that the predicate holds for; of others it deletes the key. The
// result has a store only with [As].
func (t *Table[K, V]) Filter(keep func(key K, value V) bool, options ...StoreOption) *Table[K, V] {
	return t.filter(keep, true, options).needs("Filter", keep != nil)
}

// FilterNot keeps the rows that the predicate does not hold for.
func (t *Table[K, V]) FilterNot(drop func(key K, value V) bool, options ...StoreOption) *Table[K, V] {
	return t.filter(drop, false, options).needs("FilterNot", drop != nil)
}

func (t *Table[K, V]) filter(predicate func(K, V) bool, keep bool, options []StoreOption) *Table[K, V] {
	s := collect(options)
	out := derive(t, "KTABLE-FILTER-", s, t.value, func(_ *engine.Context, key any, r row) (any, error) {
		if predicate(as[K](key), as[V](r.value)) != keep {
			return nil, nil
		}
		return r.value, nil
	}, true)
	if t.state.enableOld(false) {
		// With old values at hand, rows that were never let through cause no deletions.
		out.state.enableOld(false)
	}
	return out
}

// MapTableValues turns each value of a table into another. The result has a store only with
// [As]. A nil serde is the one known for the type.
func MapTableValues[K, V, W any](t *Table[K, V], to func(value V) W, value store.Serde[W], options ...StoreOption) *Table[K, W] {
	return MapTableValuesWithKey(t, func(_ K, v V) W { return to(v) }, value, options...).needs("MapTableValues", to != nil)
}

// MapTableValuesWithKey is MapTableValues with a look at the key, which must not be changed.
func MapTableValuesWithKey[K, V, W any](t *Table[K, V], to func(key K, value V) W, value store.Serde[W], options ...StoreOption) *Table[K, W] {
	if value == nil {
		value = sameSerde[V, W](t.value)
	}
	return derive(t, "KTABLE-MAPVALUES-", collect(options), value, func(_ *engine.Context, key any, r row) (any, error) {
		return box(to(as[K](key), as[V](r.value))), nil
	}, false).needs("MapTableValuesWithKey", to != nil)
}

// derive adds a table whose rows follow one by one from those of another. change is not
// called for a null value; nil from it is none.
func derive[K, V, W any](t *Table[K, V], prefix string, s settings, value store.Serde[W], change changer, filter bool) *Table[K, W] {
	name, storeName := deriveNames(t.b, prefix, s)
	start := func(*engine.Context) (changer, error) { return change, nil }
	return deriveAs(t, name, storeName, s, value, derived{start: start, filter: filter})
}

// changer makes a row's value out of that of another table's row, whose value is nil if there
// is none.
type changer func(c *engine.Context, key any, r row) (any, error)

// deriveAs is derive for a processor of its own, once the numbers are taken.
func deriveAs[K, V, W any](t *Table[K, V], name, storeName string, s settings, value store.Serde[W], p derived) *Table[K, W] {
	b := t.b
	out := &Table[K, W]{b: b, key: t.key, value: value, windows: t.windows}
	out.node = b.processor(name, func() engine.Processor { own := p; return &own }, t.node)
	out.state = &tableState{versioned: t.state.versioned && storeName == "" || s.history != nil, history: t.state.history}
	if storeName != "" {
		st, open := keyValue(b, name, storeName, t.key, value, s)
		out.node.Connect(st)
		p.open = open
		out.state = ownState(st, open, s, &p.sendOld)
		return out
	}
	out.state.enableOld = func(force bool) bool {
		p.sendOld = p.sendOld || t.state.enableOld(force)
		return p.sendOld
	}
	out.state.view = func() viewSource {
		parent := t.state.view()
		return viewSource{parent.stores, func(c *engine.Context) (view, error) {
			v, err := parent.open(c)
			if err != nil {
				return nil, err
			}
			change, err := p.start(c)
			return &derivedView{c, v, change, p.nulls}, err
		}}
	}
	return out
}

// deriveNames takes the numbers of a table operator that may have a store.
func deriveNames(b *Builder, prefix string, s settings) (name, storeName string) {
	if s.materialized {
		if storeName = s.store; storeName == "" {
			b.counter++ // of a store's name: an unnamed one is not made
		}
	}
	return b.nameOr(s.name, prefix), storeName
}

// derived turns the changes of a table into those of another.
type derived struct {
	c       *engine.Context
	start   func(c *engine.Context) (changer, error)
	nulls   bool // change is called for null values too
	change  changer
	filter  bool
	open    opener // nil: no store
	sendOld bool
	rows    rows
	cached  bool
}

func (p *derived) Init(c *engine.Context) (err error) {
	p.c = c
	if p.change, err = p.start(c); err != nil || p.open == nil {
		return err
	}
	if p.rows, err = p.open(c); err == nil {
		p.cached = p.rows.forwardFlushed(c, p.sendOld)
	}
	return err
}

func (p *derived) Process(r engine.Record) (err error) {
	in := p.c.Record()
	if r.Value, err = p.changed(r.Key, r.Value, in); err != nil {
		return err
	}
	var old row
	var ok bool
	if p.rows != nil {
		if old, ok, err = p.rows.get(in, r.Key); err != nil {
			return err
		}
		r.Old = old.value
	} else if p.sendOld {
		if r.Old, err = p.changed(r.Key, r.Old, in); err != nil {
			return err
		}
	}
	if p.filter && p.sendOld && r.Old == nil && r.Value == nil {
		return nil
	}
	if !p.sendOld {
		r.Old = nil
	}
	if p.rows == nil {
		return p.c.Forward(r)
	}
	at, err := p.rows.put(in, r.Key, r.Value, r.Timestamp, stored(old, ok))
	if err != nil || at.rejected || p.cached {
		return err
	}
	r.Headers, r.Stale = at.out, r.Stale || at.stale
	return p.c.Forward(r)
}

func (p *derived) changed(key, value any, in store.Record) (any, error) {
	if value == nil && !p.nulls {
		return nil, nil
	}
	return p.change(p.c, key, row{value, in.Timestamp, in.Headers})
}

// derivedView computes rows of a table without store from those of its parent: with the
// parent's timestamp and headers.
type derivedView struct {
	c      *engine.Context
	parent view
	change changer
	nulls  bool
}

func (v *derivedView) get(in store.Record, key any) (row, bool, error) {
	return v.from(in, key)(v.parent.get(in, key))
}

func (v *derivedView) getAsOf(in store.Record, key any, at int64) (row, bool, error) {
	return v.from(in, key)(v.parent.getAsOf(in, key, at))
}

func (v *derivedView) from(in store.Record, key any) func(row, bool, error) (row, bool, error) {
	return func(r row, ok bool, err error) (row, bool, error) {
		if err != nil || !ok && !v.nulls {
			return row{}, false, err
		}
		out := r
		if !ok {
			r, out = row{timestamp: store.NoTimestamp}, row{timestamp: store.NoTimestamp, headers: in.Headers}
		}
		of := store.Record{Partition: -1, Offset: -1, Timestamp: r.timestamp, Headers: r.headers}
		err = v.c.Under(of, func() error {
			out.value, err = v.change(v.c, key, r)
			return err
		})
		return out, err == nil && out.value != nil, err
	}
}
