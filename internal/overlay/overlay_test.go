package overlay

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/memory"
	"github.com/forebay-streams/forebay/store"
)

// log is a changelog in memory that can be made to fail.
type log struct {
	changes []store.Change
	fail    error
}

func (*log) Topic() string    { return "app-store-changelog" }
func (*log) Partition() int32 { return 0 }

func (l *log) Append(c store.Change) error {
	if err := errors.Join(l.fail, c.Headers.Err()); err != nil {
		return err
	}
	l.changes = append(l.changes, c)
	return nil
}

func (l *log) Flush(context.Context) (int64, bool, error) {
	return int64(len(l.changes)) - 1, len(l.changes) > 0, l.fail
}

// take returns the keys and values logged since the last call, "k=v" or "k" for a tombstone.
func (l *log) take() (out []string) {
	for _, c := range l.changes {
		out = append(out, show(c.Key, c.Row))
	}
	l.changes = nil
	return out
}

func show(key []byte, row store.Row) string {
	if row.Tombstone() {
		return string(key)
	}
	return string(key) + "=" + string(row.Value)
}

type fixture struct {
	*Overlay
	t     *testing.T
	log   *log
	table *failingTable
	now   int64
}

// failingTable is a table whose commits and reads can be made to fail.
type failingTable struct {
	base.Table
	fail, failGet error
}

func (f *failingTable) Get(key []byte, scratch *[]byte) (store.Row, bool, error) {
	if f.failGet != nil {
		return store.Row{}, false, f.failGet
	}
	return f.Table.Get(key, scratch)
}

func (f *failingTable) Commit(changes []store.Change, c base.Checkpoint) error {
	if f.fail != nil {
		return f.fail
	}
	return f.Table.Commit(changes, c)
}

func newFixture(t *testing.T, cache bool, budget *store.Budget) *fixture {
	f := &fixture{t: t, log: &log{}, table: &failingTable{Table: memory.New(store.WithHeaders)}, now: 1000}
	f.Overlay = New(f.table, Config{Layout: store.WithHeaders, Log: f.log, Cache: cache, Budget: budget})
	t.Cleanup(func() {
		f.Clear()
		require.Zero(t, budget.CacheUsed(), "cache bytes left")
		require.Zero(t, budget.UncommittedUsed(), "uncommitted bytes left")
	})
	return f
}

func (f *fixture) record() *store.Record {
	f.now++
	return &store.Record{Topic: "in", Offset: f.now - 1000, Timestamp: f.now}
}

func (f *fixture) write(key, value string) {
	f.t.Helper()
	require.NoError(f.t, f.Put([]byte(key), store.Row{Value: []byte(value), Timestamp: f.now}, f.record()))
}

func (f *fixture) delete(key string) {
	f.t.Helper()
	require.NoError(f.t, f.Put([]byte(key), store.Row{}, f.record()))
}

func (f *fixture) commit() {
	f.t.Helper()
	require.NoError(f.t, f.Commit(context.Background()))
}

func (f *fixture) get(key string) string { return getFrom(f.t, f, key) }

type getter interface {
	Get([]byte, *[]byte) (store.Row, bool, error)
}

func getFrom(t *testing.T, g getter, key string) string {
	t.Helper()
	var scratch []byte
	row, ok, err := g.Get([]byte(key), &scratch)
	require.NoError(t, err)
	if !ok {
		return "-"
	}
	return string(row.Value)
}

func rows(t *testing.T, c base.Cursor) (out []string) {
	t.Helper()
	for c.Next() {
		out = append(out, show(c.Key(), *c.Row()))
	}
	require.NoError(t, c.Err())
	c.Close()
	return out
}

func (f *fixture) all(reverse bool) []string {
	f.t.Helper()
	return rows(f.t, f.Scan(base.Span{Reverse: reverse}))
}

func modes(t *testing.T, run func(t *testing.T, cache bool)) {
	for _, cache := range []bool{false, true} {
		t.Run(fmt.Sprintf("cache=%v", cache), func(t *testing.T) { run(t, cache) })
	}
}

func TestUncommittedRowsAreSeenAndAbortDropsThem(t *testing.T) {
	modes(t, func(t *testing.T, cache bool) {
		f := newFixture(t, cache, store.NewBudget(1<<20))
		f.write("a", "1")
		f.write("b", "1")
		f.commit()
		f.write("a", "2")
		f.delete("b")
		f.write("c", "2")
		require.Equal(t, []string{"a=2", "c=2"}, f.all(false))
		f.Abort()
		require.Equal(t, []string{"a=1", "b=1"}, f.all(false))
		require.Equal(t, "1", f.get("a"))
		require.Equal(t, "-", f.get("c"))
		c, _ := f.table.Checkpoint()
		offset, _ := c.Position.Offset("in", 0)
		require.EqualValues(t, 2, offset, "an abort takes the position back")
		f.commit()
		require.Equal(t, []string{"a=1", "b=1"}, f.all(false))
	})
}

// A tombstone in the overlay hides the table's row whichever way a scan runs, also when
// the table's next key lies beyond it.
func TestTombstoneHidesTableRowInBothDirections(t *testing.T) {
	modes(t, func(t *testing.T, cache bool) {
		f := newFixture(t, cache, store.NewBudget(1<<20))
		for _, k := range []string{"a", "b", "c", "d"} {
			f.write(k, "1")
		}
		f.commit()
		f.delete("b")
		f.delete("d")
		f.delete("x") // never stored
		f.write("bb", "2")
		require.Equal(t, []string{"a=1", "bb=2", "c=1"}, f.all(false))
		require.Equal(t, []string{"c=1", "bb=2", "a=1"}, f.all(true))
		require.Equal(t, []string{"bb=2"}, rows(t, f.Scan(base.Span{From: []byte("b"), To: []byte("bb"), Reverse: true})))
		require.Equal(t, []string{"a=1"}, rows(t, f.Scan(base.Span{To: []byte("b"), Reverse: true})))
		require.Equal(t, []string{"a=1"}, rows(t, f.Scan(base.Span{To: []byte("bb"), Exclusive: true, Reverse: true})))
		require.Equal(t, []string{"c=1"}, rows(t, f.Scan(base.Span{From: []byte("c")})))
	})
}

func TestDeletedKeyDoesNotReappear(t *testing.T) {
	modes(t, func(t *testing.T, cache bool) {
		f := newFixture(t, cache, store.NewBudget(1<<20))
		f.write("a", "1")
		f.commit()
		f.delete("a")
		require.NoError(t, f.Flush(context.Background()))
		require.Equal(t, "-", f.get("a"))
		require.Empty(t, f.all(true))
		f.commit()
		require.Equal(t, "-", f.get("a"))
		require.Empty(t, f.all(false))
	})
}

// A key that is written again after its tombstone was flushed keeps its new row.
func TestReputAfterFlushedTombstone(t *testing.T) {
	f := newFixture(t, true, store.NewBudget(1<<20))
	f.write("a", "1")
	f.commit()
	f.delete("a")
	require.NoError(t, f.Flush(context.Background()))
	f.write("a", "2")
	require.Equal(t, "2", f.get("a"))
	f.commit()
	require.Equal(t, []string{"a=1", "a", "a=2"}, f.log.take())
	require.Equal(t, "2", f.get("a"))
}

func TestWithoutCacheEveryPutIsLogged(t *testing.T) {
	f := newFixture(t, false, store.NewBudget(0))
	f.write("a", "1")
	f.write("a", "2")
	f.delete("a")
	require.Equal(t, []string{"a=1", "a=2", "a"}, f.log.take())
}

// Between two flushes the log gets one record per key, in the order of its last write.
func TestCacheLogsLastWritesInOrder(t *testing.T) {
	f := newFixture(t, true, store.NewBudget(1<<20))
	f.write("a", "1")
	f.write("b", "1")
	f.write("c", "1")
	f.write("a", "2")
	f.delete("c")
	f.get("b") // reading does not change the order of writes
	require.Empty(t, f.log.take())
	f.commit()
	require.Equal(t, []string{"b=1", "a=2", "c"}, f.log.take())
	f.commit()
	require.Empty(t, f.log.take(), "nothing is flushed twice")
}

// When the budget is exceeded, the least recently used row goes: a dirty one is flushed
// first, and all other dirty rows after it.
func TestEviction(t *testing.T) {
	one := (&entry{key: "a", row: store.Row{Value: []byte("1")}}).size()
	f := newFixture(t, true, store.NewBudget(3*one))
	f.write("a", "1")
	f.write("b", "1")
	f.write("c", "1")
	f.get("a") // now b is the oldest
	require.Empty(t, f.log.take())
	f.write("d", "1")
	require.Equal(t, []string{"b=1", "a=1", "c=1", "d=1"}, f.log.take())
	require.Equal(t, []string{"a=1", "b=1", "c=1", "d=1"}, f.all(false))
	f.commit()
	require.LessOrEqual(t, f.config.Budget.CacheUsed(), 3*one, "clean rows fit in the budget")
	require.Equal(t, "1", f.get("d"))
}

func TestCacheKeepsReadRowsAndAbsence(t *testing.T) {
	f := newFixture(t, true, store.NewBudget(1<<20))
	row := store.Row{Value: []byte("1")}
	require.NoError(t, f.table.Commit([]store.Change{{Key: []byte("a"), Row: row}}, base.Checkpoint{}))
	require.Equal(t, "1", f.get("a"))
	require.Equal(t, "-", f.get("b"))
	require.NoError(t, f.table.Commit(nil, base.Checkpoint{}))
	require.Len(t, f.entries, 2)
	f.write("b", "2")
	require.Equal(t, "2", f.get("b"))
	require.Equal(t, []string{"a=1", "b=2"}, f.all(false))
	f.commit()
	require.Equal(t, []string{"b=2"}, f.log.take())
}

func TestFailedLogStagesNothing(t *testing.T) {
	f := newFixture(t, false, store.NewBudget(0))
	f.write("a", "1")
	f.commit()
	f.log.fail = errors.New("no broker")
	require.ErrorIs(t, f.Put([]byte("a"), store.Row{Value: []byte("2")}, f.record()), f.log.fail)
	require.Equal(t, "1", f.get("a"))
	require.ErrorIs(t, f.Commit(context.Background()), f.log.fail)
}

func TestFailedCommitCanBeRepeatedOrAborted(t *testing.T) {
	modes(t, func(t *testing.T, cache bool) {
		f := newFixture(t, cache, store.NewBudget(1<<20))
		f.write("a", "1")
		f.commit()
		f.write("a", "2")
		f.table.fail = errors.New("disk full")
		require.ErrorIs(t, f.Commit(context.Background()), f.table.fail)
		require.Equal(t, "2", f.get("a"))
		f.table.fail = nil
		f.commit()
		require.Equal(t, "2", getFrom(t, f.table, "a"))
		f.write("a", "3")
		f.table.fail = errors.New("disk full")
		require.Error(t, f.Commit(context.Background()))
		f.Abort()
		require.Equal(t, "2", f.get("a"))
	})
}

func TestEarlyCommitIsAskedFor(t *testing.T) {
	modes(t, func(t *testing.T, cache bool) {
		f := newFixture(t, cache, store.NewBudget(1<<20, store.Uncommitted(1000)))
		f.write("a", "1")
		require.False(t, f.NeedsCommit())
		for i := range 20 {
			f.write(fmt.Sprint(i), "1")
		}
		require.True(t, f.NeedsCommit())
		f.commit()
		require.False(t, f.NeedsCommit())
		require.Zero(t, f.config.Budget.UncommittedUsed())
	})
}

func TestCheckpointFollowsCommits(t *testing.T) {
	f := newFixture(t, false, store.NewBudget(0))
	f.commit()
	c, known := f.table.Checkpoint()
	require.False(t, known)
	require.Equal(t, store.UnknownOffset, c.Offset, "a logged store says that its offset is unknown")
	f.write("a", "1")
	require.NoError(t, f.Put([]byte("b"), store.Row{Value: []byte("1")}, &store.Record{Topic: "in", Partition: 1, Offset: 7, Timestamp: 5}))
	require.NoError(t, f.Put([]byte("c"), store.Row{Value: []byte("1")}, &store.Record{Topic: "", Offset: 9, Timestamp: 5}))
	f.commit()
	c, known = f.table.Checkpoint()
	require.True(t, known)
	require.EqualValues(t, 2, c.Offset)
	require.Equal(t, "{in-0:1 in-1:7}", c.Position.String())
}

func TestRestoreKeepsTheLastOfEachKeySorted(t *testing.T) {
	f := newFixture(t, false, store.NewBudget(0))
	change := func(k, v string) store.Change {
		c := store.Change{Key: []byte(k)}
		if v != "" {
			c.Value = []byte(v)
		}
		return c
	}
	require.NoError(t, f.Restore([]store.Change{change("b", "1"), change("a", "1"), change("b", "2"), change("abcdefgh2", "1"), change("abcdefgh1", "1"), change("a", ""), change("x", "")}, 41))
	require.Equal(t, []string{"abcdefgh1=1", "abcdefgh2=1", "b=2"}, f.all(false))
	c, known := f.table.Checkpoint()
	require.True(t, known)
	require.EqualValues(t, 41, c.Offset)
	require.Empty(t, f.log.take(), "a restore is not logged")
	f.write("c", "1")
	require.Error(t, f.Restore(nil, 42), "uncommitted rows are in the way")
}

func TestViews(t *testing.T) {
	modes(t, func(t *testing.T, cache bool) {
		f := newFixture(t, cache, store.NewBudget(1<<20))
		committed, uncommitted := f.View(false), f.View(true)
		f.write("a", "1")
		f.commit()
		f.write("a", "2")
		f.write("b", "2")
		require.Equal(t, "1", getFrom(t, committed, "a"))
		require.Equal(t, "2", getFrom(t, uncommitted, "a"))
		require.Equal(t, []string{"a=1"}, rows(t, committed.Scan(base.Span{})))
		require.Equal(t, []string{"b=2", "a=2"}, rows(t, uncommitted.Scan(base.Span{Reverse: true})))
		before := uncommitted.Scan(base.Span{})
		f.write("a", "3")
		f.delete("b")
		f.commit()
		require.Equal(t, []string{"a=2", "b=2"}, rows(t, before), "a scan sees one moment")
		require.Equal(t, []string{"a=3"}, rows(t, uncommitted.Scan(base.Span{})))
	})
}

// What can never be logged is refused when it is put, also when a cache would hold it back:
// later it would bar every commit.
func TestUnloggableWritesAreRefusedAtOnce(t *testing.T) {
	modes(t, func(t *testing.T, cache bool) {
		f := newFixture(t, cache, store.NewBudget(1<<20))
		f.write("a", "1")
		no := &store.Record{Timestamp: store.NoTimestamp}
		require.ErrorIs(t, f.Put([]byte("b"), store.Row{}, no), store.ErrNegativeTimestamp)
		bad := store.HeadersFromBlock([]byte{0})
		require.Error(t, f.Put([]byte("b"), store.Row{Value: []byte("1"), Timestamp: 1, Headers: bad}, f.record()))
		require.Error(t, f.PutAll([]store.Change{{Key: []byte("b")}}, no))
		f.commit()
		require.Equal(t, []string{"a=1"}, f.all(false))
	})
}

// A row that cannot be logged while the cache makes room is the next flush's error, not
// that of another key's reader or writer, and a put that returns an error is not stored.
func TestEvictionErrorsAreTheFlushs(t *testing.T) {
	f := newFixture(t, true, store.NewBudget(1))
	f.log.fail = errors.New("no broker")
	f.write("a", "1")
	f.write("b", "1")
	require.Equal(t, "-", f.get("c"))
	require.ErrorIs(t, f.Commit(context.Background()), f.log.fail)
	f.log.fail = nil
	f.commit()
	require.Equal(t, []string{"a=1", "b=1"}, f.all(false))
}
