package overlay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/store"
)

// listening is a fixture with a flush listener, which notes what it gets as "key:old>new".
type listening struct {
	*fixture
	processed store.Record
	forwarded []string
	records   []store.Record
	then      func(Forwarded) error // what the listener does besides
}

func listen(t *testing.T, budget *store.Budget, old bool) *listening {
	l := &listening{fixture: newFixture(t, true, budget)}
	require.True(t, l.SetForward(Forward{Call: l.call, Old: old, Record: &l.processed}))
	return l
}

func (l *listening) call(f Forwarded) error {
	l.forwarded = append(l.forwarded, fmt.Sprintf("%s:%s>%s", f.Key, f.Old.Value, f.New.Value))
	l.records = append(l.records, f.Record)
	if l.then != nil {
		return l.then(f)
	}
	return nil
}

func (l *listening) flush() {
	l.t.Helper()
	require.NoError(l.t, l.Flush(context.Background()))
}

func (l *listening) got() string {
	out := strings.Join(l.forwarded, " ")
	l.forwarded, l.records = nil, nil
	return out
}

func TestWithoutCacheNothingIsForwarded(t *testing.T) {
	f := newFixture(t, false, store.NewBudget(0))
	require.False(t, f.SetForward(Forward{Call: func(Forwarded) error { return errors.New("called") }, Record: &store.Record{}}))
	f.write("a", "1")
	f.commit()
}

func TestFlushForwardsLastWritesInOrder(t *testing.T) {
	l := listen(t, store.NewBudget(1<<20), true)
	l.write("a", "1")
	l.write("b", "1")
	l.commit()
	require.Equal(t, "a:>1 b:>1", l.got())
	l.write("a", "2")
	l.write("c", "2")
	l.write("a", "3")
	l.delete("b")
	require.Empty(t, l.got())
	l.flush()
	require.Equal(t, "c:>2 a:1>3 b:1>", l.got())
	l.flush()
	l.commit()
	require.Empty(t, l.got(), "once")
	require.Equal(t, []string{"a=1", "b=1", "c=2", "a=3", "b"}, l.log.take())
}

// The old row is what was forwarded last, be it committed, cached or flushed in this round.
func TestOldRows(t *testing.T) {
	l := listen(t, store.NewBudget(1<<20), true)
	l.write("a", "1")
	l.flush()
	l.write("a", "2")
	l.write("a", "3")
	l.flush()
	require.Equal(t, "a:>1 a:1>3", l.got())
	l.delete("a")
	l.flush()
	l.write("a", "4")
	l.flush()
	require.Equal(t, "a:3> a:>4", l.got())
	l.commit()
	l.write("a", "5")
	l.Abort()
	l.write("a", "6") // over what the table has
	l.flush()
	require.Equal(t, "a:4>6", l.got())
	l.Abort()
	l.get("a")
	l.write("a", "7") // over what the cache has
	l.flush()
	require.Equal(t, "a:4>7", l.got())

	l = listen(t, store.NewBudget(1<<20), false)
	l.write("a", "1")
	l.commit()
	l.write("a", "2")
	l.flush()
	l.delete("a")
	l.flush()
	require.Equal(t, "a:>1 a:>2 a:>", l.got(), "not asked for")
	require.Equal(t, []string{"a=1", "a=2", "a"}, l.log.take())
}

// A cached delete of a key that never reached the base neither logs nor forwards.
func TestDeleteOfNothing(t *testing.T) {
	for _, old := range []bool{false, true} {
		l := listen(t, store.NewBudget(1<<20), old)
		l.write("kept", "1")
		l.commit()
		l.got()
		l.log.take()
		nothing := func(when string) {
			l.flush()
			require.Empty(t, l.got(), when)
			require.Empty(t, l.log.take(), when)
			require.Equal(t, "-", l.get("a"), when)
			require.Equal(t, []string{"kept=1"}, l.all(true), when)
		}
		l.delete("a")
		nothing("never written")
		l.delete("a")
		nothing("deleted before in this round")
		l.commit()
		l.get("a")
		l.delete("a")
		nothing("absence is cached")
		l.write("a", "1")
		l.delete("a")
		nothing("written and deleted between two flushes")
		l.commit()

		l.write("a", "1")
		l.flush()
		l.delete("a")
		l.flush()
		l.delete("a")
		l.flush()
		require.Equal(t, []string{"a=1", "a"}, l.log.take())
		l.write("a", "1")
		l.commit()
		require.Equal(t, "1", getFrom(t, l.table, "a"))
		l.delete("a")
		l.flush()
		l.write("a", "2")
		l.delete("a")
		l.commit()
		require.Equal(t, "-", getFrom(t, l.table, "a"), "the delete of a committed row is committed")
		require.Equal(t, []string{"a=1", "a"}, l.log.take())
	}

	f := newFixture(t, true, store.NewBudget(1<<20))
	f.delete("a")
	f.commit()
	require.Equal(t, []string{"a"}, f.log.take(), "without a listener it is logged")
}

func TestEvictionForwards(t *testing.T) {
	l := listen(t, store.NewBudget(1000), true)
	l.write("a", "1")
	l.write("b", "1")
	l.get("a")
	require.Empty(t, l.forwarded)
	l.write("c", "1")
	require.Equal(t, "b:>1 a:>1 c:>1", l.got(), "the least recently used first, the others in order")
	require.Equal(t, []string{"b=1", "a=1", "c=1"}, l.log.take())
}

// The context is that of the last write, and shares no bytes with the caller's.
func TestForwardedContext(t *testing.T) {
	l := listen(t, store.NewBudget(1<<20), false)
	header := []byte("1")
	l.processed = store.Record{Topic: "in", Partition: 2, Offset: 7, Timestamp: 70, Headers: store.NewHeaders(store.Header{Key: "h", Value: header})}
	l.write("a", "1")
	header[0] = '!'
	l.processed = store.Record{Topic: "in", Partition: 2, Offset: 8, Timestamp: 80}
	l.write("b", "1")
	l.processed = store.Record{}
	l.flush()
	require.Len(t, l.records, 2)
	h, _ := l.records[0].Headers.Last("h")
	require.Equal(t, "1", string(h.Value))
	l.records[0].Headers = store.Headers{}
	require.Equal(t, []store.Record{{Topic: "in", Partition: 2, Offset: 7, Timestamp: 70}, {Topic: "in", Partition: 2, Offset: 8, Timestamp: 80}}, l.records)
}

// A listener writes into the store that is being flushed: before, at and behind the key
// that it is called for.
func TestReentrantWrites(t *testing.T) {
	for _, budget := range []int64{1 << 20, 600, 1} {
		l := listen(t, store.NewBudget(budget), true)
		l.then = func(f Forwarded) error {
			switch v := string(f.New.Value); {
			case string(f.Key) == "a" && v == "1":
				l.write("a", "2") // the key itself
				l.write("c", "x")
				l.write("0", "x")
			case string(f.Key) == "0":
				require.Equal(t, "2", l.get("a"))
				l.delete("b") // perhaps a tombstone that was just flushed
			}
			return nil
		}
		l.write("b", "1")
		l.commit()
		l.got()
		l.delete("b")
		l.write("c", "1")
		l.write("a", "1")
		l.commit()
		require.Equal(t, []string{"0=x", "a=2", "c=x"}, l.all(false), "budget %d", budget)
		require.Equal(t, []string{"0=x", "a=2", "c=x"}, rows(t, l.View(false).Scan(base.Span{})))
		if budget == 1<<20 {
			require.Equal(t, "b:1> c:>1 a:>1 a:1>2 c:1>x 0:>x", l.got())
		}
	}
}

// T16 of Kafka Streams: a key that the listener puts again while its tombstone is flushed
// stays.
func TestFlushKeepsAKeyThatItsListenerPutsAgain(t *testing.T) {
	l := listen(t, store.NewBudget(1<<20), true)
	l.write("a", "1")
	l.commit()
	l.got()
	l.then = func(f Forwarded) error {
		if f.New.Tombstone() {
			l.write("a", "2")
		}
		return nil
	}
	l.delete("a")
	l.commit()
	require.Equal(t, "a:1> a:>2", l.got())
	require.Equal(t, "2", l.get("a"))
	require.Equal(t, "2", getFrom(t, l.table, "a"))
	require.Equal(t, []string{"a=1", "a", "a=2"}, l.log.take())
}

func TestFlushThatDoesNotRest(t *testing.T) {
	l := listen(t, store.NewBudget(1<<20), false)
	n := 0
	l.then = func(Forwarded) error {
		n++
		l.write("a", fmt.Sprint(n))
		return nil
	}
	l.write("a", "0")
	require.ErrorContains(t, l.Commit(context.Background()), "does not come to rest")
	require.Equal(t, maxPasses, n)
	l.Abort()
	require.Equal(t, "-", l.get("a"))
}

func TestListenerMayNotFlush(t *testing.T) {
	l := listen(t, store.NewBudget(1<<20), false)
	l.then = func(Forwarded) error {
		require.ErrorContains(t, l.Commit(context.Background()), "may not flush")
		return l.Flush(context.Background())
	}
	l.write("a", "1")
	require.ErrorContains(t, l.Flush(context.Background()), "may not flush")
}

// What a listener fails at was logged and not forwarded: nothing is committed any more until
// an abort.
func TestListenerErrorBarsCommits(t *testing.T) {
	for _, budget := range []int64{1 << 20, 1} {
		l := listen(t, store.NewBudget(budget), false)
		fail := errors.New("downstream")
		l.then = func(f Forwarded) error {
			if string(f.Key) == "b" {
				return fail
			}
			return nil
		}
		for _, k := range []string{"a", "b", "c"} {
			l.write(k, "1") // with a budget of one byte this flushes
		}
		for range 3 {
			require.ErrorIs(t, l.Commit(context.Background()), fail)
		}
		require.Empty(t, rows(t, l.table.Scan(base.Span{})))
		l.Abort()
		l.then = nil
		l.write("d", "1")
		l.commit()
		require.Equal(t, []string{"d=1"}, l.all(false))
	}
}

func TestFailedLookUpOfTheOldRow(t *testing.T) {
	l := listen(t, store.NewBudget(1<<20), true)
	l.write("a", "1")
	l.table.failGet = errors.New("disk")
	require.ErrorIs(t, l.Flush(context.Background()), l.table.failGet)
	require.Empty(t, l.log.take())
	l.table.failGet = nil
	l.commit()
	require.Equal(t, "a:>1", l.got())
}

// Rows that were written before there was a listener are not forwarded.
func TestListenerThatComesLate(t *testing.T) {
	l := &listening{fixture: newFixture(t, true, store.NewBudget(1<<20))}
	l.write("a", "1")
	l.delete("b")
	require.True(t, l.SetForward(Forward{Call: l.call, Old: true, Record: &l.processed}))
	l.write("c", "1")
	l.flush()
	require.Equal(t, "c:>1", l.got())
	require.Equal(t, []string{"a=1", "b", "c=1"}, l.log.take())
	l.write("a", "2")
	require.False(t, l.SetForward(Forward{}))
	l.flush()
	require.Empty(t, l.got())
	require.Equal(t, []string{"a=2"}, l.log.take())
}

func TestPassIsForwarded(t *testing.T) {
	l := listen(t, store.NewBudget(1<<20), true)
	l.write("k", "old")
	require.NoError(t, l.Pass([]byte("k"), store.Row{Value: []byte("late")}, l.record()))
	require.NoError(t, l.Pass([]byte("k"), store.Row{}, l.record()))
	require.Equal(t, "k:>old k:>late", l.got())
	l.commit()
	require.Equal(t, []string{"k=old", "k=late"}, l.log.take())
	c, _ := l.table.Checkpoint()
	offset, _ := c.Position.Offset("in", 0)
	require.Equal(t, l.now-1000, offset)
}

// Whoever applies what is forwarded has the rows of the store after every flush; each old
// row is what was applied before; and the log has exactly the same changes.
func TestForwardedChangesAreComplete(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for _, budget := range []int64{1 << 20, 2000, 1} {
		t.Run(fmt.Sprint(budget), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, uint64(budget)))
			l := listen(t, store.NewBudget(budget), true)
			now, downstream, committed := map[string]string{}, map[string]string{}, map[string]string{}
			key := func() string { return fmt.Sprint(r.IntN(8)) }
			put := func(k, v string) {
				now[k] = v
				l.write(k, v)
			}
			l.then = func(f Forwarded) error {
				k := string(f.Key)
				old, had := downstream[k]
				require.Equal(t, had, !f.Old.Tombstone())
				require.Equal(t, old, string(f.Old.Value))
				require.True(t, had || !f.New.Tombstone(), "a delete of nothing")
				if downstream[k] = string(f.New.Value); f.New.Tombstone() {
					delete(downstream, k)
				}
				require.Equal(t, []string{show(f.Key, f.New)}, l.log.take())
				if r.IntN(4) == 0 {
					put(key(), "inner")
				}
				return nil
			}
			for i := range 5000 {
				switch n := r.IntN(100); {
				case n < 40:
					put(key(), fmt.Sprint(i))
				case n < 65:
					k := key()
					delete(now, k)
					l.delete(k)
				case n < 85:
					l.get(key())
				case n < 93:
					l.flush()
					require.Equal(t, now, downstream)
				case n < 97:
					l.commit()
					require.Equal(t, now, downstream)
					committed = maps.Clone(now)
				default:
					l.Abort()
					now, downstream = maps.Clone(committed), maps.Clone(committed)
				}
				require.Empty(t, l.log.take())
			}
		})
	}
}
