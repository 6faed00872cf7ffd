package dsl

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/forebay-streams/forebay/dsl/internal/buffer"
	"github.com/forebay-streams/forebay/dsl/internal/engine"
	"github.com/forebay-streams/forebay/dsl/internal/wire"
	"github.com/forebay-streams/forebay/store"
)

// JoinTable gives each record of the stream the table's row under its key. Records without a
// key, a value or a row are dropped. Updates of the table produce nothing. What comes out
// has the stream record's timestamp and headers.
//
// A versioned table ([Versioned]) is read as of the record's timestamp, whenever the record
// comes. With [JoinGrace] records wait for rows that come late.
func JoinTable[K, V, T, R any](s *Stream[K, V], t *Table[K, T], join func(value V, row T) R, options ...JoinOption) *Stream[K, R] {
	return joinTable(s, t, join, false, options).needs("JoinTable", join != nil)
}

// LeftJoinTable is [JoinTable] of all records with a value. A row that the table has not is
// the zero value for the join function: nil, if T can be nil.
func LeftJoinTable[K, V, T, R any](s *Stream[K, V], t *Table[K, T], join func(value V, row T) R, options ...JoinOption) *Stream[K, R] {
	return joinTable(s, t, join, true, options).needs("LeftJoinTable", join != nil)
}

// JoinOption is for joins of a stream with a table: [Named] and [JoinGrace].
type JoinOption interface {
	set(*settings)
	ofJoin()
}

func (NameOption) ofJoin() {}

type joinGrace time.Duration

func (o joinGrace) set(s *settings) { d := time.Duration(o); s.grace = &d }
func (joinGrace) ofJoin()           {}

// JoinGrace makes records wait until stream time has passed them by d, so that rows which
// come later, but were valid at the record's time, are found. The table must be versioned,
// with a history of at least d. A record that is later than that itself is joined at once.
func JoinGrace(d time.Duration) JoinOption { return joinGrace(d) }

func joinTable[K, V, T, R any](s *Stream[K, V], t *Table[K, T], join func(V, T) R, isLeft bool, options []JoinOption) *Stream[K, R] {
	s, t = s.orEmpty(), t.orEmpty()
	b, o := cmp.Or(s.b, t.b), collect(options)
	if s.rekeyed {
		base := o.name
		if base == "" {
			base = s.node.Name
		}
		s = repartitionedForJoin(s, base)
	}
	prefix := "KSTREAM-JOIN-"
	if isLeft {
		prefix = "KSTREAM-LEFTJOIN-"
	}
	name := b.nameOr(o.name, prefix)
	b.takes(name, s.b, t.b)
	from := t.state.view()
	e := enrich{
		open: from.open, left: isLeft, join: joiner(join),
		key: func(r engine.Record) any { return r.Key },
	}
	n := b.processor(name, func() engine.Processor { own := e; return &own }, s.node)
	n.Connect(from.stores...)
	n.NullKeys = isLeft
	if o.grace != nil {
		st, wait := joinBuffer(b, name, t.state, *o.grace)
		e.wait = wait
		e.buffer = newJoinBuffer(b, name, st.Name, s)
		n.Connect(st)
	}
	return &Stream[K, R]{b: b, node: n, key: s.key, value: sameSerde[V, R](s.value)}
}

// joinBuffer makes the store of records that wait.
func joinBuffer(b *Builder, operator string, table *tableState, grace time.Duration) (*engine.Store, int64) {
	wait := grace.Milliseconds()
	switch {
	case grace < 0 || grace%time.Millisecond != 0:
		b.fail(operator, fmt.Errorf("%w: JoinGrace(%v) is not a number of whole milliseconds, 0 or more", store.ErrConfig, grace))
	case !table.versioned:
		b.fail(operator, errors.New("JoinGrace needs a versioned table: give it the option Versioned"))
	case table.history < wait:
		b.fail(operator, fmt.Errorf("JoinGrace(%v) is longer than the table's history of %v", grace, time.Duration(table.history)*time.Millisecond))
	}
	name := operator + "-Buffer"
	return b.store(operator, &engine.Store{Name: name, Changelog: logged(settings{}, engine.Compacted, 0), Open: func(e *engine.Env) (engine.State, error) {
		return buffer.OpenDelayed(buffer.DelayedConfig{
			Config: buffer.Config{Name: name, Topic: e.Topic, Partition: e.Partition, Log: e.Log},
			Dir:    e.Dir, Memory: b.inMemory(e, settings{}), Budget: e.Budget,
		})
	}}), wait
}

// enrich joins the records of a stream with rows of a table.
type enrich struct {
	c    *engine.Context
	open func(*engine.Context) (view, error)
	view view
	left bool
	key  func(engine.Record) any
	join func(value, row any) any

	buffer *delay // nil: no grace period
	wait   int64
}

func (p *enrich) Init(c *engine.Context) (err error) {
	p.c = c
	if p.buffer != nil {
		own := *p.buffer
		p.buffer = &own
		if err := p.buffer.init(c); err != nil {
			return err
		}
	}
	p.view, err = p.open(c)
	return err
}

func (p *enrich) Process(r engine.Record) error {
	if r.Value == nil {
		p.c.Drop(nullValue)
		return nil
	}
	key := p.key(r)
	if key == nil && !p.left {
		p.c.Drop(nullKey)
		return nil
	}
	if p.buffer == nil || key == nil || p.buffer.late(r, p.wait) {
		return p.enriched(r, key)
	}
	if err := p.buffer.put(r); err != nil {
		return err
	}
	return p.buffer.evict(p.wait, func(r engine.Record) error { return p.enriched(r, r.Key) })
}

// enriched joins a record with the row under a key, or with none.
func (p *enrich) enriched(r engine.Record, key any) error {
	var found row
	var ok bool
	if key != nil {
		var err error
		if found, ok, err = p.view.getAsOf(p.c.Record(), key, r.Timestamp); err != nil {
			return err
		}
	}
	if !ok && !p.left {
		return nil
	}
	r.Value = p.join(r.Value, found.value)
	return p.c.Forward(r)
}

// delay holds records of a stream back.
type delay struct {
	c          *engine.Context
	name       string
	topic      string
	key, value anyCodec
	rows       *buffer.Delayed
}

func newJoinBuffer[K, V any](b *Builder, operator, name string, s *Stream[K, V]) *delay {
	return &delay{name: name, key: serdeFor(b, operator, "a key", s.key), value: serdeFor(b, operator, "a value", s.value)}
}

func (d *delay) init(c *engine.Context) (err error) {
	d.c = c
	if d.rows, err = engine.Open[*buffer.Delayed](c, d.name); err == nil {
		d.topic, _ = d.rows.ChangelogPartition()
	}
	return err
}

// late tells whether the record comes too late to wait.
func (d *delay) late(r engine.Record, wait int64) bool { return r.Timestamp < d.rows.StreamTime()-wait }

// put serializes a record. Its headers wait with it, and what the serdes need of theirs.
func (d *delay) put(r engine.Record) error {
	context := d.c.Record()
	h := context.Headers.Copy()
	key, err := d.key.encode(d.topic, &h, r.Key)
	if err != nil {
		return err
	}
	value, err := d.value.encode(d.topic, &h, r.Value)
	if err != nil {
		return err
	}
	if key == nil || value == nil {
		return errNilBytes
	}
	context.Headers = withoutReplaced(context.Headers, h)
	return d.rows.Put(key, value, context)
}

// evict hands on what has waited long enough, each in its own context.
func (d *delay) evict(wait int64, emit func(engine.Record) error) error {
	return d.rows.Evict(d.rows.StreamTime()-wait, func(key []byte, row wire.Delayed) error {
		h := row.Context.Headers.Copy()
		k, err := d.key.decode(d.topic, &h, key)
		if err != nil {
			return err
		}
		v, err := d.value.decode(d.topic, &h, row.Value)
		if err != nil {
			return err
		}
		return d.c.Under(row.Context, func() error {
			return emit(engine.Record{Key: k, Value: v, Timestamp: row.Context.Timestamp, Headers: row.Context.Headers})
		})
	})
}
