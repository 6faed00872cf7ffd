package dsl

import (
	"cmp"
	"fmt"
	"time"

	"github.com/forebay-streams/forebay/dsl/internal/engine"
	"github.com/forebay-streams/forebay/dsl/internal/window"
	"github.com/forebay-streams/forebay/kv"
	"github.com/forebay-streams/forebay/store"
	"github.com/forebay-streams/forebay/windowed"
)

// JoinWindows say how far apart in time two records may lie to be joined.
type JoinWindows struct {
	before, after time.Duration
	grace         *time.Duration
	eager         bool
}

// JoinWithin joins records that lie no further apart than d, whichever is the first.
func JoinWithin(d time.Duration) JoinWindows { return JoinWindows{before: d, after: d} }

// Before sets how far before the left record the right one may lie. It may be negative, if
// After is larger.
func (w JoinWindows) Before(d time.Duration) JoinWindows { w.before = d; return w }

// After sets how far after the left record the right one may lie. It may be negative, if
// Before is larger.
func (w JoinWindows) After(d time.Duration) JoinWindows { w.after = d; return w }

// Grace sets how long after the end of its window a record that has met none may still do
// so, in stream time. Default: 0.
func (w JoinWindows) Grace(d time.Duration) JoinWindows { w.grace = &d; return w }

// Eager makes left and outer joins emit a record that meets none at once, even if it may
// still meet one: what comes out of the pair then follows (JoinWindows.of in Java, which is
// deprecated). The default grace is that of a day for window and grace together.
func (w JoinWindows) Eager() JoinWindows { w.eager = true; return w }

func (w JoinWindows) plan() (out window.Join, err error) {
	grace := time.Duration(0)
	switch {
	case w.grace != nil:
		grace = *w.grace
	case w.eager:
		grace = time.Duration(window.LegacyGrace(max(w.before, w.after).Milliseconds())) * time.Millisecond
	}
	if err = millis(map[string]time.Duration{"time before": w.before, "time after": w.after, "grace": grace}); err != nil {
		return out, err
	}
	out = window.Join{Before: w.before.Milliseconds(), After: w.after.Milliseconds(), Grace: grace.Milliseconds()}
	return out, out.Check()
}

// StreamJoinOption is for joins of two streams: [Named] and the options whose names begin
// with JoinStores (StreamJoined in Java).
type StreamJoinOption interface {
	set(*settings)
	ofStreamJoin()
}

func (NameOption) ofStreamJoin() {}

type joinStores func(*settings)

func (o joinStores) set(s *settings) { o(s) }
func (joinStores) ofStreamJoin()     {}

// JoinStores sets what the names of the join's stores begin with.
func JoinStores(name string) StreamJoinOption {
	return joinStores(func(s *settings) { s.store = name })
}

// JoinStoresInMemory keeps the join's stores in memory.
func JoinStoresInMemory() StreamJoinOption { return joinStores(func(s *settings) { s.memory = true }) }

// JoinStoresWithoutChangelog does not log the join's stores.
func JoinStoresWithoutChangelog() StreamJoinOption {
	return joinStores(func(s *settings) { s.unlogged = true })
}

// JoinStreams joins each record of a stream with those of the other that have the same key
// and lie within the windows. A record without key or value is dropped. A pair comes out
// when the later of its records is processed, with the larger timestamp and the headers of
// the one processed later.
func JoinStreams[K, L, R, V any](left *Stream[K, L], right *Stream[K, R], join func(left L, right R) V, w JoinWindows, options ...StreamJoinOption) *Stream[K, V] {
	return joinStreams(left, right, join, streamJoin{}, w, options).needs("JoinStreams", join != nil)
}

// LeftJoinStreams is [JoinStreams] of all records of the left stream: one that has met none
// when its window and the grace have passed comes out alone, at its own time; without a key
// at once. What is missing is the zero value for the join function: nil, if R can be nil.
func LeftJoinStreams[K, L, R, V any](left *Stream[K, L], right *Stream[K, R], join func(left L, right R) V, w JoinWindows, options ...StreamJoinOption) *Stream[K, V] {
	return joinStreams(left, right, join, streamJoin{keepLeft: true}, w, options).needs("LeftJoinStreams", join != nil)
}

// OuterJoinStreams is [LeftJoinStreams] of all records of both streams.
func OuterJoinStreams[K, L, R, V any](left *Stream[K, L], right *Stream[K, R], join func(left L, right R) V, w JoinWindows, options ...StreamJoinOption) *Stream[K, V] {
	return joinStreams(left, right, join, streamJoin{keepLeft: true, keepRight: true}, w, options).needs("OuterJoinStreams", join != nil)
}

// streamJoin is what the operator's nodes have in common, without types.
type streamJoin struct {
	windows             window.Join // as the left side sees them
	keepLeft, keepRight bool
	join                func(left, right any) any

	key         anyCodec
	left, right joinSide
	shared      string // the store of unmatched records; empty: there is none
	clock       string // what the stream time of both sides is shared under
	headers     bool   // windows keep headers
	ownHeaders  bool   // unmatched records come out with their own
}

// joinSide is one of the streams.
type joinSide struct {
	store string
	value anyCodec
}

func (j *streamJoin) side(left bool) *joinSide {
	if left {
		return &j.left
	}
	return &j.right
}

// joined calls the join function with a value of one side.
func (j *streamJoin) joined(left bool, this, other any) any {
	if left {
		return j.join(this, other)
	}
	return j.join(other, this)
}

func joinStreams[K, L, R, V any](left *Stream[K, L], right *Stream[K, R], join func(L, R) V, j streamJoin, w JoinWindows, options []StreamJoinOption) *Stream[K, V] {
	left, right = left.orEmpty(), right.orEmpty()
	b, o := cmp.Or(left.b, right.b), collect(options)
	j.join = joiner(join)
	value := sameSerde[L, V](left.value)
	if b.config.selfJoins && left.node == right.node {
		return selfJoin(left, j, value, w, o)
	}
	left, right = copartitioned(left, o.name, "-left"), copartitioned(right, o.name, "-right")
	n := streamJoinNames(b, j, o, w.eager)
	b.takes(n.merge, left.b, right.b)
	j.configure(b, n, w)
	j.key = serdeFor(b, n.merge, "a key", left.key)
	j.left.value, j.right.value = serdeFor(b, n.merge, "a left value", left.value), serdeFor(b, n.merge, "a right value", right.value)

	leftStore, rightStore := j.windowStore(b, n.leftWindow, n.leftStore, o), j.windowStore(b, n.rightWindow, n.rightStore, o)
	side := func(windowName, joinName string, from *engine.Node, own, other *engine.Store, isLeft bool) *engine.Node {
		put := b.processor(windowName, func() engine.Processor { return &joinWindow{streamJoin: j, left: isLeft} }, from)
		put.Connect(own)
		out := b.processor(joinName, func() engine.Processor { return &streamJoinSide{streamJoin: j, isLeft: isLeft} }, put)
		out.Connect(other)
		out.NullKeys = j.keepLeft || j.keepRight
		return out
	}
	this := side(n.leftWindow, n.left, left.node, leftStore, rightStore, true)
	other := side(n.rightWindow, n.right, right.node, rightStore, leftStore, false)
	if n.shared != "" {
		shared := unmatchedStore(b, n.merge, n.shared, o)
		this.Connect(shared)
		other.Connect(shared)
	}
	merge := b.processor(n.merge, stateless(func(c *engine.Context, r engine.Record) error { return c.Forward(r) }), this, other)
	return &Stream[K, V]{b: b, node: merge, key: left.key, value: value}
}

// configure takes over what does not depend on types.
func (j *streamJoin) configure(b *Builder, n joinNames, w JoinWindows) {
	var err error
	if j.windows, err = w.plan(); err != nil {
		b.fail(n.merge, err)
	}
	j.left.store, j.right.store, j.shared, j.clock = n.leftStore, n.rightStore, n.shared, n.merge
	j.headers = b.config.headers
	j.ownHeaders = b.config.headers && !b.config.policy.empty()
}

// copartitioned is the stream, repartitioned if its keys may have changed.
func copartitioned[K, V any](s *Stream[K, V], join, suffix string) *Stream[K, V] {
	if !s.rekeyed {
		return s
	}
	if join == "" {
		return repartitionedForJoin(s, s.node.Name)
	}
	return repartitionedForJoin(s, join+suffix)
}

// repartitionedForJoin goes through a repartition topic. Joins without a name of the same
// stream share one.
func repartitionedForJoin[K, V any](s *Stream[K, V], base string) *Stream[K, V] {
	if base != s.node.Name {
		return repartitioned(s, base, settings{})
	}
	b := s.b
	if through := b.joined[s.node]; through != nil {
		b.counter += 3 // of nodes that are not made
		out := *s
		out.node, out.rekeyed = through, false
		return &out
	}
	out := repartitioned(s, base, settings{})
	b.joined[s.node] = out.node
	return out
}

type joinNames struct {
	leftWindow, rightWindow, left, right, merge string
	leftStore, rightStore, shared               string
}

// streamJoinNames takes the operator's names and numbers.
func streamJoinNames(b *Builder, j streamJoin, o settings, eager bool) (n joinNames) {
	leftSuffix, leftPrefix, rightSuffix, rightPrefix := "-this-join", "KSTREAM-JOINTHIS-", "-other-join", "KSTREAM-JOINOTHER-"
	if j.keepRight {
		leftSuffix, leftPrefix = "-outer-this-join", "KSTREAM-OUTERTHIS-"
	}
	if j.keepLeft {
		rightSuffix, rightPrefix = "-outer-other-join", "KSTREAM-OUTEROTHER-"
	}
	or := func(suffix, generated string) string {
		if o.name != "" {
			return o.name + suffix
		}
		return generated
	}
	n.leftWindow = or("-this-windowed", b.name("KSTREAM-WINDOWED-"))
	n.rightWindow = or("-other-windowed", b.name("KSTREAM-WINDOWED-"))
	left, right := b.name(leftPrefix), b.name(rightPrefix)
	n.left, n.right = or(leftSuffix, left), or(rightSuffix, right)
	n.merge = or("-merge", b.name("KSTREAM-MERGE-"))

	n.leftStore, n.rightStore = left+"-store", right+"-store"
	sharedSuffix := "-left-shared-join-store"
	if j.keepRight {
		sharedSuffix = "-outer-shared-join-store"
	}
	if j.keepLeft || j.keepRight {
		n.shared = "KSTREAM-OUTERSHARED-" + left[len(leftPrefix):] + "-store"
	}
	if base := o.store; base != "" {
		n.leftStore, n.rightStore = base+leftSuffix+"-store", base+rightSuffix+"-store"
		if n.shared != "" {
			n.shared = base + sharedSuffix
		}
	}
	if eager {
		n.shared = ""
	}
	return n
}

// windowStore is the store of one side's records. It follows the application's format, and
// logs headers in any case. It shows what is younger than the retention, so that of windows
// of one moment without grace Kafka Streams' stores show nothing: here they last 1 ms.
func (j *streamJoin) windowStore(b *Builder, operator, name string, o settings) *engine.Store {
	w, headers := j.windows, j.headers
	if w.Retention() > int64(1<<63-1)/int64(time.Millisecond) {
		b.fail(operator, fmt.Errorf("%w: a join window of %d ms cannot be kept", store.ErrConfig, w.Retention()))
	}
	return b.store(operator, &engine.Store{Name: name, Changelog: logged(o, engine.Deleted, w.Retention()), Open: func(e *engine.Env) (engine.State, error) {
		options := []windowed.Option{windowed.Format(layout(headers, store.Plain)), windowed.Size(ms(w.Size())), windowed.Retention(ms(max(w.Retention(), 1))),
			windowed.RetainDuplicates(), windowed.LogHeaders(), windowed.ChangelogTopic(e.Topic, e.Partition), windowed.Shared(e.Budget)}
		if e.Log != nil {
			options = append(options, windowed.Changelog(e.Log))
		}
		if b.inMemory(e, o) {
			options = append(options, windowed.InMemory())
		}
		return windowed.Open(e.Dir, name, store.RawBytes(), store.RawBytes(), options...)
	}})
}

// unmatchedStore is the store of records that have met none yet.
func unmatchedStore(b *Builder, operator, name string, o settings) *engine.Store {
	return b.store(operator, &engine.Store{Name: name, Changelog: logged(o, engine.Compacted, 0), Open: func(e *engine.Env) (engine.State, error) {
		o.uncached = true
		return kv.Open(e.Dir, name, store.RawBytes(), store.RawBytes(), b.keyValueOptions(e, o, store.Plain)...)
	}})
}

type (
	sideRows      = windowed.Store[[]byte, []byte]
	unmatchedRows = kv.Store[[]byte, []byte]
)

// joinWindow keeps a side's records. A record is joined first, so that it does not meet
// itself. A record without key or value meets none, and is not kept: Kafka Streams writes a
// tombstone to the changelog for one without value.
type joinWindow struct {
	c *engine.Context
	streamJoin
	left bool
	rows *sideRows
}

func (p *joinWindow) Init(c *engine.Context) (err error) {
	p.c = c
	p.rows, err = engine.Open[*sideRows](c, p.side(p.left).store)
	return err
}

func (p *joinWindow) Process(r engine.Record) error {
	if err := p.c.Forward(r); err != nil {
		return err
	}
	if r.Key == nil || r.Value == nil {
		return nil
	}
	topic, _ := p.rows.ChangelogPartition()
	h := r.Headers.Copy()
	key, err := p.key.encode(topic, &h, r.Key)
	if err != nil {
		return err
	}
	value, err := p.side(p.left).value.encode(topic, &h, r.Value)
	if err != nil {
		return err
	}
	if key == nil || value == nil {
		return errNilBytes
	}
	p.rows.SetRecord(p.c.Record())
	return p.rows.Put(key, r.Timestamp, store.Value[[]byte]{Data: value, Timestamp: r.Timestamp, Headers: withoutReplaced(r.Headers, h)})
}

var errNilBytes = fmt.Errorf("a serializer answered nil for what is not: %w", store.ErrUnencodable)
