package dsl

import (
	"time"

	"github.com/forebay-streams/forebay/dsl/internal/engine"
	"github.com/forebay-streams/forebay/store"
)

// Transformer computes the values of a table with a look at state stores and the record
// context. One goroutine calls it. One that has a method Close() error is closed with its
// task.
type Transformer[K, V, W any] interface {
	// Init is called once, before the first record.
	Init(c *TransformContext) error
	// Transform returns the value of the row; nil is none. It is called for deletions too, if
	// V can be nil.
	Transform(key K, value V) (W, error)
}

// TransformContext is how a [Transformer] sees its task.
type TransformContext struct{ c *engine.Context }

// Record is the record context: the change that is being processed. When a row is read for
// somebody else, a join for example, it is the timestamp and the headers of the row that it
// is computed from, and -1 and none without such a row.
func (c *TransformContext) Record() store.Record { return c.c.Record() }

// StreamTime is the largest timestamp that the task has taken in, -1 at first.
func (c *TransformContext) StreamTime() int64 { return c.c.StreamTime() }

// Now is wall-clock time.
func (c *TransformContext) Now() time.Time { return c.c.Now() }

func (c *TransformContext) engine() *engine.Context { return c.c }

// TransformOption is for TransformTableValues: the options of a store, and [WithStores].
type TransformOption interface {
	set(*settings)
	ofTransform()
}

func (NameOption) ofTransform()         {}
func (MaterializedOption) ofTransform() {}
func (StoresOption) ofTransform()       {}

// TransformTableValues turns each value of a table into another by a transformer of the
// user's own, of which every task makes one, and every operator that reads the table one
// more (KTable.transformValues in Java). The result has a store only with [As]; without, its
// rows are computed anew whenever they are read. A nil serde is the one known for the type.
func TransformTableValues[K, V, W any](t *Table[K, V], make func() Transformer[K, V, W], value store.Serde[W], options ...TransformOption) *Table[K, W] {
	o := collect(options)
	name := t.b.nameOr(o.name, "KTABLE-TRANSFORMVALUES-")
	o.stores = t.b.own(name, o.stores)
	start := func(c *engine.Context) (changer, error) {
		p := &transformed[K, V, W]{of: make()}
		for _, st := range o.stores {
			s, err := st.recorder(c)
			if err != nil {
				return nil, err
			}
			p.stores = append(p.stores, s)
		}
		if closer, ok := p.of.(engine.Closer); ok {
			c.OnClose(closer.Close)
		}
		return p.change, p.of.Init(&TransformContext{c})
	}
	t.b.needs(name, "TransformTableValues", make != nil)
	out := deriveAs(t, name, o.store, o, known(value), derived{start: start, nulls: canBeNil[V]()})
	for _, st := range o.stores {
		out.node.Connect(st.state())
	}
	if o.store == "" && len(o.stores) > 0 {
		view := out.state.view
		out.state.view = func() viewSource { // whoever reads the table runs a transformer
			v := view()
			v.stores = v.stores[:len(v.stores):len(v.stores)]
			for _, st := range o.stores {
				v.stores = append(v.stores, st.state())
			}
			return v
		}
	}
	return out
}

// transformed runs a user's transformer.
type transformed[K, V, W any] struct {
	of     Transformer[K, V, W]
	stores []recorder
}

func (p *transformed[K, V, W]) change(c *engine.Context, key any, r row) (any, error) {
	for _, s := range p.stores {
		s.SetRecord(c.Record())
	}
	v, err := p.of.Transform(as[K](key), as[V](r.value))
	return box(v), err
}
