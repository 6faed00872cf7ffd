package dsl

import (
	"errors"
	"fmt"
	"time"

	"github.com/forebay-streams/forebay/dsl/internal/engine"
	"github.com/forebay-streams/forebay/dsl/internal/window"
	"github.com/forebay-streams/forebay/store"
	"github.com/forebay-streams/forebay/windowed"
)

// WindowedStream is a grouped stream whose groups are split into windows.
type WindowedStream[K, V any] struct {
	grouped *GroupedStream[K, V]
	windows Windows
	final   bool
}

// WindowedBy splits the groups into time windows or sliding windows.
func (g *GroupedStream[K, V]) WindowedBy(w Windows) *WindowedStream[K, V] {
	return &WindowedStream[K, V]{grouped: g, windows: w}
}

// EmitOnClose forwards one result of each window, when it closes, instead of every update
// (EmitStrategy.onWindowClose in Java). Every window that closes is forwarded exactly once,
// with the headers of its row.
func (g *WindowedStream[K, V]) EmitOnClose() *WindowedStream[K, V] {
	out := *g
	out.final = true
	return &out
}

func (g *WindowedStream[K, V]) neverMerge() {}

func (g *WindowedStream[K, V]) of() (*Builder, store.Serde[K], store.Serde[V], store.Serde[Windowed[K]]) {
	b, key, value, _ := g.grouped.of()
	return b, key, value, windowedKeySerde(key, g.windows)
}

// windowedKeySerde is that of keys in windows, nil if the keys' is not known.
func windowedKeySerde[K any](key store.Serde[K], windows Windows) store.Serde[Windowed[K]] {
	if key == nil {
		return nil
	}
	switch w := windows.(type) {
	case TimeWindows:
		return WindowedSerde(key, w.size)
	case SlidingWindows:
		return WindowedSerde(key, w.difference)
	}
	return nil
}

func (g *WindowedStream[K, V]) groups(a aggregation[K, V, Windowed[K]]) aggregated {
	b := g.grouped.stream.b
	a.burn = a.burn && !isSliding(g.windows)
	storeName, name := a.names(b)
	in := g.grouped.input(storeName)
	out := windowShelf(b, name, storeName, g.windows, g.final, a.format(name), a.settings)
	return aggregated{out.add(b, name, a.fold, in.node), out}
}

func isSliding(w Windows) bool { _, ok := w.(SlidingWindows); return ok }

// windowShelf keeps one aggregate for each key and window.
func windowShelf(b *Builder, operator, name string, windows Windows, final bool, f rowFormat, s settings) *shelf {
	var size, needed int64
	var err error
	base := &windowAggregate{name: name, final: final}
	out := &shelf{windows: &closing{}}
	switch w := windows.(type) {
	case TimeWindows:
		var plan window.Time
		plan, err = w.plan()
		size, needed, out.windows.wait = plan.Size, plan.Retention(), plan.Grace
		out.processor = func(f fold) func() engine.Processor {
			return func() engine.Processor { return &timeAggregate{windowAggregate: base.with(f), plan: plan} }
		}
	case SlidingWindows:
		var plan window.Sliding
		plan, err = w.plan()
		size, needed, out.windows.wait = plan.Difference, plan.Retention(), plan.Grace
		out.windows.inclusive = true
		out.processor = func(f fold) func() engine.Processor {
			return func() engine.Processor { return &slidingAggregate{windowAggregate: base.with(f), plan: plan} }
		}
	}
	if err != nil {
		b.fail(operator, err)
	}
	base.retention = checkedRetention(b, operator, s, needed)
	base.open = windowOpener(name, f)
	out.store = windowStore(b, operator, name, f, size, base.retention, final, isSliding(windows), s)
	out.state = windowState(out.store, base.open, &base.sendOld)
	return out
}

// windowState is the state of a windowed table.
func windowState(st *engine.Store, open func(c *engine.Context) (*windowRows, error), sendOld *bool) *tableState {
	return &tableState{
		materialized: true,
		enableOld:    func(bool) bool { *sendOld = true; return true },
		view: func() viewSource {
			return viewSource{[]*engine.Store{st}, func(c *engine.Context) (view, error) { return open(c) }}
		},
	}
}

// checkedRetention is how long a store keeps its rows: as long as its windows need them, or
// longer if the user says so.
func checkedRetention(b *Builder, operator string, s settings, needed int64) int64 {
	if s.history != nil {
		b.fail(operator, errors.New("Versioned is for tables; a windowed store keeps no versions"))
	}
	if s.retention == nil {
		return needed
	}
	if err := millis(map[string]time.Duration{"retention": *s.retention}); err != nil {
		b.fail(operator, err)
	}
	if s.retention.Milliseconds() < needed {
		b.fail(operator, fmt.Errorf("the retention %v is less than the %v that its windows need", *s.retention, ms(needed)))
	}
	return s.retention.Milliseconds()
}

// windowStore makes the store of a windowed aggregation.
func windowStore(b *Builder, operator, name string, f rowFormat, size, keep int64, final, index bool, s settings) *engine.Store {
	headers, _ := f.kept()
	return b.store(operator, &engine.Store{Name: name, Changelog: logged(s, engine.Windowed, keep), Open: func(e *engine.Env) (engine.State, error) {
		options := []windowed.Option{windowed.Size(ms(size)), windowed.Retention(ms(keep)), windowed.Format(layout(headers, store.Timestamped)),
			windowed.ChangelogTopic(e.Topic, e.Partition), windowed.Shared(e.Budget)}
		if e.Log != nil {
			options = append(options, windowed.Changelog(e.Log))
		}
		if b.inMemory(e, s) {
			options = append(options, windowed.InMemory())
		} else if final {
			options = append(options, windowed.TimeOrdered(index))
		}
		if e.Cache && !s.uncached && !(final && index) {
			options = append(options, windowed.Cache(e.Budget))
		}
		return windowed.Open(e.Dir, name, store.RawBytes(), store.RawBytes(), options...)
	}})
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// windowRows is the typed side of a windowed store.
type windowRows struct {
	rowFormat
	topic string
	store *windowed.Store[[]byte, []byte]
}

func windowOpener(name string, f rowFormat) func(c *engine.Context) (*windowRows, error) {
	return func(c *engine.Context) (*windowRows, error) {
		st, err := engine.Open[*windowed.Store[[]byte, []byte]](c, name)
		if err != nil {
			return nil, err
		}
		topic, _ := st.ChangelogPartition()
		return &windowRows{f, topic, st}, nil
	}
}

// fetch returns the row of a window.
func (t *windowRows) fetch(in store.Record, key any, start int64) (r row, ok bool, err error) {
	k, err := t.lookup(t.topic, in.Headers, key)
	if err != nil {
		return r, false, err
	}
	v, ok, err := t.store.Fetch(k, start)
	if err != nil || !ok {
		return r, false, err
	}
	r, err = t.read(t.topic, in.Headers, v)
	return r, err == nil, err
}

// get and getAsOf read a row by its windowed key, for tables downstream.
func (t *windowRows) get(in store.Record, key any) (row, bool, error) {
	inner, start, _ := unwindow(key)
	return t.fetch(in, inner, start)
}

func (t *windowRows) getAsOf(in store.Record, key any, _ int64) (row, bool, error) {
	return t.get(in, key)
}

// put writes a row, or deletes it if the value is nil.
func (t *windowRows) put(in store.Record, key any, start int64, value any, timestamp int64, old *store.Headers) (store.Headers, error) {
	w, err := t.encode(t.topic, in, key, value, old)
	if err != nil {
		return store.Headers{}, err
	}
	t.store.SetRecord(w.record)
	if w.value == nil {
		return w.out, t.store.Tombstone(w.key, start)
	}
	return w.out, t.store.Put(w.key, start, store.Value[[]byte]{Data: w.value, Timestamp: timestamp, Headers: w.rides})
}

// copyTo writes a row that was read to another window, headers and all.
func (t *windowRows) copyTo(in store.Record, key any, start int64, r row) (store.Headers, error) {
	w, err := t.copied(t.topic, in, key, r)
	if err != nil {
		return store.Headers{}, err
	}
	t.store.SetRecord(w.record)
	return w.out, t.store.Put(w.key, start, store.Value[[]byte]{Data: w.value, Timestamp: r.timestamp, Headers: w.rides})
}

func (t *windowRows) forwardFlushed(c *engine.Context, old bool) bool {
	return t.store.SetFlushListener(func(f windowed.Flushed[[]byte, []byte]) error {
		if c.Leaf() {
			return nil
		}
		r, err := t.flushed(t.topic, f.Key, f.Flushed)
		if err != nil {
			return err
		}
		r.Key = t.windowed(r.Key, f.Start, f.End)
		return c.Under(f.Record, func() error { return c.Forward(r) })
	}, old)
}

// windowAggregate is what aggregations over time and sliding windows have in common.
type windowAggregate struct {
	fold
	c         *engine.Context
	name      string // of the store, by which the mark is kept
	open      func(c *engine.Context) (*windowRows, error)
	retention int64
	final     bool
	sendOld   bool

	rows       *windowRows
	cached     bool
	streamTime int64
	emission   emission
}

func (p *windowAggregate) with(f fold) windowAggregate {
	own := *p
	own.fold = f
	return own
}

func (p *windowAggregate) Init(c *engine.Context) (err error) {
	p.c, p.streamTime = c, -1
	p.emission.init(c, p.name)
	if p.rows, err = p.open(c); err == nil && !p.final {
		p.cached = p.rows.forwardFlushed(c, p.sendOld)
	}
	return err
}

// admit drops what no window takes, and moves stream time on.
func (p *windowAggregate) admit(r engine.Record) bool {
	switch {
	case r.Key == nil:
		p.c.Drop(nullKey)
		return false
	case r.Value == nil && p.unseen:
		p.c.Drop(nullUnseen)
		return false
	}
	p.streamTime = max(p.streamTime, r.Timestamp)
	return true
}

// write stores a window's new aggregate and forwards it, unless that comes later. old is
// what the window had, base what its headers are merged with.
func (p *windowAggregate) write(r engine.Record, s window.Span, value any, timestamp int64, base *store.Headers, old any) error {
	out, err := p.rows.put(p.c.Record(), r.Key, s.Start, value, timestamp, base)
	if err != nil || p.cached || p.final {
		return err
	}
	return p.forward(r.Key, s, value, timestamp, out, old)
}

func (p *windowAggregate) forward(key any, s window.Span, value any, timestamp int64, h store.Headers, old any) error {
	next := engine.Record{Key: p.rows.windowed(key, s.Start, s.End), Value: value, Timestamp: timestamp, Headers: h}
	if p.sendOld {
		next.Old = old
	}
	return p.c.Forward(next)
}

// emit forwards the windows that start in a range and have closed.
func (p *windowAggregate) emit(s window.Scan) error {
	in := p.c.Record()
	headers, policy := p.rows.kept()
	for w, err := range p.rows.store.FetchAll(s.From, s.To) {
		if err != nil {
			return err
		}
		w = w.Clone()
		r, err := p.rows.read(p.rows.topic, in.Headers, w.Value)
		if err != nil {
			return err
		}
		key, err := p.rows.readKey(p.rows.topic, r.headers, w.Key)
		if err != nil {
			return err
		}
		out := in.Headers
		if headers && !policy.empty() {
			out = r.headers
		}
		if err := p.forward(key, window.Span{Start: w.Start, End: w.End}, r.value, max(r.timestamp, 0), out.Copy(), nil); err != nil {
			return err
		}
	}
	return nil
}

// emission decides when closed windows are looked for.
type emission struct {
	c    *engine.Context
	mark string
	last int64     // the close time up to which windows have been emitted
	at   time.Time // when they were
}

func (e *emission) init(c *engine.Context, mark string) {
	e.c, e.mark, e.last = c, mark, window.Never
}

// due calls emit with what closed up to the close time. Between two calls lies the
// application's emit interval, unless the store is about to hide what starts, for sessions
// ends, before hides.
func (e *emission) due(closeTime, hides int64, plan func(last, closeTime int64) (window.Scan, bool), emit func(window.Scan) error) error {
	if last, ok := e.c.Mark(e.mark); ok {
		e.last = max(e.last, last)
	}
	scan, ok := plan(e.last, closeTime)
	if !ok {
		return nil
	}
	now := e.c.Now()
	if !e.at.IsZero() && now.Sub(e.at) < e.c.EmitInterval() && hides <= scan.From {
		return nil
	}
	if err := emit(scan); err != nil {
		return err
	}
	e.last, e.at = closeTime, now
	e.c.SetMark(e.mark, closeTime)
	return nil
}
