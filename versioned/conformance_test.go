package versioned

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

// TestConformance holds stores of every kind against the model over random operations:
// puts in any order, reads of owner and views, commits, aborts, restarts, restores, upgrades
// of plain directories that stop half-way, drains and downgrades. FOREBAY_OPS sets how
// many, FOREBAY_SEED repeats a run.
func TestConformance(t *testing.T) {
	ops, seed := number(t, "FOREBAY_OPS", defaultOps), number(t, "FOREBAY_SEED", time.Now().UnixNano())
	t.Logf("seed %d (FOREBAY_SEED repeats it)", seed)
	const perRun, parts = 1500, 4 // opening and closing waits for the disk
	var mu sync.Mutex
	var total counts
	t.Run("parts", func(t *testing.T) {
		for part := range int64(parts) {
			t.Run(fmt.Sprint(part), func(t *testing.T) {
				t.Parallel()
				for run, left := part, ops/parts; left > 0; run += parts {
					r := &conformance{T: t, rnd: rand.New(rand.NewPCG(uint64(seed), uint64(run))), name: fmt.Sprintf("seed %d, run %d", seed, run)}
					r.run(int(min(perRun, left)))
					left -= r.ops
					mu.Lock()
					total.add(r.counts)
					mu.Unlock()
				}
			})
		}
	})
	require.Zero(t, rocks.Live())
	t.Logf("%+v", total)
}

func number(t *testing.T, name string, otherwise int64) int64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err, name)
	return n
}

type counts struct{ ops, puts, late, reads, viewed, commits, aborts, reopens, restores, upgrades, drains, downgrades int64 }

func (c *counts) add(o counts) {
	c.ops += o.ops
	c.puts += o.puts
	c.late += o.late
	c.reads += o.reads
	c.viewed += o.viewed
	c.commits += o.commits
	c.aborts += o.aborts
	c.reopens += o.reopens
	c.restores += o.restores
	c.upgrades += o.upgrades
	c.drains += o.drains
	c.downgrades += o.downgrades
}

type conformance struct {
	*testing.T
	counts
	rnd  *rand.Rand
	name string

	dir                 string
	retention, interval int64
	memory, headers     bool
	log                 *log
	logged              int // records in the log as of the last commit
	store               *strings
	views               [2]*View[string, string]
	now, committed      *model
	clock               int64
	lateness            int64
}

func (r *conformance) fatal(err error) {
	if err != nil {
		r.Helper()
		r.Fatalf("%s: %v", r.name, err)
	}
}

func (r *conformance) same(want, got any, format string, args ...any) {
	if fmt.Sprint(want) != fmt.Sprint(got) {
		r.Helper()
		r.Fatalf("%s, %v, op %d: %s: want %v, got %v", r.name, r.now, r.ops, fmt.Sprintf(format, args...), want, got)
	}
}

func (r *conformance) run(ops int) {
	r.dir = filepath.Join(r.TempDir(), "app", "0_0")
	r.retention, r.interval = r.rnd.Int64N(101), 1+r.rnd.Int64N(40)
	if r.rnd.IntN(4) == 0 { // several intervals a history, as is usual
		r.retention, r.interval = 100+r.rnd.Int64N(1000), 20+r.rnd.Int64N(100)
	}
	r.lateness = 1 + r.rnd.Int64N(max(60, r.retention))
	r.memory = r.rnd.IntN(3) == 0
	r.headers = r.rnd.IntN(3) == 0
	r.log = &log{}
	r.now, r.committed = newModel(r.retention), newModel(r.retention)
	r.store = r.open(r.dir)
	for range ops {
		r.step()
	}
	r.commit()
	r.restored()
	r.downgraded()
	r.fatal(r.store.Close())
}

func (r *conformance) open(dir string) *strings {
	format := store.Plain
	if r.headers {
		format = store.WithHeaders
	}
	options := []Option{History(millis(r.retention)), SegmentInterval(millis(r.interval)), Format(format), Changelog(r.log)}
	if r.memory {
		options = append(options, InMemory())
	}
	s, err := Open(dir, "store", store.String(), store.String(), options...)
	r.fatal(err)
	r.views = [2]*View[string, string]{s.View(store.ReadCommitted), s.View(store.ReadUncommitted)}
	return s
}

func (r *conformance) key() string { return []string{"", "k", "k\x00", "\xff"}[r.rnd.IntN(4)] }

func (r *conformance) time() int64 {
	return max(0, r.clock-r.rnd.Int64N(r.lateness+1)*r.rnd.Int64N(2))
}

// headerBlock is sometimes empty.
func (r *conformance) headerBlock() store.Headers {
	var h store.Headers
	for range r.rnd.IntN(3) {
		_ = h.Add(string(rune('a'+r.rnd.IntN(3))), make([]byte, r.rnd.IntN(4)))
	}
	return h
}

func (r *conformance) step() {
	r.ops++
	r.clock += r.rnd.Int64N(3) * r.rnd.Int64N(4)
	if r.rnd.IntN(300) == 0 {
		r.clock += r.retention // everything expires
	}
	r.store.SetRecord(record(r.ops, r.clock))
	switch n := r.rnd.IntN(1000); {
	case n < 450:
		r.put()
	case n < 600:
		r.reads++
		r.read(r.store, r.now)
	case n < 800:
		r.viewed++
		i := r.rnd.IntN(2)
		r.read(r.views[i], []*model{r.committed, r.now}[i])
	case n < 850:
		r.commit()
	case n < 865:
		r.abort()
	case n < 868:
		r.reopen()
	case n < 869:
		r.commit()
		r.restored()
	case n < 875 && r.headers && !r.memory:
		r.commit()
		r.drains++
		_, _, err := r.store.DrainSlice(1 + r.rnd.IntN(3))
		r.fatal(err)
	default:
		r.put()
	}
}

func (r *conformance) put() {
	r.puts++
	key, ts := r.key(), r.time()
	if times := r.now.times(key); len(times) > 0 && r.rnd.IntN(4) == 0 {
		ts = times[len(times)-1-r.rnd.IntN(min(3, len(times)))] // a time that has a version
	}
	v := &version{data: fmt.Sprintf("%.*s", r.rnd.IntN(8), fmt.Sprintf("%08d", r.ops)), headers: r.headerBlock()}
	kept := v
	if !r.headers {
		kept = v.withoutHeaders()
	}
	var got Placed
	var err error
	switch n := r.rnd.IntN(100); {
	case n < 15:
		want := "-"
		if ts >= r.now.stream-r.retention {
			want = r.now.asOf(key, ts)
		}
		r.now.put(key, nil, ts)
		old, ok, err := r.store.Delete(key, ts)
		r.same(want, show(old, ok, err), "delete %q at %d", key, ts)
		return
	case n < 35:
		kept = nil
		got, err = r.store.Tombstone(key, ts)
	default:
		got, err = r.store.Put(key, store.Value[string]{Data: v.data, Timestamp: ts, Headers: v.headers})
	}
	r.fatal(err)
	want := r.now.put(key, kept, ts)
	if want == TooOld {
		r.late++
	}
	r.same(want, got, "put %q at %d", key, ts)
}

// reader is what store and view have in common.
type reader interface {
	Get(string) (Version[string], bool, error)
	GetAsOf(string, int64) (Version[string], bool, error)
	History(string, int64, int64, Order) iter.Seq2[Version[string], error]
}

func (r *conformance) read(s reader, m *model) {
	key := r.key()
	bound := max(0, m.stream-r.retention)
	switch r.rnd.IntN(4) {
	case 0:
		r.same(m.get(key), show(s.Get(key)), "get %q", key)
	case 1, 2:
		at := r.time()
		if r.rnd.IntN(8) == 0 {
			at = bound + r.rnd.Int64N(5) - 2
		}
		r.same(m.asOf(key, at), show(s.GetAsOf(key, at)), "get %q as of %d", key, at)
	default:
		from := bound + r.rnd.Int64N(max(1, r.clock-bound)+2)
		to := from + r.rnd.Int64N(r.lateness)
		if r.rnd.IntN(5) == 0 {
			to = never
		}
		want := m.history(key, from, to)
		order := Order(r.rnd.IntN(2))
		if order == Descending {
			slices.Reverse(want)
		}
		var got []string
		for v, err := range s.History(key, from, to, order) {
			got = append(got, show(v, true, err))
		}
		r.same(want, got, "history of %q, %d to %d", key, from, to)
	}
}

func (r *conformance) commit() {
	r.commits++
	r.fatal(r.store.Commit(ctx))
	r.committed, r.logged = r.now.clone(), len(r.log.changes)
}

// abort takes the log back too, as a transaction does.
func (r *conformance) abort() {
	r.aborts++
	r.store.Abort()
	r.now, r.log.changes = r.committed.clone(), r.log.changes[:r.logged]
}

// reopen closes with or without a commit. A store in memory comes back from its changelog,
// a plain one perhaps with headers.
func (r *conformance) reopen() {
	r.reopens++
	if r.rnd.IntN(3) > 0 {
		r.commit()
	}
	r.abort()
	r.fatal(r.store.Close())
	if !r.headers && r.rnd.IntN(2) == 0 {
		r.upgrades++
		r.headers = true
	}
	r.store = r.open(r.dir)
	if r.memory {
		r.fill(r.store)
	}
}

// fill restores in batches of any size.
func (r *conformance) fill(s *strings) {
	for done := 0; done < len(r.log.changes); {
		n := min(len(r.log.changes)-done, 1+r.rnd.IntN(60))
		r.fatal(s.RestoreBatch(r.log.changes[done:done+n], int64(done+n-1)))
		done += n
	}
}

// restored compares with a store that is filled from the changelog, row by row.
func (r *conformance) restored() {
	r.restores++
	log := *r.log
	views, memory := r.views, r.memory
	r.memory = r.rnd.IntN(3) > 0 // whatever the store is
	other := r.open(filepath.Join(r.TempDir(), "app", "0_0"))
	r.views, r.memory = views, memory
	r.fill(other)
	r.same(len(log.changes), len(r.log.changes), "a restore logs nothing")
	want, got := rows(r.T, r.store), rows(r.T, other)
	require.Equal(r.T, want, got, r.name)
	r.same(r.now.stream, other.StreamTime(), "restored stream time")
	for range 10 {
		r.read(other, r.committed)
	}
	r.fatal(other.Close())
}

// downgraded makes a plain directory of one with headers, and compares its rows with those
// of a plain store.
func (r *conformance) downgraded() {
	if !r.headers || r.memory {
		return
	}
	r.downgrades++
	r.fatal(r.store.Close())
	_, err := migration.Downgrade(filepath.Join(r.dir, "rocksdb", "store"), store.Plain, migration.DiscardHeaders())
	r.fatal(err)
	r.headers = false
	for _, keys := range []map[string]map[int64]*version{r.now.keys, r.committed.keys} {
		for _, versions := range keys {
			for ts, v := range versions {
				versions[ts] = v.withoutHeaders()
			}
		}
	}
	r.store = r.open(r.dir)
	r.restored()
}
