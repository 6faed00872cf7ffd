package crash

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/forebay-streams/forebay/internal/segment"
	"github.com/forebay-streams/forebay/internal/subject"
	"github.com/forebay-streams/forebay/store"
)

// Windows, sessions and versions of the harness live so long, in milliseconds of stream time.
const (
	timedRetention = 120_000
	timedInterval  = 60_000
	timedGrain     = 5_000 // of places, so that they are written again
)

// era is a format that a directory had for the records up to an offset.
type era struct {
	UpTo   int64
	Layout store.Layout
}

// timedInput is an endless sequence of operations on windows, sessions or versions.
type timedInput struct {
	family subject.Family
	seed   uint64
	keys   int
	step   int64
	big    bool
}

type timedOp struct {
	kind   opKind // put, tombstone or get
	record store.Record
	place  subject.Place
	row    store.Row
}

func (in timedInput) at(i int64) timedOp {
	r := rand.New(rand.NewPCG(in.seed, uint64(i)))
	now := 1_700_000_000_000 + i*in.step
	o := timedOp{record: store.Record{Topic: "in", Partition: int32(i % 2), Offset: i / 2, Timestamp: now, Headers: headers(r)}}
	at := now
	switch p := r.IntN(100); {
	case p < 70:
		at -= r.Int64N(timedRetention / 2)
	case p < 78: // perhaps too late
		at -= timedRetention/2 + r.Int64N(2*timedRetention)
	case p < 80:
		at += r.Int64N(timedInterval)
	}
	at -= at % timedGrain
	o.place = in.family.At(in.key(r.IntN(in.keys)), at)
	if in.family == subject.Session {
		o.place.From -= r.Int64N(2) * 1000
	}
	switch p := r.IntN(100); {
	case p < 60:
		o.kind = opPut
		o.row = store.Row{Value: input{big: in.big}.value(r), Timestamp: now - r.Int64N(1000), Headers: headers(r)}
	case p < 75:
		o.kind = opTombstone
	default:
		o.kind = opGet
	}
	return o
}

func (timedInput) key(i int) string { return string(input{}.key(i)) }

func (in timedInput) allKeys() (out []string) {
	for i := range in.keys {
		out = append(out, in.key(i))
	}
	return out
}

// timeline is what a store must hold, by place: all that was ever written, since time only
// hides it.
type timeline struct {
	family subject.Family
	layout store.Layout
	rows   map[subject.Place]store.Row
	stream int64 // newest time that was written
	// ever are all rows that places had: a row that has expired may be an older one.
	ever map[subject.Place][]store.Row
}

func newTimeline(f subject.Family, layout store.Layout) *timeline {
	return &timeline{f, layout, map[subject.Place]store.Row{}, -1, map[subject.Place][]store.Row{}}
}

func (t *timeline) clone() *timeline {
	c := *t
	c.rows = maps.Clone(t.rows)
	return &c // ever only grows
}

// keep strips a row of what the store does not keep with it.
func (t *timeline) keep(row store.Row, layout store.Layout) store.Row {
	if !row.Tombstone() {
		row = keep(row, layout)
	}
	if t.family != subject.Windowed {
		row.Timestamp = 0 // the place says it
	}
	return row
}

// write tells whether the row is taken: a versioned store refuses what is too late.
func (t *timeline) write(p subject.Place, row store.Row, layout store.Layout) bool {
	if t.family == subject.Versioned && p.From < t.stream-timedRetention {
		return false
	}
	t.stream = max(t.stream, p.Time())
	row = t.keep(t.keep(row, layout), t.layout)
	switch {
	case t.family == subject.Versioned:
		t.rows[p] = row
	case row.Tombstone():
		delete(t.rows, p)
	default:
		t.rows[p] = row
		t.ever[p] = append(t.ever[p], row)
	}
	return true
}

// replay writes the records up to an offset.
func (t *timeline) replay(v view, upTo int64, eras []era) *timeline {
	for _, r := range v.records {
		if r.offset <= upTo {
			t.apply(r, eras)
		}
	}
	return t
}

func (t *timeline) apply(r logged, eras []era) {
	layout := t.layout
	for _, e := range slices.Backward(eras) {
		if r.offset <= e.UpTo {
			layout = e.Layout
		}
	}
	t.write(t.family.LogPlace(r.change), r.change.Row, layout)
}

// live are the places that must be there, whatever happened to older ones.
func (t *timeline) live() map[subject.Place]store.Row {
	out := map[subject.Place]store.Row{}
	bound := t.stream - timedRetention
	if t.family != subject.Versioned {
		for p, row := range t.rows {
			if p.Time() > bound {
				out[p] = row
			}
		}
		return out
	}
	times := map[string][]int64{}
	for p := range t.rows {
		times[p.Key] = append(times[p.Key], p.From)
	}
	for key, list := range times {
		slices.Sort(list)
		for i, from := range list {
			p := subject.Place{Key: key, From: from}
			if last := i+1 == len(list); !t.rows[p].Tombstone() && (last || list[i+1] > bound) {
				out[p] = t.rows[p]
			}
		}
	}
	return out
}

// compare says what of the rows that must be there is not, and what is there without ever
// having been. only limits it to some places.
func (t *timeline) compare(got map[subject.Place]store.Row, same func(a, b store.Row) bool, only func(subject.Place) bool) (d difference) {
	want, have := rows{}, rows{}
	live := t.live()
	for p, row := range live {
		if only(p) {
			want[p.String()] = row
		}
	}
	for p, row := range got {
		if _, must := live[p]; must || !t.expired(p, row, same) {
			have[p.String()] = row
		}
	}
	return compare(want, have, same)
}

func everywhere(subject.Place) bool { return true }

// expired tells whether a row may be there though it need not.
func (t *timeline) expired(p subject.Place, row store.Row, same func(a, b store.Row) bool) bool {
	if t.family == subject.Versioned {
		old, ok := t.rows[p]
		return ok && !old.Tombstone() && same(old, row)
	}
	return p.Time() <= t.stream-timedRetention && slices.ContainsFunc(t.ever[p], func(old store.Row) bool { return same(old, row) })
}

// timedContent is that of a window, session or versioned store.
type timedContent struct {
	*worker
	input  timedInput
	rules  segment.Rules
	shadow *timeline
	commit *timeline // the shadow as of the last commit
	// stream is the store's own stream time, which it forgets when it is closed, unless it is
	// versioned; streamCommitted that of the last commit.
	stream, streamCommitted int64
}

func (v variant) timedInput() timedInput {
	return timedInput{v.Family, v.InputSeed, v.Keys, v.Step, v.Big}
}

func (c *timedContent) open(config subject.Config) (s subject.Store, err error) {
	c.input = c.Variant.timedInput()
	c.stream, c.streamCommitted = -1, -1
	if c.rules, err = segment.NewRules(timedRetention, timedInterval); err != nil {
		return nil, err
	}
	config.Retention, config.Interval = timedRetention*time.Millisecond, timedInterval*time.Millisecond
	return c.Variant.Family.Open(taskDir(c.Dir), storeName, config)
}

// load cannot check a segmented store, some of whose segments may be further than the
// others: the parent has looked at each.
func (c *timedContent) load(log view, from int64) error {
	c.shadow = newTimeline(c.Variant.Family, c.Layout).replay(log, from, c.Eras)
	if c.Variant.Family.Segmented() {
		return nil
	}
	return c.check(fmt.Sprintf("before the restore, at changelog offset %d", from))
}

func (c *timedContent) restored(r logged) {
	c.shadow.apply(r, c.Eras)
	c.stream = max(c.stream, c.shadow.family.LogPlace(r.change).Time())
}

func (c *timedContent) whole(when string, n int64) error {
	all := newTimeline(c.Variant.Family, c.Layout)
	for i := range n {
		if o := c.input.at(i); o.kind != opGet {
			all.write(o.place, o.row, c.Layout)
		}
	}
	same := equal
	if len(c.Eras) > 0 {
		same = sameValue
	}
	got := c.shadow.live()
	if c.shadow.stream != all.stream {
		return failed("%s: stream time is %d, that of the input %d", when, c.shadow.stream, all.stream)
	}
	return differ(all.compare(got, same, everywhere), "%s: the rows are not those of the input up to %d", when, n)
}

func (c *timedContent) settle(committed bool) {
	if committed {
		c.commit, c.streamCommitted = c.shadow.clone(), c.stream
	} else {
		c.shadow, c.stream = c.commit.clone(), c.streamCommitted
	}
}

func (c *timedContent) check(when string) error {
	return c.compare(when+": the store's rows", c.shadow, c.store)
}

func (c *timedContent) committed(when string) error {
	return c.compare(when+": the committed rows", c.commit, c.store.View(store.ReadCommitted))
}

// failedCommit: each segment has the last commit or the failed one, whole.
func (c *timedContent) failedCommit(when string) error {
	if !c.Variant.Family.Segmented() {
		return c.committed(when)
	}
	got, err := c.read(c.store.View(store.ReadCommitted))
	if err != nil {
		return fmt.Errorf("%s: %w", when, err)
	}
	ids := map[int64]bool{}
	for place := range c.shadow.rows {
		ids[c.rules.ID(place.Time())] = true
	}
	for id := range ids {
		in := func(p subject.Place) bool { return c.rules.ID(p.Time()) == id }
		own := maps.Clone(got)
		maps.DeleteFunc(own, func(p subject.Place, _ store.Row) bool { return !in(p) })
		if d := c.commit.compare(own, equal, in); d.any() && c.shadow.compare(own, equal, in).any() {
			return differ(d, "%s: segment %d has neither the last commit nor the failed one", when, id)
		}
	}
	return nil
}

func (c *timedContent) compare(what string, want *timeline, from subject.Reader) error {
	got, err := c.read(from)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return differ(want.compare(got, equal, everywhere), "%s are not those of the model", what)
}

func (c *timedContent) read(from subject.Reader) (map[subject.Place]store.Row, error) {
	all, err := from.Rows(c.input.allKeys())
	got := map[subject.Place]store.Row{}
	for place, v := range all {
		got[place] = c.shadow.keep(rowOf(v), c.Layout)
	}
	return got, err
}

func (c *timedContent) step(n int64) error {
	o := c.input.at(n)
	c.store.SetRecord(o.record)
	switch o.kind {
	case opGet:
		v, ok, err := c.store.Get(o.place)
		if err != nil {
			return err
		}
		if !ok && c.Variant.Family == subject.Versioned && o.place.From < c.shadow.stream-timedRetention {
			return nil // asked for a time that the history does not reach, only the version does
		}
		got := map[subject.Place]store.Row{}
		if ok {
			got[o.place] = c.shadow.keep(rowOf(v), c.Layout)
		}
		return differ(c.shadow.compare(got, equal, func(p subject.Place) bool { return p == o.place }), "input %d: the store answered with another row", n)
	case opPut:
		if err := c.store.Put(o.place, valueOf(o.row)); err != nil {
			return err
		}
	default:
		if err := c.store.Delete(o.place); err != nil {
			return err
		}
	}
	c.shadow.write(o.place, o.row, c.Layout)
	if c.advances(o) {
		c.position.Advance(o.record.Topic, o.record.Partition, o.record.Offset)
	}
	return nil
}

// advances tells whether an operation counts in the store's position: in segmented stores
// no late row does, nor the removal of a session.
func (c *timedContent) advances(o timedOp) bool {
	f := c.Variant.Family
	if f == subject.Versioned {
		return true
	}
	c.stream = max(c.stream, o.place.Time())
	return c.rules.ID(o.place.Time()) >= c.rules.MinLive(c.stream) && !(f == subject.Session && o.kind == opTombstone)
}
