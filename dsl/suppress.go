package dsl

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/forebay-streams/forebay/dsl/internal/buffer"
	"github.com/forebay-streams/forebay/dsl/internal/engine"
	"github.com/forebay-streams/forebay/store"
)

// Buffer limits what Suppress holds back.
type Buffer struct {
	records int
	bytes   int64
	early   bool
}

// Unbounded sets no limit.
func Unbounded() Buffer { return Buffer{math.MaxInt, math.MaxInt64, false} }

// MaxRecords limits the buffer to so many rows; when it is full, the oldest are emitted early.
func MaxRecords(n int) Buffer { return Buffer{n, math.MaxInt64, true} }

// MaxBytes limits the buffer to so many bytes; when it is full, the oldest are emitted early.
func MaxBytes(n int64) Buffer { return Buffer{math.MaxInt, n, true} }

// MaxRecords adds a limit.
func (b Buffer) MaxRecords(n int) Buffer { b.records = n; return b }

// MaxBytes adds a limit.
func (b Buffer) MaxBytes(n int64) Buffer { b.bytes = n; return b }

// FailWhenFull makes a full buffer an error, which ends the application, instead of emitting
// early.
func (b Buffer) FailWhenFull() Buffer { b.early = false; return b }

// Suppressed says how long Suppress holds updates back.
type Suppressed struct {
	final  bool
	limit  time.Duration
	buffer Buffer
}

// UntilWindowCloses emits the final result of each window, once it takes no more records. A
// buffer with a limit must be one with FailWhenFull.
func UntilWindowCloses(b Buffer) Suppressed { return Suppressed{final: true, buffer: b} }

// UntilTimeLimit emits a row's last update when so much stream time has passed since its
// first.
func UntilTimeLimit(d time.Duration, b Buffer) Suppressed { return Suppressed{limit: d, buffer: b} }

// ErrBufferFull is the error of a full buffer with FailWhenFull.
var ErrBufferFull = errors.New("the suppress buffer is full")

// Suppress holds the table's updates back, and merges those of a key. What it emits has the
// timestamp and headers of the key's last update. The buffer is in memory, with a changelog.
func (t *Table[K, V]) Suppress(s Suppressed, options ...Option) *Table[K, V] {
	b := t.b
	name := collect(options).name
	storeName := suffixed(name, "-store")
	if name == "" {
		name = b.name("KTABLE-SUPPRESS-")
		storeName = b.name("KTABLE-SUPPRESS-STATE-STORE-")
	}
	p := suppress{store: storeName, how: s, wait: s.limit.Milliseconds()}
	if err := s.check(t.windows, t.state.versioned, &p); err != nil {
		b.fail(name, err)
	}
	t.state.enableOld(true)
	f := &format[K, V]{key: serdeFor(b, name, "a key", t.key), value: serdeFor(b, name, "a value", t.value)}
	p.format = f
	st := b.store(name, &engine.Store{Name: storeName, Changelog: logged(settings{}, engine.Compacted, 0), Open: func(e *engine.Env) (engine.State, error) {
		return buffer.NewSuppress(buffer.Config{Name: storeName, Topic: e.Topic, Partition: e.Partition, Log: e.Log, Parts: b.config.headers}), nil
	}})
	out := *t
	out.node = b.processor(name, func() engine.Processor { own := p; return &own }, t.node)
	out.node.Connect(st)
	out.state = &tableState{
		enableOld: func(force bool) bool {
			p.sendOld = true
			return true
		},
		view: func() viewSource {
			parent := t.state.view()
			return viewSource{append([]*engine.Store{st}, parent.stores...), func(c *engine.Context) (view, error) {
				v, err := parent.open(c)
				if err != nil {
					return nil, err
				}
				held, err := engine.Open[*buffer.Suppress](c, storeName)
				if err != nil {
					return nil, err
				}
				topic, _ := held.ChangelogPartition()
				return &suppressedView{v, f, held, topic}, nil
			}}
		},
	}
	return &out
}

// check refuses what cannot be, and sets how long to wait.
func (s Suppressed) check(windows *closing, versioned bool, p *suppress) error {
	switch {
	case versioned:
		return errVersionedParent
	case s.final && windows == nil:
		return errors.New("UntilWindowCloses needs a table whose keys are windows")
	case s.final && s.buffer.early:
		return errors.New("UntilWindowCloses cannot emit early: its buffer needs FailWhenFull")
	case s.limit < 0 || s.limit%time.Millisecond != 0:
		return fmt.Errorf("%w: the time limit %v is no number of milliseconds", store.ErrConfig, s.limit)
	case s.buffer.records < 0 || s.buffer.bytes < 0:
		return fmt.Errorf("%w: the buffer's limits are negative", store.ErrConfig)
	}
	if s.final {
		p.wait = windows.wait
		if windows.inclusive {
			p.wait++ // the end belongs to the window: a record at it still comes in time
		}
	}
	return nil
}

// suppress holds changes back.
type suppress struct {
	c          *engine.Context
	store      string
	topic      string
	format     rowFormat
	how        Suppressed
	wait       int64
	sendOld    bool
	buffer     *buffer.Suppress
	streamTime int64
}

func (p *suppress) Init(c *engine.Context) (err error) {
	p.c, p.streamTime = c, -1
	if p.buffer, err = engine.Open[*buffer.Suppress](c, p.store); err == nil {
		p.topic, _ = p.buffer.ChangelogPartition()
	}
	return err
}

func (p *suppress) Process(r engine.Record) error {
	p.streamTime = max(p.streamTime, r.Timestamp)
	if err := p.hold(r); err != nil {
		return err
	}
	for p.due() {
		if err := p.emit(); err != nil {
			return err
		}
	}
	if !p.full() {
		return nil
	}
	if !p.how.buffer.early {
		return fmt.Errorf("%w: %d rows, %d bytes; raise its limit, or let it emit early", ErrBufferFull, p.buffer.Len(), p.buffer.Bytes())
	}
	for p.full() {
		if err := p.emit(); err != nil {
			return err
		}
	}
	return nil
}

func (p *suppress) hold(r engine.Record) error {
	in := p.c.Record()
	at := r.Timestamp
	if p.how.final {
		_, _, at = unwindow(r.Key)
	}
	key, err := p.format.lookup(p.topic, in.Headers, r.Key)
	if err != nil {
		return err
	}
	old, err := p.format.bytes(p.topic, in.Headers, r.Old)
	if err != nil {
		return err
	}
	value, err := p.format.bytes(p.topic, in.Headers, r.Value)
	if err != nil {
		return err
	}
	return p.buffer.Put(at, key, value, old, in)
}

func (p *suppress) due() bool {
	first, ok := p.buffer.First()
	return ok && first <= p.streamTime-p.wait
}

func (p *suppress) full() bool {
	return p.buffer.Len() > p.how.buffer.records || p.buffer.Bytes() > p.how.buffer.bytes
}

// emit forwards the row that is next, under the context of its last update. Its old value is
// the one that those downstream have: from before the key was first held back.
func (p *suppress) emit() error {
	key, held, ok := p.buffer.Evict()
	if !ok {
		return nil
	}
	if held.New == nil && p.how.final {
		return nil // of a window that never was, as far as those downstream know
	}
	return p.c.Under(held.Context, func() error {
		r := engine.Record{Timestamp: held.Context.Timestamp, Headers: held.Context.Headers.Copy()}
		var err error
		if r.Key, err = p.format.readKey(p.topic, held.Context.Headers, key); err != nil {
			return err
		}
		if p.sendOld {
			if r.Old, err = p.format.plain(p.topic, held.Prior); err != nil {
				return err
			}
		}
		r.Value, err = p.format.plain(p.topic, store.Row{Value: held.New, Headers: held.Context.Headers})
		if err != nil {
			return err
		}
		return p.c.Forward(r)
	})
}

// suppressedView shows the rows as those downstream have them.
type suppressedView struct {
	parent view
	format rowFormat
	buffer *buffer.Suppress
	topic  string
}

func (v *suppressedView) get(in store.Record, key any) (r row, ok bool, err error) {
	k, err := v.format.lookup(v.topic, in.Headers, key)
	if err != nil {
		return r, false, err
	}
	prior, held := v.buffer.Prior(k)
	if !held {
		return v.parent.get(in, key)
	}
	value, err := v.format.plain(v.topic, prior)
	return row{value, prior.Timestamp, prior.Headers}, value != nil, err
}

func (v *suppressedView) getAsOf(in store.Record, key any, _ int64) (row, bool, error) {
	return v.get(in, key)
}
