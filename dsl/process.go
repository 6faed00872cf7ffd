package dsl

import (
	"errors"
	"fmt"
	"time"

	"github.com/forebay-streams/forebay/dsl/internal/engine"
	"github.com/forebay-streams/forebay/store"
)

// Record is a record as processors see it.
type Record[K, V any] struct {
	Key   K
	Value V
	// Timestamp in ms since the epoch.
	Timestamp int64
	Headers   store.Headers
}

// Processor is an operator of the user's own. One goroutine calls it. One that has a method
// Close() error is closed with its task.
type Processor[K, V, L, W any] interface {
	// Init is called once, before the first record.
	Init(c *Context[L, W]) error
	// Process handles a record. An error ends the task.
	Process(r Record[K, V]) error
}

// Context is how a [Processor] sees its task.
type Context[K, V any] struct{ c *engine.Context }

// Forward hands a record to what follows in the topology. Its timestamp and headers are
// those of what follows.
func (c *Context[K, V]) Forward(r Record[K, V]) error {
	return c.c.Forward(engine.Record{Key: box(r.Key), Value: box(r.Value), Timestamp: r.Timestamp, Headers: r.Headers})
}

// Record is where the record being processed was read, with its timestamp and headers.
func (c *Context[K, V]) Record() store.Record { return c.c.Record() }

// StreamTime is the largest timestamp that the task has taken in, -1 at first.
func (c *Context[K, V]) StreamTime() int64 { return c.c.StreamTime() }

// Now is wall-clock time.
func (c *Context[K, V]) Now() time.Time { return c.c.Now() }

// Drop counts and logs a record that the processor drops.
func (c *Context[K, V]) Drop(reason string) { c.c.Drop(reason) }

// Clock is which time a schedule follows.
type Clock uint8

const (
	// StreamTime passes with the records' timestamps.
	StreamTime Clock = iota
	// WallClock is the time of day.
	WallClock
)

// Schedule calls punctuate at every interval, until cancel is called. By stream time it first
// fires with the first record, by wall clock after an interval. What is forwarded then has
// the headers that the processor gives it.
func (c *Context[K, V]) Schedule(every time.Duration, clock Clock, punctuate func(now int64) error) (cancel func()) {
	kind := engine.StreamClock
	if clock == WallClock {
		kind = engine.WallClock
	}
	return c.c.Schedule(max(every.Milliseconds(), 1), kind, punctuate)
}

// Process hands the records to a processor of the user's own, one for each task. What it
// forwards is the stream that Process returns.
func Process[K, V, L, W any](s *Stream[K, V], make func() Processor[K, V, L, W], options ...ProcessOption) *Stream[L, W] {
	return process(s, make, options, true).needs("Process", make != nil)
}

// ProcessValues is Process for a processor that leaves the keys as they are, so that nothing
// need be repartitioned.
func ProcessValues[K, V, W any](s *Stream[K, V], make func() Processor[K, V, K, W], options ...ProcessOption) *Stream[K, W] {
	return process(s, make, options, false).needs("ProcessValues", make != nil)
}

func process[K, V, L, W any](s *Stream[K, V], make func() Processor[K, V, L, W], options []ProcessOption, rekeys bool) *Stream[L, W] {
	o := collect(options)
	prefix := "KSTREAM-PROCESSOR-"
	if !rekeys {
		prefix = "KSTREAM-PROCESSVALUES-"
	}
	name := s.b.nameOr(o.name, prefix)
	o.stores = s.b.own(name, o.stores)
	var sets []func(c *engine.Context) (recorder, error)
	for _, st := range o.stores {
		sets = append(sets, st.recorder)
	}
	n := s.b.processor(name, func() engine.Processor {
		return &custom[K, V, L, W]{of: make(), open: sets}
	}, s.node)
	for _, st := range o.stores {
		n.Connect(st.state())
	}
	out := &Stream[L, W]{b: s.b, node: n, key: sameSerde[K, L](s.key), value: sameSerde[V, W](s.value), rekeyed: s.rekeyed || rekeys}
	return out
}

// ProcessOption is for Process: [Named] and [WithStores].
type ProcessOption interface {
	set(*settings)
	ofProcess()
}

func (NameOption) ofProcess() {}

// StoresOption is a [ProcessOption] and a [TransformOption].
type StoresOption []StateStore

func (o StoresOption) set(s *settings) { s.stores = append(s.stores, o...) }
func (StoresOption) ofProcess()        {}

// WithStores connects state stores with a processor.
func WithStores(stores ...StateStore) StoresOption { return stores }

// own leaves out, and reports, stores that the builder has not.
func (b *Builder) own(operator string, stores []StateStore) (own []StateStore) {
	for _, s := range stores {
		switch {
		case s == nil:
			b.fail(operator, errors.New("a store of WithStores is nil"))
		case b.stores[s.state().Name] != s.state():
			b.fail(operator, fmt.Errorf("the store %q was added to another builder", s.state().Name))
		default:
			own = append(own, s)
		}
	}
	return own
}

// recorder is a store that wants to know the record being processed.
type recorder interface{ SetRecord(store.Record) }

// custom runs a user's processor.
type custom[K, V, L, W any] struct {
	c      *engine.Context
	of     Processor[K, V, L, W]
	open   []func(c *engine.Context) (recorder, error)
	stores []recorder
}

func (p *custom[K, V, L, W]) Init(c *engine.Context) error {
	p.c = c
	for _, open := range p.open {
		s, err := open(c)
		if err != nil {
			return err
		}
		p.stores = append(p.stores, s)
	}
	return p.of.Init(&Context[L, W]{c})
}

func (p *custom[K, V, L, W]) Process(r engine.Record) error {
	if unseen[V](r.Value) {
		p.c.Drop(nullUnseen)
		return nil
	}
	for _, s := range p.stores {
		s.SetRecord(p.c.Record())
	}
	return p.of.Process(Record[K, V]{as[K](r.Key), as[V](r.Value), r.Timestamp, r.Headers})
}

func (p *custom[K, V, L, W]) Close() error {
	if c, ok := p.of.(engine.Closer); ok {
		return c.Close()
	}
	return nil
}
