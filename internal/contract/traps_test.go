package contract

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/subject"
	"github.com/forebay-streams/forebay/store"
)

// The tests below are named after what has gone wrong in state stores of this kind. Each
// runs for every family, table, format, layout of keys and cache to which it applies.

// fill commits rows under the keys, at time 1.
func fill(t *testing.T, k kind, s subject.Store, keys ...string) {
	t.Helper()
	for _, key := range keys {
		require.NoError(t, s.Put(k.family.At(key, 1), value("1")))
	}
	require.NoError(t, s.Commit(ctx))
}

func scan(t *testing.T, r subject.Reader, reverse bool, keys ...string) (out []string) {
	t.Helper()
	places, err := r.Scan(reverse, keys)
	require.NoError(t, err)
	for _, p := range places {
		out = append(out, p.Key)
	}
	return out
}

func present(t *testing.T, r subject.Reader, p subject.Place) bool {
	t.Helper()
	_, ok, err := r.Get(p)
	require.NoError(t, err)
	return ok
}

// A tombstone hides the row below it whichever way a scan runs, also when the table's next
// row lies before it, behind it, or when there is no row for it (T9).
func TestCachedTombstoneInReverseScan(t *testing.T) {
	kinds(t, func(t *testing.T, k kind) {
		s := k.open(t, taskDir(t))
		fill(t, k, s, "b", "d", "f")
		for _, c := range []struct {
			deleted []string
			left    []string
		}{
			{[]string{"d"}, []string{"b", "f"}},
			{[]string{"b"}, []string{"d", "f"}},
			{[]string{"f"}, []string{"b", "d"}},
			{[]string{"a", "c", "g"}, []string{"b", "d", "f"}},
			{[]string{"g", "f", "e"}, []string{"b", "d"}},
			{[]string{"b", "d", "f"}, nil},
		} {
			for _, key := range c.deleted {
				require.NoError(t, s.Delete(k.family.At(key, 1)))
			}
			all := []string{"a", "b", "c", "d", "e", "f", "g"}
			require.Equal(t, c.left, scan(t, s, false, all...), "without %v", c.deleted)
			slices.Reverse(all)
			backward := slices.Clone(c.left)
			slices.Reverse(backward)
			require.Equal(t, backward, scan(t, s, true, all...), "without %v", c.deleted)
			require.Equal(t, backward, scan(t, s.View(store.ReadUncommitted), true, all...), "without %v", c.deleted)
			s.Abort()
		}
	})
}

// A deleted row is gone at once, after a flush, after a commit and after another open.
func TestDeletedKeyDoesNotReappear(t *testing.T) {
	kinds(t, func(t *testing.T, k kind) {
		dir := taskDir(t)
		s := k.open(t, dir)
		fill(t, k, s, "a", "b")
		gone := k.family.At("a", 1)
		require.NoError(t, s.Delete(gone))
		for _, step := range []func() error{
			func() error { return nil },
			func() error { return s.Flush(ctx) },
			func() error { return s.Commit(ctx) },
			func() error { return s.Commit(ctx) },
			func() error {
				if k.config.Memory {
					return nil
				}
				err := s.Close()
				s = k.open(t, dir)
				return err
			},
		} {
			require.NoError(t, step())
			require.False(t, present(t, s, gone))
			require.Equal(t, []string{"b"}, scan(t, s, false, "a", "b"))
			require.Equal(t, []string{"b"}, scan(t, s, true, "b", "a"))
		}
	})
}

// A row that is put again after its tombstone was flushed, or before, stays (T16; with a
// listener that does so see the tests of the overlay).
func TestFlushKeepsARePutKey(t *testing.T) {
	kinds(t, func(t *testing.T, k kind) {
		s := k.open(t, taskDir(t))
		p := k.family.At("a", 1)
		for _, flushes := range [][2]bool{{false, false}, {true, false}, {false, true}, {true, true}} {
			fill(t, k, s, "a")
			require.NoError(t, s.Delete(p))
			if flushes[0] {
				require.NoError(t, s.Flush(ctx))
			}
			require.NoError(t, s.Put(p, value("2")))
			if flushes[1] {
				require.NoError(t, s.Flush(ctx))
			}
			require.NoError(t, s.Commit(ctx))
			for _, r := range []subject.Reader{s, s.View(store.ReadCommitted), s.View(store.ReadUncommitted)} {
				v, ok, err := r.Get(p)
				require.NoError(t, err)
				require.True(t, ok)
				require.Equal(t, "2", string(v.Data))
				require.Equal(t, []string{"a"}, scan(t, r, true, "a"))
			}
		}
	})
}

// A committed view sees no uncommitted write, cached or not, in get or scan (T8).
func TestCommittedViewsSeeCommitsOnly(t *testing.T) {
	kinds(t, func(t *testing.T, k kind) {
		s := k.open(t, taskDir(t))
		view := s.View(store.ReadCommitted)
		fill(t, k, s, "a", "b")
		require.NoError(t, s.Put(k.family.At("a", 1), value("2")))
		require.NoError(t, s.Put(k.family.At("c", 1), value("2")))
		require.NoError(t, s.Delete(k.family.At("b", 1)))
		for _, step := range []func() error{func() error { return nil }, func() error { return s.Flush(ctx) }} {
			require.NoError(t, step())
			v, ok, err := view.Get(k.family.At("a", 1))
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, "1", string(v.Data))
			require.False(t, present(t, view, k.family.At("c", 1)))
			require.True(t, present(t, view, k.family.At("b", 1)))
			require.Equal(t, []string{"a", "b"}, scan(t, view, false, "a", "b", "c"))
		}
		require.NoError(t, s.Commit(ctx))
		require.Equal(t, []string{"a", "c"}, scan(t, view, false, "a", "b", "c"))
	})
}

// The position moves with commits only (KAFKA-20760), with deletes in memory too (T21), not
// with reads (T5), and a commit that fails keeps what is pending (T15).
func TestPositionMovesWithCommits(t *testing.T) {
	kinds(t, func(t *testing.T, k kind) {
		l := &log{}
		k.config.Log = l
		s := k.open(t, taskDir(t))
		at := func() int64 {
			offset, ok := s.Position().Offset("in", 0)
			if !ok {
				return -1
			}
			return offset
		}
		fill(t, k, s, "a")
		require.EqualValues(t, 1, at())
		s.SetRecord(record(2))
		require.NoError(t, s.Put(k.family.At("b", 1), value("1")))
		require.EqualValues(t, 1, at())
		s.Abort()
		require.NoError(t, s.Commit(ctx))
		require.EqualValues(t, 1, at(), "what was aborted")
		s.SetRecord(record(3))
		require.True(t, present(t, s, k.family.At("a", 1)))
		require.NoError(t, s.Commit(ctx))
		require.EqualValues(t, 1, at(), "a read")
		if k.family != subject.Session { // a removal leaves the position, as in Kafka Streams
			s.SetRecord(record(4))
			require.NoError(t, s.Delete(k.family.At("a", 1)))
			require.NoError(t, s.Commit(ctx))
			require.EqualValues(t, 4, at(), "a delete")
		}
		s.SetRecord(record(5))
		require.NoError(t, s.Put(k.family.At("c", 1), value("1")))
		l.fail = errors.New("no broker")
		require.ErrorIs(t, s.Commit(ctx), l.fail)
		l.fail = nil
		require.NoError(t, s.Commit(ctx))
		require.EqualValues(t, 5, at(), "a commit at the second go")
	})
}

// A tombstone is logged with the headers and timestamp of the record that deleted, cached or
// not, and what happens to that list later does not show (KAFKA-20262, T2).
func TestTombstonesKeepTheHeadersOfTheirRecord(t *testing.T) {
	kinds(t, func(t *testing.T, k kind) {
		l := &log{}
		k.config.Log = l
		s := k.open(t, taskDir(t))
		fill(t, k, s, "a")
		headers := store.NewHeaders(store.Header{Key: "why", Value: []byte("gone")})
		s.SetRecord(store.Record{Topic: "in", Offset: 9, Timestamp: 77, Headers: headers})
		require.NoError(t, s.Delete(k.family.At("a", 50)))
		require.NoError(t, headers.Add("later", nil))
		s.SetRecord(record(10))
		l.take()
		require.NoError(t, s.Flush(ctx))
		c := l.changes[len(l.changes)-1]
		require.True(t, c.Tombstone())
		want := store.Headers{}
		if k.config.Layout == store.WithHeaders {
			want = store.NewHeaders(store.Header{Key: "why", Value: []byte("gone")})
		}
		require.True(t, c.Headers.Equal(want), "%v", c.Headers.List())
		if k.family != subject.Versioned { // whose timestamp is the version's
			require.EqualValues(t, 77, c.Timestamp)
		}
	})
}

// A changelog may hold a delete whose row was compacted away (KAFKA-8731).
func TestRestoredDeleteOfNothing(t *testing.T) {
	kinds(t, func(t *testing.T, k kind) {
		l := &log{}
		k.config.Log = l
		s := k.open(t, taskDir(t))
		fill(t, k, s, "kept")
		require.NoError(t, s.Delete(k.family.At("gone", 1)))
		require.NoError(t, s.Commit(ctx))
		other := k
		other.config.Log = &log{}
		r := other.open(t, taskDir(t))
		last := l.changes[len(l.changes)-1]
		require.True(t, last.Tombstone())
		require.NoError(t, r.RestoreBatch([]store.Change{last}, 5))
		require.Empty(t, scan(t, r, false, "gone", "kept"))
		require.NoError(t, r.RestoreBatch(append([]store.Change{last}, l.changes...), 6))
		require.Equal(t, []string{"kept"}, scan(t, r, true, "kept", "gone"))
		offset, known := r.RestoredOffset()
		require.True(t, known)
		require.EqualValues(t, 6, offset)
	})
}

// A view of a store whose directory is being upgraded writes nothing (T6).
func TestViewsMigrateNothing(t *testing.T) {
	kinds(t, func(t *testing.T, k kind) {
		if k.config.Memory || k.config.Layout == store.Plain {
			return
		}
		dir := taskDir(t)
		old := k
		if old.config.Layout = store.Plain; k.family == subject.Windowed && k.config.Ordered {
			old.config.Layout = store.Timestamped
		}
		s := old.open(t, dir)
		fill(t, k, s, "a", "b")
		require.NoError(t, s.Close())
		s = k.open(t, dir)
		for _, isolation := range []store.Isolation{store.ReadCommitted, store.ReadUncommitted} {
			view := s.View(isolation)
			require.True(t, present(t, view, k.family.At("a", 1)))
			require.Equal(t, []string{"b", "a"}, scan(t, view, true, "b", "a"))
		}
		stats, err := s.Migration()
		require.NoError(t, err)
		require.True(t, stats.Migrating)
		require.Zero(t, stats.Migrated)
	})
}

// Between two flushes a cache logs one record per row, the last, in the order of the last
// writes; without a cache every write is logged as it comes.
func TestChangelogIsExact(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	kinds(t, func(t *testing.T, k kind) {
		r := rand.New(rand.NewPCG(seed, 1))
		l := &log{}
		k.config.Log, k.config.Budget = l, store.NewBudget(1<<20)
		s := k.open(t, taskDir(t))
		type write struct {
			place subject.Place
			value string
		}
		var want []write
		places := map[subject.Place]bool{}
		for i := range int64(600) {
			p := k.family.At(fmt.Sprint("key-", r.IntN(5)), 1+r.Int64N(3))
			places[p] = true
			w := write{place: p}
			s.SetRecord(record(i))
			switch n := r.IntN(100); {
			case n < 50:
				w.value = fmt.Sprint("value-", i)
				require.NoError(t, s.Put(p, value(w.value)))
			case n < 75:
				require.NoError(t, s.Delete(p))
			case n < 90:
				present(t, s, p) // changes no order
				continue
			case n < 98:
				require.NoError(t, s.Flush(ctx))
				var got []write
				for _, c := range l.take() {
					got = append(got, write{k.family.LogPlace(c), string(c.Value)})
				}
				require.Equal(t, want, got)
				want = nil
				continue
			default:
				require.NoError(t, s.Commit(ctx))
				l.take()
				want = nil
				continue
			}
			if k.config.Cache {
				want = slices.DeleteFunc(want, func(old write) bool { return old.place == p })
			}
			want = append(want, w)
		}
		require.Greater(t, len(slices.Collect(maps.Keys(places))), 4)
	})
}
