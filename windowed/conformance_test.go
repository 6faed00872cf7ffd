package windowed_test

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

	"github.com/forebay-streams/forebay/store"
	"github.com/forebay-streams/forebay/windowed"
)

// combination is a kind of store, and what it was before it was upgraded.
type combination struct {
	shape
	before *shape
	cache  int64 // -1: none
}

func (c combination) String() string {
	words := []string{c.layout.String()}
	for _, w := range []struct {
		on   bool
		word string
	}{{c.memory, "memory"}, {c.dup, "duplicates"}, {c.ordered && c.index, "index"}, {c.ordered && !c.index, "noindex"}} {
		if w.on {
			words = append(words, w.word)
		}
	}
	if c.before != nil {
		words = append(words, "was "+c.before.layout.String())
		if c.before.ordered && !c.before.index {
			words = append(words, "noindex")
		}
	}
	if c.cache >= 0 {
		words = append(words, fmt.Sprintf("cache=%d", c.cache))
	}
	return strings.Join(words, ",")
}

// combinations lists every valid one.
func combinations() (out []combination) {
	base := shape{retention: retention, interval: interval}
	with := func(change func(*shape)) shape {
		s := base
		change(&s)
		return s
	}
	add := func(s shape, before *shape) {
		for _, cache := range []int64{-1, 2000, 1 << 20} {
			if s.dup && cache >= 0 || before != nil && cache > 2000 {
				continue
			}
			out = append(out, combination{s, before, cache})
		}
	}
	layouts := []store.Layout{store.Plain, store.Timestamped, store.WithHeaders}
	for i, l := range layouts {
		for _, memory := range []bool{false, true} {
			for _, dup := range []bool{false, true} {
				add(with(func(s *shape) { s.layout, s.memory, s.dup = l, memory, dup }), nil)
			}
		}
		for _, older := range layouts[:i] {
			before := with(func(s *shape) { s.layout = older })
			add(with(func(s *shape) { s.layout = l }), &before)
		}
	}
	noindex := with(func(s *shape) { s.layout, s.ordered = store.Timestamped, true })
	indexed := with(func(s *shape) { s.layout, s.ordered, s.index = store.Timestamped, true, true })
	headers := with(func(s *shape) { s.layout, s.ordered, s.index = store.WithHeaders, true, true })
	duplicates := headers
	duplicates.dup = true
	for _, s := range []shape{noindex, indexed, headers, duplicates} {
		add(s, nil)
	}
	add(headers, &noindex)
	add(headers, &indexed)
	return out
}

// operations is how many a combination runs: 109,200 in all where FOREBAY_OPS does not
// say how many each. Those in memory are cheap.
func (c combination) operations() int {
	if n, err := strconv.Atoi(os.Getenv("FOREBAY_OPS")); err == nil {
		return n
	}
	if c.memory {
		return 3900 / slower
	}
	return 1950 / slower
}

// TestConformance: random operations on every combination, beside the model.
func TestConformance(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("FOREBAY_SEED"), 10, 64); err == nil {
		seed = s
	}
	list := combinations()
	total := 0
	for _, c := range list {
		total += c.operations()
	}
	t.Logf("seed %d, %d combinations, %d operations", seed, len(list), total)
	for i, c := range list {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, c, rand.New(rand.NewPCG(seed, uint64(i))))
			for range c.operations() {
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
	kept  int // records of the log as of the last commit
	m     *model
	s     *bytesStore
	views [2]*windowed.View[[]byte, []byte]
	clock int64
	n     int64
	held  *held
}

// held is a scan that was begun and not ended, beside what it must still show.
type held struct {
	next func() (windowed.Row[[]byte, []byte], error, bool)
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
		for range 120 {
			f.write(t)
		}
		f.commit(t)
		require.NoError(t, f.s.Close())
		f.m.reopen()
		f.m.upgrade(c.shape)
		f.open(t, c.shape)
	}
	return f
}

func (f *fixture) open(t *testing.T, s shape) {
	options := []windowed.Option{windowed.Format(s.layout), windowed.Changelog(f.log)}
	if s.memory {
		options = append(options, windowed.InMemory())
	}
	if s.dup {
		options = append(options, windowed.RetainDuplicates())
	}
	if s.ordered {
		options = append(options, windowed.TimeOrdered(s.index))
	}
	if f.cache >= 0 {
		options = append(options, windowed.Cache(store.NewBudget(f.cache)))
	}
	var err error
	f.s, err = windowed.Open(f.dir, "store", store.Bytes(), store.Bytes(), defaults(options...)...)
	require.NoError(t, err)
	f.views = [2]*windowed.View[[]byte, []byte]{f.s.View(store.ReadCommitted), f.s.View(store.ReadUncommitted)}
}

var modelKeys = [][]byte{{0x41}, {0x41, 0}, {0x41, 0x42}, {0x42}, {0xff}, {0x41, 0xff}, {0, 0}, []byte("user-1")}

func (f *fixture) key() []byte { return modelKeys[f.r.IntN(len(modelKeys))] }

// start picks a window start: near now, at the edges of segments and of retention.
func (f *fixture) start() int64 {
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

func (f *fixture) write(t *testing.T) {
	f.n++
	f.s.SetRecord(store.Record{Topic: "in", Offset: f.n, Timestamp: f.clock, Headers: headerList("r", strconv.FormatInt(f.n, 10))})
	if f.r.IntN(120) == 0 {
		f.clock += int64(f.r.IntN(4)) * interval
	}
	f.clock += int64(f.r.IntN(400))
	key, start := f.key(), f.start()
	if f.r.IntN(8) == 0 {
		require.NoError(t, f.s.Tombstone(key, start))
		f.m.put(key, start, nil)
		return
	}
	v := store.Value[[]byte]{Data: strconv.AppendInt(nil, f.n, 10), Timestamp: f.r.Int64N(1 << 40)}
	for i := range f.r.IntN(3) {
		_ = v.Headers.Add(fmt.Sprint("h", i), v.Data)
	}
	require.NoError(t, f.s.Put(key, start, v))
	f.m.put(key, start, &v)
}

func (f *fixture) commit(t *testing.T) {
	require.NoError(t, f.s.Commit(ctx))
	f.m.commit()
	f.kept = len(f.log.changes)
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
	case n < 920:
		f.scan(t)
	case n < 940:
		f.hold(t)
	case n < 955:
		require.NoError(t, f.s.Flush(ctx))
	case n < 980:
		f.drop() // what expires with the commit may end its rows
		f.commit(t)
	case n < 990:
		f.drop()
		f.s.Abort()
		f.m.abort()
		f.log.changes = f.log.changes[:f.kept]
	case n < 993:
		f.reopen(t)
	case n < 995:
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
	f.drop()
	require.NoError(t, f.s.Close())
	f.log.changes = f.log.changes[:f.kept]
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
	f.drop()
	f.log.changes = f.log.changes[:f.kept]
	require.NoError(t, f.s.Wipe())
	f.m.committed = modelState{rows: map[place]string{}, stream: -1}
	f.m.abort()
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
		newest = max(newest, startOf(c.Key))
	}
	return slices.IndexFunc(log, func(c store.Change) bool { return startOf(c.Key) >= newest-2*retention })
}

// side is a way to read, with the state that it must show.
type side interface {
	Fetch([]byte, int64) (store.Value[[]byte], bool, error)
	FetchRange([]byte, int64, int64) iter.Seq2[windowed.Row[[]byte, []byte], error]
	BackwardFetchRange([]byte, int64, int64) iter.Seq2[windowed.Row[[]byte, []byte], error]
	FetchKeys(int64, int64, ...windowed.Bound[[]byte]) iter.Seq2[windowed.Row[[]byte, []byte], error]
	BackwardFetchKeys(int64, int64, ...windowed.Bound[[]byte]) iter.Seq2[windowed.Row[[]byte, []byte], error]
	FetchAll(int64, int64) iter.Seq2[windowed.Row[[]byte, []byte], error]
	BackwardFetchAll(int64, int64) iter.Seq2[windowed.Row[[]byte, []byte], error]
	All() iter.Seq2[windowed.Row[[]byte, []byte], error]
	BackwardAll() iter.Seq2[windowed.Row[[]byte, []byte], error]
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
	key, start := f.key(), f.start()
	v, ok, err := side.Fetch(key, start)
	require.NoError(t, err)
	got := "none"
	if ok {
		got = show(f.layout, v)
	}
	require.Equal(t, f.m.fetch(state, key, start), got, "fetch %x %d", key, start)
}

func (f *fixture) times() (from, to int64) {
	from, to = f.start(), f.start()
	if from > to && f.r.IntN(10) > 0 {
		from, to = to, from
	}
	switch f.r.IntN(10) {
	case 0:
		from = -1 - f.r.Int64N(200_000)
	case 1, 2:
		from = 0
	}
	if f.r.IntN(4) == 0 {
		to = math.MaxInt64
	}
	return from, to
}

// query makes a random scan, and what it must show.
func (f *fixture) query() (rows iter.Seq2[windowed.Row[[]byte, []byte], error], want, what string) {
	side, state := f.side()
	from, to := f.times()
	reverse := f.r.IntN(2) == 0
	switch f.r.IntN(5) {
	case 0, 1:
		key := f.key()
		rows = side.FetchRange(key, from, to)
		if reverse {
			rows = side.BackwardFetchRange(key, from, to)
		}
		return rows, f.m.scan(state, key, key, from, to, reverse, false), fmt.Sprintf("range %x %d %d %v", key, from, to, reverse)
	case 2:
		var first, last []byte
		var bounds []windowed.Bound[[]byte]
		if f.r.IntN(5) > 0 {
			first = f.key()
			bounds = append(bounds, windowed.From(first))
		}
		if f.r.IntN(5) > 0 {
			last = f.key()
			bounds = append(bounds, windowed.To(last))
		}
		rows = side.FetchKeys(from, to, bounds...)
		if reverse {
			rows = side.BackwardFetchKeys(from, to, bounds...)
		}
		return rows, f.m.scan(state, first, last, from, to, reverse, false), fmt.Sprintf("keys %x %x %d %d %v", first, last, from, to, reverse)
	case 3:
		rows = side.FetchAll(from, to)
		if reverse {
			rows = side.BackwardFetchAll(from, to)
		}
	case 4:
		from, to = 0, math.MaxInt64
		rows = side.All()
		if reverse {
			rows = side.BackwardAll()
		}
	}
	return rows, f.m.scan(state, nil, nil, from, to, reverse, true), fmt.Sprintf("all %d %d %v", from, to, reverse)
}

func line(l store.Layout, r windowed.Row[[]byte, []byte]) string {
	return fmt.Sprintf("%x@%d %s\n", r.Key, r.Start, show(l, r.Value))
}

func (f *fixture) scan(t *testing.T) {
	rows, want, what := f.query()
	var got strings.Builder
	for r, err := range rows {
		require.NoError(t, err)
		if r.End != r.Start+size {
			t.Fatalf("a window from %d to %d", r.Start, r.End)
		}
		got.WriteString(line(f.layout, r))
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
	require.Equal(t, want+"\n", line(f.layout, r))
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
