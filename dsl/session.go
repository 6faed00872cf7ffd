package dsl

import (
	"github.com/forebay-streams/forebay/dsl/internal/engine"
	"github.com/forebay-streams/forebay/dsl/internal/policy"
	"github.com/forebay-streams/forebay/dsl/internal/window"
	"github.com/forebay-streams/forebay/session"
	"github.com/forebay-streams/forebay/store"
)

// SessionStream is a grouped stream whose groups are split into sessions.
type SessionStream[K, V any] struct {
	grouped *GroupedStream[K, V]
	windows SessionWindows
	final   bool
}

// WindowedBySession splits the groups into sessions.
func (g *GroupedStream[K, V]) WindowedBySession(w SessionWindows) *SessionStream[K, V] {
	return &SessionStream[K, V]{grouped: g, windows: w}
}

// EmitOnClose forwards each session once, when it closes, with the headers of its row.
func (g *SessionStream[K, V]) EmitOnClose() *SessionStream[K, V] {
	out := *g
	out.final = true
	return &out
}

// AggregateSessions is [Aggregate] for sessions, which may grow together: merge joins the
// aggregates of two.
func AggregateSessions[K, V, A any](g *SessionStream[K, V], initial func() A, add func(key K, value V, aggregate A) A, merge func(key K, a, b A) A, value store.Serde[A], options ...StoreOption) *Table[Windowed[K], A] {
	f := folding(initial, add)
	f.merge = merging(merge)
	return aggregateWith(g, aggregation[K, V, Windowed[K]]{prefix: "KSTREAM-AGGREGATE-", fold: f}, value, collect(options)).
		needs("initial of AggregateSessions", initial != nil).needs("add of AggregateSessions", add != nil).needs("merge of AggregateSessions", merge != nil)
}

func merging[K, A any](merge func(K, A, A) A) func(key, a, b any) any {
	return func(key, a, b any) any { return box(merge(as[K](key), as[A](a), as[A](b))) }
}

func (g *SessionStream[K, V]) of() (*Builder, store.Serde[K], store.Serde[V], store.Serde[Windowed[K]]) {
	b, key, value, _ := g.grouped.of()
	var out store.Serde[Windowed[K]]
	if key != nil {
		out = SessionSerde(key)
	}
	return b, key, value, out
}

func (g *SessionStream[K, V]) groups(a aggregation[K, V, Windowed[K]]) aggregated {
	b := g.grouped.stream.b
	storeName, name := a.names(b)
	in := g.grouped.input(storeName)
	out := sessionShelf(b, name, storeName, g.windows, g.final, a.format(name), a.settings)
	return aggregated{out.add(b, name, a.fold, in.node), out}
}

// sessionShelf keeps one aggregate for each session.
func sessionShelf(b *Builder, operator, name string, windows SessionWindows, final bool, f rowFormat, s settings) *shelf {
	plan, err := windows.plan()
	if err != nil {
		b.fail(operator, err)
	}
	keep := checkedRetention(b, operator, s, plan.Retention())
	headers, _ := f.kept()
	base := &sessionAggregate{name: name, plan: plan, final: final}
	base.open = func(c *engine.Context) (*sessionRows, error) {
		st, err := engine.Open[*session.Store[[]byte, []byte]](c, name)
		if err != nil {
			return nil, err
		}
		topic, _ := st.ChangelogPartition()
		return &sessionRows{f, topic, st}, nil
	}
	st := b.store(operator, &engine.Store{Name: name, Changelog: logged(s, engine.Windowed, keep), Open: func(e *engine.Env) (engine.State, error) {
		options := []session.Option{session.Retention(ms(keep)), session.Format(layout(headers, store.Plain)),
			session.ChangelogTopic(e.Topic, e.Partition), session.Shared(e.Budget)}
		if e.Log != nil {
			options = append(options, session.Changelog(e.Log))
		}
		if b.inMemory(e, s) {
			options = append(options, session.InMemory())
		} else if final {
			options = append(options, session.TimeOrdered(true))
		}
		if e.Cache && !s.uncached && !final {
			options = append(options, session.Cache(e.Budget))
		}
		return session.Open(e.Dir, name, store.RawBytes(), store.RawBytes(), options...)
	}})
	return &shelf{
		store: st, windows: &closing{wait: plan.Retention(), inclusive: true},
		state: &tableState{
			materialized: true,
			enableOld:    func(bool) bool { base.sendOld = true; return true },
			view: func() viewSource {
				return viewSource{[]*engine.Store{st}, func(c *engine.Context) (view, error) { return base.open(c) }}
			},
		},
		processor: func(f fold) func() engine.Processor {
			return func() engine.Processor {
				own := *base
				own.fold = f
				return &own
			}
		},
	}
}

// sessionRows is the typed side of a session store.
type sessionRows struct {
	rowFormat
	topic string
	store *session.Store[[]byte, []byte]
}

// sessionRow is a stored session.
type sessionRow struct {
	window.Span
	row
}

// find returns the sessions of a key that a record touches, by their ends.
func (t *sessionRows) find(in store.Record, key any, earliestEnd, latestStart int64) (found []sessionRow, err error) {
	k, err := t.lookup(t.topic, in.Headers, key)
	if err != nil {
		return nil, err
	}
	for s, err := range t.store.FindSessions(k, earliestEnd, latestStart) {
		if err != nil {
			return nil, err
		}
		s = s.Clone()
		r, err := t.read(t.topic, in.Headers, s.Value)
		if err != nil {
			return nil, err
		}
		found = append(found, sessionRow{window.Span{Start: s.Start, End: s.End}, r})
	}
	return found, nil
}

// put writes a session, or removes it if the value is nil.
func (t *sessionRows) put(in store.Record, key any, s window.Span, value any, old *store.Headers) (store.Headers, error) {
	w, err := t.encode(t.topic, in, key, value, old)
	if err != nil {
		return store.Headers{}, err
	}
	t.store.SetRecord(w.record)
	if w.value == nil {
		err = t.store.Remove(w.key, s.Start, s.End)
	} else {
		err = t.store.Put(w.key, s.Start, s.End, store.Value[[]byte]{Data: w.value, Timestamp: s.End, Headers: w.rides})
	}
	if headers, p := t.kept(); !headers || p.empty() {
		return store.Headers{}, err // as Kafka Streams forwards sessions
	}
	return w.out, err
}

// get reads a session by its windowed key, for tables downstream.
func (t *sessionRows) get(in store.Record, key any) (r row, ok bool, err error) {
	inner, start, end := unwindow(key)
	k, err := t.lookup(t.topic, in.Headers, inner)
	if err != nil {
		return r, false, err
	}
	v, ok, err := t.store.FetchSession(k, start, end)
	if err != nil || !ok {
		return r, false, err
	}
	r, err = t.read(t.topic, in.Headers, v)
	return r, err == nil, err
}

func (t *sessionRows) getAsOf(in store.Record, key any, _ int64) (row, bool, error) {
	return t.get(in, key)
}

func (t *sessionRows) forwardFlushed(c *engine.Context, old bool) bool {
	headers, p := t.kept()
	return t.store.SetFlushListener(func(f session.Flushed[[]byte, []byte]) error {
		if c.Leaf() {
			return nil
		}
		r, err := t.flushed(t.topic, f.Key, f.Flushed)
		if err != nil {
			return err
		}
		r.Key, r.Timestamp = t.windowed(r.Key, f.Start, f.End), f.End
		if headers && p.empty() {
			r.Headers = store.Headers{}
			if f.New != nil {
				r.Headers = f.New.Headers.Copy()
			}
		}
		return c.Under(f.Record, func() error { return c.Forward(r) })
	}, old)
}

// sessionAggregate folds records into sessions.
type sessionAggregate struct {
	fold
	c       *engine.Context
	name    string // of the store, by which the mark is kept
	plan    window.Session
	open    func(c *engine.Context) (*sessionRows, error)
	final   bool
	sendOld bool

	rows       *sessionRows
	cached     bool
	streamTime int64
	emission   emission
}

func (p *sessionAggregate) Init(c *engine.Context) (err error) {
	p.c, p.streamTime = c, -1
	p.emission.init(c, p.name)
	if p.rows, err = p.open(c); err == nil && !p.final {
		p.cached = p.rows.forwardFlushed(c, p.sendOld)
	}
	return err
}

func (p *sessionAggregate) Process(r engine.Record) error {
	switch {
	case r.Key == nil:
		p.c.Drop(nullKey)
		return nil
	case r.Value == nil && p.unseen:
		p.c.Drop(nullUnseen)
		return nil
	}
	p.streamTime = max(p.streamTime, r.Timestamp)
	closeTime := p.plan.CloseTime(p.streamTime)
	if p.final {
		// Before this record is put: its put may expire what closes now.
		if err := p.emission.due(closeTime, closeTime, p.plan.Emit, p.emit); err != nil {
			return err
		}
	}
	in := p.c.Record()
	earliest, latest := p.plan.Search(r.Timestamp, p.streamTime)
	found, err := p.rows.find(in, r.Key, earliest, latest)
	if err != nil {
		return err
	}
	merged := window.Span{Start: r.Timestamp, End: r.Timestamp}
	for _, s := range found {
		merged.Start, merged.End = min(merged.Start, s.Start), max(merged.End, s.End)
	}
	if p.plan.Late(merged.End, p.streamTime) {
		p.c.Drop(tooLate)
		return nil
	}
	return p.grow(r, in, found, merged)
}

// grow joins the found sessions and the record to one, which takes their place.
func (p *sessionAggregate) grow(r engine.Record, in store.Record, found []sessionRow, merged window.Span) error {
	var aggregate any
	if p.initial != nil {
		aggregate = p.initial()
	}
	headers := make([]store.Headers, len(found))
	for i, s := range found {
		headers[i] = s.headers
		if aggregate == nil {
			aggregate = s.value
			continue
		}
		aggregate = p.merge(r.Key, aggregate, s.value)
	}
	if aggregate == nil {
		aggregate = p.first(r)
	} else {
		aggregate = p.update(r.Key, r.Value, aggregate)
	}
	var base *store.Headers
	if on, keep := p.rows.kept(); on {
		var err error
		if base, err = policy.Fold(keep.merge, headers); err != nil {
			return err
		}
	}
	var old any
	for _, s := range found {
		if merged.Start == merged.End {
			old = s.value // the one session there can be, which is overwritten
			continue
		}
		if err := p.write(in, r.Key, s.Span, nil, nil, s.value); err != nil {
			return err
		}
	}
	return p.write(in, r.Key, merged, aggregate, base, old)
}

func (p *sessionAggregate) write(in store.Record, key any, s window.Span, value any, base *store.Headers, old any) error {
	out, err := p.rows.put(in, key, s, value, base)
	if err != nil || p.cached || p.final {
		return err
	}
	return p.forward(key, s, value, out, old)
}

func (p *sessionAggregate) forward(key any, s window.Span, value any, h store.Headers, old any) error {
	next := engine.Record{Key: p.rows.windowed(key, s.Start, s.End), Value: value, Timestamp: s.End, Headers: h}
	if p.sendOld {
		next.Old = old
	}
	return p.c.Forward(next)
}

// emit forwards the sessions that end in a range and have closed.
func (p *sessionAggregate) emit(s window.Scan) error {
	in := p.c.Record()
	headers, policy := p.rows.kept()
	for f, err := range p.rows.store.FindByEnd(s.From, s.To) {
		if err != nil {
			return err
		}
		f = f.Clone()
		r, err := p.rows.read(p.rows.topic, in.Headers, f.Value)
		if err != nil {
			return err
		}
		key, err := p.rows.readKey(p.rows.topic, r.headers, f.Key)
		if err != nil {
			return err
		}
		out := in.Headers
		if headers && !policy.empty() {
			out = r.headers
		}
		if err := p.forward(key, window.Span{Start: f.Start, End: f.End}, r.value, out.Copy(), nil); err != nil {
			return err
		}
	}
	return nil
}
