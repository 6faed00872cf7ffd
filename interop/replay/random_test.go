package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/store"
)

// generator makes random operations. Keys come from a small alphabet with prefixes of
// each other, 00 and ff; headers include duplicates, empty names, null and empty values.
type generator struct {
	*rand.Rand
	now int64
}

var (
	genKeys   = []string{"a", "aa", "ab", "b", "b\x00", "b\x00\x00", "b\xff", "\x00", "\xff", "\xff\xff", "user-1", "user-10", "user-2", "A", "A\x00", "zz"}
	genNames  = []string{"traceparent", "tenant", "k", "k", "", "é€😀", "__value_schema_id", strings.Repeat("x", 70)}
	genPrefix = []string{"a", "b", "user-", "\x00", "\xff", "\xff\xff", ""}
)

func pick[T any](g *generator, list ...T) T { return list[g.IntN(len(list))] }

func (g *generator) chance(p float64) bool { return g.Float64() < p }

func (g *generator) bytes(n int) hexBytes {
	b := make(hexBytes, n)
	for i := range b {
		b[i] = byte(g.Uint32())
	}
	return b
}

func (g *generator) headers() headerList {
	list := make(headerList, pick(g, 0, 0, 1, 1, 2, 3, 5))
	for i := range list {
		name := pick(g, genNames...)
		list[i][0] = &name
		if n := pick(g, -1, 0, 1+g.IntN(40)); n >= 0 {
			value := hex.EncodeToString(g.bytes(n))
			list[i][1] = &value
		}
	}
	return list
}

func (g *generator) key() hexBytes { return hexBytes(pick(g, genKeys...)) }

func (g *generator) row(tombstones float64) kvRow {
	r := kvRow{K: g.key(), TS: g.now, H: g.headers()}
	if g.chance(0.5) {
		r.TS = max(0, g.now-g.Int64N(3_600_000))
	}
	if !g.chance(tombstones) {
		r.V = g.bytes(pick(g, 0, 1, 1, 4, 20, 200))
	}
	return r
}

func (g *generator) op() (op modelOp) {
	g.now += pick[int64](g, 0, 1, 10, 1000, 20_000)
	op.RTS, op.RH = g.now, g.headers()
	switch p := g.Float64(); {
	case p < 0.35:
		op.Op = pick(g, "get", "get", "range", "reverseRange", "all", "reverseAll", "prefix")
		op.K, op.P = g.key(), hexBytes(pick(g, genPrefix...))
		from, to := g.key(), g.key()
		if bytes.Compare(from, to) > 0 && g.chance(0.9) {
			from, to = to, from
		}
		if g.chance(0.85) {
			op.From = from
		}
		if g.chance(0.85) {
			op.To = to
		}
	case p < 0.40:
		op.Op, op.kvRow = "putIfAbsent", g.row(0)
	case p < 0.45:
		op.Op = "putAll"
		for range 1 + g.IntN(6) {
			op.Rows = append(op.Rows, g.row(0.05))
		}
	case p < 0.52:
		op.Op, op.K = "delete", g.key()
	default:
		op.Op, op.kvRow = "put", g.row(0.15)
	}
	return op
}

func envInt(t *testing.T, name string, fallback int64) int64 {
	text := os.Getenv(name)
	if text == "" {
		return fallback
	}
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err, name)
	return n
}

// TestRandom holds stores against the model. FOREBAY_OPS sets the number of operations,
// FOREBAY_SEED repeats a run.
func TestRandom(t *testing.T) {
	seed := envInt(t, "FOREBAY_SEED", time.Now().UnixNano())
	ops := envInt(t, "FOREBAY_OPS", 20_000)
	t.Logf("FOREBAY_SEED=%d", seed)
	var runs []randomRun
	for _, format := range []string{"plain", "timestamped", "headers"} {
		for _, memory := range []bool{false, true} {
			for _, cache := range []int64{0, 2000, 1 << 20} {
				for _, aborts := range []bool{false, true} {
					runs = append(runs, randomRun{format: format, memory: memory, cache: cache, aborts: aborts})
				}
			}
		}
	}
	for i := range runs {
		r := &runs[i]
		t.Run(fmt.Sprintf("%s memory=%t cache=%d aborts=%t", r.format, r.memory, r.cache, r.aborts), func(t *testing.T) {
			r.T, r.gen = t, &generator{rand.New(rand.NewPCG(uint64(seed), uint64(i))), 1_700_000_000_000}
			r.run(int(ops) / len(runs))
			require.Zero(t, rocks.Live())
		})
	}
}

type randomRun struct {
	*testing.T
	format string
	memory bool
	cache  int64
	aborts bool // uncommitted writes get lost, by Abort and by Close

	gen      *generator
	options  options
	store    *keyValue
	model    *model
	log      bytes.Buffer // of all stores, one after the other
	seen     int          // bytes of log that were checked
	logged   int64        // records in them
	upgraded bool
}

func (r *randomRun) run(n int) {
	r.options = defaults()
	r.options.format, r.options.memory, r.options.cache, r.options.state = r.format, r.memory, r.cache, r.TempDir()
	r.model = newModel(layouts[r.format])
	r.open()
	for i := range n {
		r.step(int64(i))
		switch p := r.gen.Float64(); {
		case p < 0.02:
			r.commit()
		case p < 0.03:
			require.NoError(r, r.store.Flush(context.Background()))
			r.checkLog(true)
		case p < 0.037:
			r.reopen()
		case p < 0.06:
			r.views()
		case p < 0.075 && r.aborts:
			r.store.Abort()
			r.checkLog(false)
			r.model.abort()
		}
	}
	r.commit()
	r.reopen()
	r.same(r.list(r.store), r.model.scan(r.model.rows, everything, false))
	require.NoError(r, r.store.Close())
	if !r.aborts && !r.upgraded {
		r.options.memory, r.options.state = true, ""
		s, _ := r.openStore(r.options)
		require.NoError(r, restore(s, bytes.NewReader(r.log.Bytes())))
		r.same(r.list(s), r.model.scan(r.model.rows, everything, false))
		require.NoError(r, s.Close())
	}
}

func (r *randomRun) dir() string {
	return filepath.Join(r.options.state, r.options.app, taskName)
}

func (r *randomRun) openStore(o options) (*keyValue, *fileLog) {
	log := newFileLog(o.app, &r.log)
	f, err := openKeyValue(o, r.dir(), log)
	require.NoError(r, err)
	return f.(*keyValue), log
}

func (r *randomRun) open() {
	var log *fileLog
	r.store, log = r.openStore(r.options)
	if r.memory && r.log.Len() > 0 {
		require.NoError(r, restore(r.store, bytes.NewReader(r.log.Bytes())))
	}
	if held, ok := r.store.RestoredOffset(); ok {
		log.next = held + 1
	}
}

func (r *randomRun) list(s *keyValue) any {
	list, err := s.list(s.All())
	require.NoError(r, err)
	return list
}

func (r *randomRun) same(got, want any) {
	r.Helper()
	a, err := marshal(want)
	require.NoError(r, err)
	b, err := marshal(got)
	require.NoError(r, err)
	require.Equal(r, a, b)
}

func (r *randomRun) step(n int64) {
	op := r.gen.op()
	text, err := json.Marshal(op)
	require.NoError(r, err)
	got, err := step(r.options, r.store, n, text)
	require.NoError(r, err)
	a, err := marshal(r.model.do(op, n))
	require.NoError(r, err)
	b, err := marshal(got)
	require.NoError(r, err)
	require.Equal(r, a, b, "operation %d: %s", n, text)
}

func (r *randomRun) commit() {
	require.NoError(r, r.store.Commit(context.Background()))
	r.checkLog(true)
	r.model.commit()
	r.checkpoint()
}

// checkpoint compares what the last commit stored beside its rows.
func (r *randomRun) checkpoint() {
	if position, ok := r.store.Position().Offset(r.options.app+"-in", 0); r.model.position >= 0 {
		require.True(r, ok)
		require.Equal(r, r.model.position, position)
	} else {
		require.False(r, ok)
	}
	if !r.aborts && r.logged > 0 {
		held, ok := r.store.RestoredOffset()
		require.True(r, ok)
		require.Equal(r, r.logged-1, held)
	}
}

// checkLog compares what was logged since the last check. Flushed: the cache, if any,
// holds nothing back.
func (r *randomRun) checkLog(flushed bool) {
	got := parseLog(r.T, lines(r.log.Bytes()[r.seen:]))
	r.seen = r.log.Len()
	for i := range got {
		if !r.aborts { // else numbers that were not committed come again
			require.Equal(r, r.logged, got[i].Offset)
		}
		r.logged++
		got[i].Offset = 0
	}
	want := r.model.writes
	r.model.writes = nil
	switch {
	case r.cache == 0:
	case r.cache > 10_000 && flushed:
		want = coalesce(want)
	case r.cache > 10_000:
		want = nil
	default:
		r.checkSome(got, want, flushed)
		return
	}
	require.Equal(r, len(want), len(got))
	for i := range want {
		require.Equal(r, want[i], got[i])
	}
}

// checkSome: a small cache logs some of a key's writes, in order, and after a flush the
// last one.
func (r *randomRun) checkSome(got, want []logRecord, flushed bool) {
	byKey := func(list []logRecord) map[string][]logRecord {
		m := map[string][]logRecord{}
		for _, x := range list {
			m[string(x.K)] = append(m[string(x.K)], x)
		}
		return m
	}
	gotBy, wantBy := byKey(got), byKey(want)
	for key, list := range gotBy {
		writes := wantBy[key]
		for _, x := range list {
			for len(writes) > 0 && !equalRecords(r.T, writes[0], x) {
				writes = writes[1:]
			}
			require.NotEmpty(r, writes, "key %x: %v was not written", key, x)
			writes = writes[1:]
		}
	}
	if flushed {
		for key, writes := range wantBy {
			require.NotEmpty(r, gotBy[key], "key %x", key)
			require.Equal(r, writes[len(writes)-1], gotBy[key][len(gotBy[key])-1])
		}
	}
}

func equalRecords(t *testing.T, a, b logRecord) bool {
	x, err := marshal(a)
	require.NoError(t, err)
	y, err := marshal(b)
	require.NoError(t, err)
	return x == y
}

// views compares what other goroutines would see.
func (r *randomRun) views() {
	for isolation, rows := range map[store.Isolation]map[string]modelRow{
		store.ReadCommitted: r.model.committed.rows, store.ReadUncommitted: r.model.rows,
	} {
		view := r.store.View(isolation)
		list, err := r.store.list(view.All())
		require.NoError(r, err)
		r.same(list, r.model.scan(rows, everything, false))
		key := r.gen.key()
		got, err := r.store.optional(view.Get(key))
		require.NoError(r, err)
		r.same(got, r.model.get(rows, key))
	}
}

// reopen closes the store and opens it again, now and then in a newer format.
func (r *randomRun) reopen() {
	if r.memory && r.aborts {
		return // what was logged and not committed would come back
	}
	if !r.aborts || r.gen.chance(0.5) {
		r.commit()
	}
	require.NoError(r, r.store.Close())
	r.checkLog(false)
	r.model.abort()
	if r.memory {
		r.model.position = -1 // in no changelog
		r.model.commit()
	} else {
		r.otherFormat()
	}
	r.open()
	r.checkpoint()
	r.same(r.list(r.store), r.model.scan(r.model.rows, everything, false))
}

// otherFormat tries what a closed directory allows: no older format, and a newer one if
// at most one older format has rows.
func (r *randomRun) otherFormat() {
	to := pick(r.gen, "plain", "timestamped", "headers")
	layout := layouts[to]
	o := r.options
	o.format = to
	plain := r.format == "plain" && r.options.format == "timestamped" && len(r.model.legacy) > 0
	switch {
	case layout < r.model.layout, layout == store.WithHeaders && plain:
		_, err := openKeyValue(o, r.dir(), nil)
		require.ErrorIs(r, err, store.ErrIncompatible)
	case layout > r.model.layout && r.gen.chance(0.5):
		r.upgraded = true
		r.options = o
		r.model.upgrade(layout)
	}
}
