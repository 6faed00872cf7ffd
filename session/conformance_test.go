package session_test

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/session"
	"github.com/forebay-streams/forebay/store"
)

type (
	bytesStore = session.Store[[]byte, []byte]
	bytesRow   = session.Row[[]byte, []byte]
	bytesRows  = iter.Seq2[bytesRow, error]
)

// combination is a kind of store, and what it was before it was upgraded.
type combination struct {
	shape
	before *shape
	cache  int64 // -1: none
}

func (s shape) String() string {
	words := []string{s.layout.String()}
	if s.memory {
		words = append(words, "memory")
	}
	if s.ordered {
		words = append(words, map[bool]string{true: "index", false: "noindex"}[s.index])
	}
	return strings.Join(words, " ")
}

func (c combination) String() string {
	name := c.shape.String()
	if c.before != nil {
		name += ", was " + c.before.String()
	}
	if c.cache >= 0 {
		name += fmt.Sprintf(", cache=%d", c.cache)
	}
	return name
}

// ample is a cache from which nothing has to go.
const ample = 1 << 30

// combinations lists every valid one.
func combinations() (out []combination) {
	add := func(s shape, before *shape) {
		for _, cache := range []int64{-1, 2000, ample} {
			if before == nil || cache <= 2000 {
				out = append(out, combination{s, before, cache})
			}
		}
	}
	of := func(l store.Layout, memory, ordered, index bool) shape {
		s := shape{l, memory, ordered, index, retention, interval}
		if memory {
			s.interval = 1
		}
		return s
	}
	plain, headers := of(store.Plain, false, false, false), of(store.WithHeaders, false, false, false)
	noindex, index := of(store.Plain, false, true, false), of(store.Plain, false, true, true)
	ordered := of(store.WithHeaders, false, true, true)
	for _, s := range []shape{plain, headers, of(store.Plain, true, false, false), of(store.WithHeaders, true, false, false), noindex, index, ordered} {
		add(s, nil)
	}
	add(headers, &plain)
	add(ordered, &noindex)
	add(ordered, &index)
	return out
}

// operations is how many a combination runs.
func operations() int {
	if n, err := strconv.Atoi(os.Getenv("FOREBAY_OPS")); err == nil {
		return n
	}
	return 4000 / slower
}

// TestConformance: random operations on every combination, beside the model.
func TestConformance(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("FOREBAY_SEED"), 10, 64); err == nil {
		seed = s
	}
	list := combinations()
	t.Logf("seed %d (FOREBAY_SEED), %d combinations of %d operations (FOREBAY_OPS)", seed, len(list), operations())
	for i, c := range list {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, c, rand.New(rand.NewPCG(seed, uint64(i))))
			for range operations() {
				f.step(t)
			}
			f.finish(t)
		})
	}
}

// fixture is a store beside its model.
type fixture struct {
	combination
	r     *rand.Rand
	dir   string
	log   *log
	kept  int            // records of the log as of the last commit
	wrote []store.Change // writes since then, as a store without cache logs them

	flushed, written int // how much of log and wrote the last flush saw
	m                *model
	s                *bytesStore
	views            [2]*session.View[[]byte, []byte]
	clock            int64
	n                int64
	held             *held
}

// held is a scan that was begun and not ended, beside what it must still show.
type held struct {
	next func() (bytesRow, error, bool)
	stop func()
	rest string
}

func newFixture(t *testing.T, c combination, r *rand.Rand) *fixture {
	f := &fixture{combination: c, r: r, dir: taskDir(t), log: &log{}, clock: 1_000_000}
	first := c.shape
	if c.before != nil {
		first = *c.before
	}
	f.m = newModel(first)
	f.open(t, first)
	if c.before != nil {
		for range 200 {
			f.write(t)
		}
		f.commit(t)
		require.NoError(t, f.s.Close())
		f.m.reopen()
		f.m.shape = c.shape
		f.open(t, c.shape)
	}
	return f
}

func (f *fixture) open(t *testing.T, s shape) {
	options := []session.Option{session.Format(s.layout), session.Changelog(f.log)}
	if s.memory {
		options = append(options, session.InMemory())
	}
	if s.ordered {
		options = append(options, session.TimeOrdered(s.index))
	}
	if f.cache >= 0 {
		options = append(options, session.Cache(store.NewBudget(f.cache)))
	}
	var err error
	f.s, err = session.Open(f.dir, "store", store.Bytes(), store.Bytes(), defaults(options...)...)
	require.NoError(t, err)
	f.views = [2]*session.View[[]byte, []byte]{f.s.View(store.ReadCommitted), f.s.View(store.ReadUncommitted)}
}

var modelKeys = [][]byte{{0x41}, {0x41, 0}, {0x41, 0x42}, {0x42}, {0xff}, {0x41, 0xff}, {0, 0}, []byte("user-1")}

func (f *fixture) key() []byte { return modelKeys[f.r.IntN(len(modelKeys))] }

// end picks a session end: near now, at the edges of segments and of retention.
func (f *fixture) end() int64 {
	stream := max(f.m.now.stream, 0)
	switch f.r.IntN(16) {
	case 0:
		return max(0, stream-retention+int64(f.r.IntN(4))-1)
	case 1:
		return max(0, (stream/interval-int64(f.r.IntN(4)))*interval+int64(f.r.IntN(3))-1)
	case 2:
		return 0
	case 3:
		return max(0, stream-2*retention)
	}
	return max(0, f.clock-int64(f.r.IntN(5))*15_000) / 5_000 * 5_000
}

func (f *fixture) place() place {
	end := f.end()
	return place{string(f.key()), max(0, end-[]int64{0, 0, 1, 5_000, 60_000}[f.r.IntN(5)]), end}
}

func (f *fixture) write(t *testing.T) {
	f.n++
	context := headerList("r", strconv.FormatInt(f.n, 10))
	f.s.SetRecord(store.Record{Topic: "in", Offset: f.n, Timestamp: f.clock, Headers: context})
	if f.r.IntN(300) == 0 {
		f.clock += int64(f.r.IntN(4)) * interval
	}
	f.clock += int64(f.r.IntN(400))
	at := f.place()
	c := store.Change{Key: logKey(at), Row: store.Row{Headers: context}}
	switch f.r.IntN(12) {
	case 0:
		if f.r.IntN(20) == 0 { // moves stream time on and cleans nothing
			at.end += retention
			c.Key = logKey(at)
		}
		require.NoError(t, f.s.Remove([]byte(at.key), at.start, at.end))
		f.m.remove(at)
	case 1:
		require.NoError(t, f.s.Put([]byte(at.key), at.start, at.end, store.Value[[]byte]{Headers: headerList("not", "seen")}))
		f.m.put(at, nil, f.n)
	default:
		v := store.Value[[]byte]{Data: strconv.AppendInt([]byte{}, f.n, 10), Timestamp: f.r.Int64N(1 << 40)}
		if f.r.IntN(10) == 0 {
			v.Data = v.Data[:0]
		}
		for i := range f.r.IntN(3) {
			_ = v.Headers.Add(fmt.Sprint("h", i), v.Data)
		}
		c.Row = store.Row{Value: v.Data, Headers: v.Headers}
		require.NoError(t, f.s.Put([]byte(at.key), at.start, at.end, v))
		f.m.put(at, &v, f.n)
	}
	f.wrote = append(f.wrote, c)
	if f.cache < 0 {
		require.Equal(t, f.logged(c), f.logged(f.log.changes[len(f.log.changes)-1]))
		require.Len(t, f.log.changes, f.kept+len(f.wrote))
	}
}

// logged shows a changelog record.
func (f *fixture) logged(c store.Change) string {
	return fmt.Sprintf("%x %v %s", c.Key, c.Tombstone(), show(f.m.layout, store.Value[[]byte]{Data: c.Value, Headers: c.Headers}))
}

// lastOfEach shows the last record of each key.
func (f *fixture) lastOfEach(list []store.Change) map[string]string {
	m := map[string]string{}
	for _, c := range list {
		m[string(c.Key)] = f.logged(c)
	}
	return m
}

// checkFlush: from an ample cache each key is logged once, in order of its last write. (A
// plain store logs some late puts at once.)
func (f *fixture) checkFlush(t *testing.T) {
	if f.cache == ample && (f.memory || f.layout.HasHeaders()) {
		var want, got []string
		last := map[string]int{}
		for i, c := range f.wrote[f.written:] {
			last[string(c.Key)] = i
		}
		for i, c := range f.wrote[f.written:] {
			if last[string(c.Key)] == i {
				want = append(want, f.logged(c))
			}
		}
		for _, c := range f.log.changes[f.flushed:] {
			got = append(got, f.logged(c))
		}
		require.Equal(t, want, got)
	}
	f.flushed, f.written = len(f.log.changes), len(f.wrote)
}

func (f *fixture) commit(t *testing.T) {
	require.NoError(t, f.s.Commit(ctx))
	f.checkFlush(t)
	require.Equal(t, f.lastOfEach(f.wrote), f.lastOfEach(f.log.changes[f.kept:]))
	f.m.commit()
	f.settle()
	position, ok := f.s.Position().Offset("in", 0)
	if !ok {
		position = -1
	}
	require.Equal(t, f.m.now.position, position)
}

// settle is the end of a round, however it came.
func (f *fixture) settle() {
	f.kept, f.wrote = len(f.log.changes), nil
	f.flushed, f.written = f.kept, 0
}

func (f *fixture) abort() {
	f.drop()
	f.log.changes = f.log.changes[:f.kept]
	f.settle()
}

func (f *fixture) drop() {
	if f.held != nil {
		f.held.stop()
		f.held = nil
	}
}

func (f *fixture) step(t *testing.T) {
	switch n := f.r.IntN(1000); {
	case n < 480:
		f.write(t)
	case n < 620:
		f.fetch(t)
	case n < 925:
		f.scan(t)
	case n < 945:
		f.hold(t)
	case n < 960:
		require.NoError(t, f.s.Flush(ctx))
		f.checkFlush(t)
	case n < 982:
		f.drop() // what expires with the commit may end its rows
		f.commit(t)
	case n < 990:
		f.s.Abort()
		f.m.abort()
		f.abort()
	case n < 992:
		f.reopen(t)
	case n < 993:
		f.restore(t)
	default:
		f.drop()
		f.commit(t)
		_, _, err := f.s.DrainSlice(7)
		require.NoError(t, err)
	}
	require.Equal(t, f.m.dropped, f.s.Dropped())
	require.Equal(t, f.m.now.stream, f.s.StreamTime())
}

func (f *fixture) reopen(t *testing.T) {
	f.abort()
	require.NoError(t, f.s.Close())
	f.m.reopen()
	f.open(t, f.shape)
	if f.memory {
		f.replay(t)
	} else if offset, ok := f.s.RestoredOffset(); ok {
		require.EqualValues(t, f.kept-1, offset)
	} else {
		require.Empty(t, f.m.now.rows)
	}
}

// restore rebuilds the store from its changelog.
func (f *fixture) restore(t *testing.T) {
	f.abort()
	require.NoError(t, f.s.Wipe())
	f.m.wipe()
	f.replay(t)
}

func (f *fixture) replay(t *testing.T) {
	for from := f.begin(); from < f.kept; {
		to := min(f.kept, from+1+f.r.IntN(200))
		require.NoError(t, f.s.RestoreBatch(f.log.changes[from:to], int64(to)-1))
		f.m.restore(f.log.changes[from:to])
		from = to
	}
}

// begin is where a restore begins: at the log's start or, most often when it is long, where
// that of a broker would be that has deleted what has expired.
func (f *fixture) begin() int {
	log := f.log.changes[:f.kept]
	if len(log) < 2000 || f.r.IntN(50) == 0 {
		return 0
	}
	newest := int64(-1)
	for _, c := range log {
		newest = max(newest, placeOf(c.Key).end)
	}
	return slices.IndexFunc(log, func(c store.Change) bool { return placeOf(c.Key).end >= newest-2*retention })
}

// side is a way to read, with the state that it must show.
type side interface {
	FetchSession([]byte, int64, int64) (store.Value[[]byte], bool, error)
	FindSessions([]byte, int64, int64) bytesRows
	BackwardFindSessions([]byte, int64, int64) bytesRows
	FindKeys(int64, int64, ...session.Bound[[]byte]) bytesRows
	BackwardFindKeys(int64, int64, ...session.Bound[[]byte]) bytesRows
	Fetch([]byte) bytesRows
	BackwardFetch([]byte) bytesRows
	FetchKeys(...session.Bound[[]byte]) bytesRows
	BackwardFetchKeys(...session.Bound[[]byte]) bytesRows
	FindByEnd(int64, int64) bytesRows
}

func (f *fixture) side() (side, modelState) {
	switch f.r.IntN(5) {
	case 0:
		return f.views[0], f.m.committed
	case 1:
		return f.views[1], f.m.now
	}
	return f.s, f.m.now
}

func (f *fixture) fetch(t *testing.T) {
	side, state := f.side()
	at := f.place()
	v, ok, err := side.FetchSession([]byte(at.key), at.start, at.end)
	require.NoError(t, err)
	got := "none"
	if ok {
		got = show(f.layout, v)
		require.Equal(t, at.end, v.Timestamp)
	}
	require.Equal(t, f.m.fetch(state, at), got, "fetch %+v", at)
}

func (f *fixture) times() (end, start int64) {
	end, start = f.end(), f.end()
	switch f.r.IntN(10) {
	case 0:
		end = -1 - f.r.Int64N(200_000)
	case 1, 2:
		end = 0
	case 3:
		end = f.m.now.stream + 1 + f.r.Int64N(1000)
	}
	switch f.r.IntN(10) {
	case 0, 1, 2:
		start = math.MaxInt64
	case 3:
		start = -1
	}
	return end, start
}

func (f *fixture) bounds() (bounds []session.Bound[[]byte], first, last []byte) {
	if f.r.IntN(5) > 0 {
		first = f.key()
		bounds = append(bounds, session.From(first))
	}
	if f.r.IntN(5) > 0 {
		last = f.key()
		bounds = append(bounds, session.To(last))
	}
	return bounds, first, last
}

// query makes a random scan, and what it must show.
func (f *fixture) query() (rows bytesRows, want, what string) {
	side, state := f.side()
	end, start := f.times()
	reverse := f.r.IntN(2) == 0
	one := func(forward, backward bytesRows) bytesRows {
		if reverse {
			return backward
		}
		return forward
	}
	key := f.key()
	bounds, first, last := f.bounds()
	switch n := f.r.IntN(6); {
	case n == 5 && (f.ordered || f.memory):
		return side.FindByEnd(end, start), f.m.findByEnd(state, end, start), fmt.Sprintf("by end %d %d", end, start)
	case n == 0:
		rows = one(side.Fetch(key), side.BackwardFetch(key))
		return rows, f.m.find(state, key, key, 0, math.MaxInt64, reverse), fmt.Sprintf("fetch %x %v", key, reverse)
	case n == 1:
		rows = one(side.FetchKeys(bounds...), side.BackwardFetchKeys(bounds...))
		return rows, f.m.find(state, first, last, 0, math.MaxInt64, reverse), fmt.Sprintf("fetch %x %x %v", first, last, reverse)
	case n == 2:
		rows = one(side.FindKeys(end, start, bounds...), side.BackwardFindKeys(end, start, bounds...))
		return rows, f.m.find(state, first, last, end, start, reverse), fmt.Sprintf("keys %x %x %d %d %v", first, last, end, start, reverse)
	}
	rows = one(side.FindSessions(key, end, start), side.BackwardFindSessions(key, end, start))
	return rows, f.m.find(state, key, key, end, start, reverse), fmt.Sprintf("find %x %d %d %v", key, end, start, reverse)
}

func (f *fixture) line(r bytesRow) string {
	return fmt.Sprintf("%x[%d,%d] %s\n", r.Key, r.Start, r.End, show(f.layout, r.Value))
}

func (f *fixture) scan(t *testing.T) {
	rows, want, what := f.query()
	var got strings.Builder
	for r, err := range rows {
		require.NoError(t, err)
		got.WriteString(f.line(r))
	}
	require.Equal(t, want, got.String(), what)
}

// hold begins a scan that is read on while the store changes, or reads one to its end.
func (f *fixture) hold(t *testing.T) {
	if f.held == nil {
		rows, want, _ := f.query()
		next, stop := iter.Pull2(rows)
		f.held = &held{next, stop, want}
		f.advance(t) // a scan begins with its first row
		return
	}
	for f.held != nil {
		f.advance(t)
	}
}

func (f *fixture) advance(t *testing.T) {
	h := f.held
	r, err, ok := h.next()
	require.NoError(t, err)
	if !ok {
		require.Empty(t, h.rest)
		f.drop()
		return
	}
	want, rest, _ := strings.Cut(h.rest, "\n")
	require.Equal(t, want+"\n", f.line(r))
	h.rest = rest
}

func (f *fixture) finish(t *testing.T) {
	f.drop()
	f.commit(t)
	if !f.memory {
		for done := false; !done; {
			var err error
			_, done, err = f.s.DrainSlice(100)
			require.NoError(t, err)
		}
		f.reopen(t)
		stats, err := f.s.Migration()
		require.NoError(t, err)
		require.False(t, stats.Migrating)
	}
	for range 20 {
		f.scan(t)
	}
	require.Zero(t, f.s.OpenScans())
	require.NoError(t, f.s.Close())
}
