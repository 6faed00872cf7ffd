package windowed_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/store"
	"github.com/forebay-streams/forebay/windowed"
)

func TestOptionsAreChecked(t *testing.T) {
	minute := time.Minute
	for _, c := range []struct {
		name    string // what the message must hold
		options []windowed.Option
	}{
		{"Size", []windowed.Option{windowed.Retention(minute)}},
		{"Retention", []windowed.Option{windowed.Size(minute)}},
		{"Size(-1m0s)", []windowed.Option{windowed.Size(-minute), windowed.Retention(minute)}},
		{"Retention(-1m0s)", []windowed.Option{windowed.Size(minute), windowed.Retention(-minute)}},
		{"less than Size(1m0s)", []windowed.Option{windowed.Size(minute), windowed.Retention(minute - time.Millisecond)}},
		{"whole milliseconds", []windowed.Option{windowed.Size(1500 * time.Microsecond), windowed.Retention(minute)}},
		{"Retention(1m0.000000001s)", []windowed.Option{windowed.Size(minute), windowed.Retention(minute + 1)}},
		{"SegmentInterval", defaults(windowed.SegmentInterval(0))},
		{"SegmentInterval", defaults(windowed.SegmentInterval(-minute))},
		{"TimeOrdered and InMemory", defaults(windowed.TimeOrdered(true), windowed.InMemory())},
		{"plain", defaults(windowed.TimeOrdered(true), windowed.Format(store.Plain))},
		{"aggregation", defaults(windowed.Format(store.Aggregation))},
		{"budget", defaults(windowed.Cache(nil))},
	} {
		dir := taskDir(t)
		_, err := windowed.Open(dir, "store", store.String(), store.String(), c.options...)
		require.ErrorIs(t, err, store.ErrConfig, c.name)
		require.ErrorContains(t, err, c.name)
		require.ErrorContains(t, err, `store "store"`)
		require.NoDirExists(t, dir)
	}
	_, err := windowed.Open("", "store", store.String(), store.String(), defaults()...)
	require.ErrorIs(t, err, store.ErrConfig)
}

// ksql #3009: a window of a day or more.
func TestLongWindows(t *testing.T) {
	for _, options := range [][]windowed.Option{{}, {windowed.InMemory()}} {
		days := 400 * 24 * time.Hour
		s, err := windowed.Open(taskDir(t), "store", store.String(), store.String(),
			append(options, windowed.Size(days), windowed.Retention(2*days))...)
		require.NoError(t, err)
		require.NoError(t, s.Put("a", 1, value("x", 1)))
		require.NoError(t, s.Put("a", 2*days.Milliseconds(), value("y", 1)))
		for row, err := range s.FetchRange("a", 0, math.MaxInt64) {
			require.NoError(t, err)
			require.Equal(t, row.Start+days.Milliseconds(), row.End)
		}
		require.Len(t, collect(t, sequence(s.All())), 2)
		require.NoError(t, s.Close())
	}
}

// The table of reads and writes around retention.
func TestRetention(t *testing.T) {
	const hour = 3_600_000
	for _, c := range []struct {
		stream                    int64
		dropped                   []int64 // starts
		kept                      []int64
		hidden, hiddenWhenOrdered []int64
	}{
		{0, nil, []int64{0}, nil, nil},
		{hour, nil, []int64{0, 1}, []int64{0}, nil},
		{5_399_999, nil, []int64{0, 1_799_999, 1_800_000}, []int64{0, 1_799_999}, []int64{0}},
		{5_400_000, []int64{0, 1_799_999}, []int64{1_800_000, 1_800_001}, []int64{1_800_000}, nil},
	} {
		for _, ordered := range []bool{false, true} {
			options := []windowed.Option{windowed.Size(time.Minute), windowed.Retention(time.Hour), windowed.Format(store.Timestamped)}
			hidden := c.hidden
			if ordered {
				options = append(options, windowed.TimeOrdered(true))
				hidden = c.hiddenWhenOrdered
			}
			s, err := windowed.Open(taskDir(t), "store", store.String(), store.String(), options...)
			require.NoError(t, err)
			require.NoError(t, s.Put("now", c.stream, value("v", 1)))
			for _, start := range append(c.dropped, c.kept...) {
				require.NoError(t, s.Put("k", start, value("v", 1)))
			}
			assert.EqualValues(t, len(c.dropped), s.Dropped(), c.stream)
			shown := map[int64]bool{}
			for row, err := range s.FetchRange("k", 0, math.MaxInt64) {
				require.NoError(t, err)
				shown[row.Start] = true
			}
			for _, start := range c.kept {
				want := true
				for _, h := range hidden {
					want = want && h != start
				}
				_, ok, err := s.Fetch("k", start)
				require.NoError(t, err)
				assert.Equal(t, want, ok, "%d at %d, ordered %v", start, c.stream, ordered)
				assert.Equal(t, want, shown[start])
			}
			require.NoError(t, s.Close())
		}
	}
}

func TestDroppedRowsAreCountedLoggedAndReported(t *testing.T) {
	var out bytes.Buffer
	old := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	defer slog.SetDefault(old)
	for _, options := range [][]windowed.Option{{}, {windowed.Cache(store.NewBudget(1 << 20))}, {windowed.InMemory()}} {
		out.Reset()
		l := &log{}
		s := open(t, taskDir(t), append(options, windowed.Changelog(l))...)
		s.SetRecord(record(1, 1))
		require.NoError(t, s.Put("a", 1_000_000, value("new", 1)))
		require.NoError(t, s.Commit(ctx))
		s.SetRecord(record(2, 2))
		require.NoError(t, s.Put("a", 1000, value("late", 7)))
		require.NoError(t, s.Tombstone("a", 2000))
		require.NoError(t, s.Commit(ctx))
		require.EqualValues(t, 2, s.Dropped())
		require.Equal(t, []string{"a@1000000=new"}, collect(t, sequence(s.All())))
		require.Len(t, l.changes, 3, "the changelog has them all the same")
		require.EqualValues(t, 7, l.changes[1].Timestamp)
		require.True(t, l.changes[2].Tombstone())
		require.Equal(t, 1, strings.Count(out.String(), "\n"), out.String())
		require.Contains(t, out.String(), "store=store")
		require.NoError(t, s.Close())
	}
}

func TestThePositionAdvancesByStoredRows(t *testing.T) {
	for _, c := range []struct {
		options []windowed.Option
		want    int64
	}{{nil, 1}, {[]windowed.Option{windowed.Cache(store.NewBudget(1 << 20))}, 1}, {[]windowed.Option{windowed.InMemory()}, 2}} {
		s := open(t, taskDir(t), c.options...)
		s.SetRecord(record(1, 1))
		require.NoError(t, s.Put("a", 1_000_000, value("new", 1)))
		s.SetRecord(record(2, 2))
		require.NoError(t, s.Put("a", 1000, value("late", 7)))
		require.NoError(t, s.Commit(ctx))
		offset, ok := s.Position().Offset("in", 0)
		require.True(t, ok)
		require.Equal(t, c.want, offset)
		require.NoError(t, s.Close())
	}
}

func TestStreamTimeAfterRestartAndAbort(t *testing.T) {
	dir := taskDir(t)
	s := open(t, dir)
	require.NoError(t, s.Put("old", 0, value("1", 1)))
	require.NoError(t, s.Put("now", 130_000, value("2", 1)))
	require.NoError(t, s.Commit(ctx))
	require.Equal(t, []string{"now@130000=2"}, collect(t, sequence(s.All())))

	committed := s.View(store.ReadCommitted)
	require.NoError(t, s.Put("far", 10_000_000, value("3", 1)))
	require.Equal(t, []string{"far@10000000=3"}, collect(t, sequence(s.All())))
	require.Equal(t, []string{"now@130000=2"}, collect(t, sequence(committed.All())), "nothing has expired yet for others")
	s.Abort()
	require.EqualValues(t, 130_000, s.StreamTime())
	require.Equal(t, []string{"now@130000=2"}, collect(t, sequence(s.All())))
	require.NoError(t, s.Put("again", 20_000, value("4", 1)), "replayed rows are not late")
	require.Zero(t, s.Dropped())
	s.Abort()

	require.NoError(t, s.Close())
	s = open(t, dir)
	require.EqualValues(t, -1, s.StreamTime())
	require.Equal(t, []string{"old@0=1", "now@130000=2"}, collect(t, sequence(s.All())), "visible until the first write")
	require.NoError(t, s.Put("now", 185_000, value("5", 1)))
	require.NoError(t, s.Commit(ctx))
	require.Equal(t, []string{"now@130000=2", "now@185000=5"}, collect(t, sequence(s.All())))
	require.NoDirExists(t, filepath.Join(dir, "store", "store.0"))
}

func TestSequencesFollowAborts(t *testing.T) {
	for _, options := range [][]windowed.Option{{}, {windowed.TimeOrdered(true)}} {
		l := &log{}
		s := open(t, taskDir(t), append(options, windowed.RetainDuplicates(), windowed.Changelog(l))...)
		s.SetRecord(record(1, 1))
		require.NoError(t, s.Put("a", 5000, value("1", 1)))
		require.NoError(t, s.Tombstone("a", 5000)) // logged, and nothing else
		require.NoError(t, s.Commit(ctx))
		require.NoError(t, s.Put("a", 5000, value("2", 1)))
		s.Abort()
		require.NoError(t, s.Put("a", 5000, value("3", 1)))
		require.Equal(t, []string{"a@5000=1", "a@5000=3"}, collect(t, sequence(s.FetchRange("a", 0, 9000))))
		require.Equal(t, []string{"a@5000=3", "a@5000=1"}, collect(t, sequence(s.BackwardFetchRange("a", 0, 9000))))
		v, ok, err := s.Fetch("a", 5000)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, "3", v.Data)
		var last []byte
		for _, c := range l.changes {
			last = append(last, c.Key[len(c.Key)-1])
		}
		require.Equal(t, []byte{1, 2, 3, 3}, last)
		require.NoError(t, s.Close())
	}
}

func TestEndsOfTime(t *testing.T) {
	for _, options := range [][]windowed.Option{{}, {windowed.InMemory()}, {windowed.TimeOrdered(true)}, {windowed.Cache(store.NewBudget(1 << 20))}} {
		s := open(t, taskDir(t), options...)
		require.ErrorIs(t, s.Put("a", -1, value("x", 1)), store.ErrNegativeTimestamp)
		require.ErrorIs(t, s.Tombstone("a", math.MinInt64), store.ErrNegativeTimestamp)
		require.NoError(t, s.Put("a", 0, value("x", 1)))
		for range 2 { // uncommitted and committed
			require.Equal(t, []string{"a@0=x"}, collect(t, sequence(s.FetchRange("a", -5, math.MaxInt64))))
			require.Equal(t, []string{"a@0=x"}, collect(t, sequence(s.FetchAll(math.MinInt64, math.MaxInt64))))
			require.Empty(t, collect(t, sequence(s.FetchRange("a", 10, 5))))
			require.Empty(t, collect(t, sequence(s.FetchRange("a", 0, -5))))
			require.Empty(t, collect(t, sequence(s.FetchKeys(0, 5, windowed.From("b"), windowed.To("a")))))
			_, ok, err := s.Fetch("a", -1)
			require.NoError(t, err)
			require.False(t, ok)
			require.NoError(t, s.Commit(ctx))
		}
		require.NoError(t, s.Put("a", math.MaxInt64, value("end", 1)))
		require.NoError(t, s.Commit(ctx))
		for row, err := range s.All() {
			require.NoError(t, err)
			require.EqualValues(t, math.MaxInt64, row.Start)
			require.EqualValues(t, math.MaxInt64, row.End)
		}
		require.Equal(t, []string{"a@9223372036854775807=end"}, collect(t, sequence(s.FetchRange("a", 0, math.MaxInt64))))
		require.Empty(t, collect(t, sequence(s.FetchRange("a", 0, math.MaxInt64-1))))
		require.NoError(t, s.Close())
	}
}

func TestWindowsOfOneMoment(t *testing.T) {
	s, err := windowed.Open(taskDir(t), "store", store.String(), store.String(), windowed.Size(0), windowed.Retention(time.Minute))
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.Put("a", 5, value("x", 1)))
	for row, err := range s.All() {
		require.NoError(t, err)
		require.Equal(t, row.Start, row.End)
	}
}

// KAFKA-5771: segments are made out of order.
func TestRowsOfSegmentsMadeOutOfOrder(t *testing.T) {
	for _, commit := range []bool{false, true} {
		s := open(t, taskDir(t))
		for _, start := range []int64{125_000, 5_000, 65_000} {
			require.NoError(t, s.Put("k", start, value("v", 1)))
			if commit {
				require.NoError(t, s.Commit(ctx))
			}
		}
		require.Equal(t, []string{"k@65000=v", "k@125000=v"}, collect(t, sequence(s.FetchAll(5_001, math.MaxInt64))))
		require.NoError(t, s.Close())
	}
}

// KAFKA-20262, KAFKA-20798: a tombstone has a copy of the record's headers, and a key serde
// sees the headers of the row that it reads.
func TestHeadersOfTombstonesAndKeys(t *testing.T) {
	for _, options := range [][]windowed.Option{{}, {windowed.Cache(store.NewBudget(1 << 20))}, {windowed.TimeOrdered(true)}} {
		l := &log{}
		s, err := windowed.Open(taskDir(t), "store", store.Serde[string](schemaKey{}), store.String(), defaults(append(options, windowed.Changelog(l))...)...)
		require.NoError(t, err)
		r := record(1, 9, "trace", "1")
		s.SetRecord(r)
		require.NoError(t, s.Put("a", 5000, value("x", 1)))
		require.Equal(t, []string{"a@5000=x"}, collect(t, sequence(s.All())))
		require.NoError(t, s.Tombstone("b", 5000))
		require.NoError(t, s.Commit(ctx))
		_ = r.Headers.Add("later", nil)
		require.Equal(t, []string{"a@5000=x"}, collect(t, sequence(s.View(store.ReadCommitted).All())))
		require.Len(t, l.changes, 2)
		require.Equal(t, 1, l.changes[0].Headers.Len(), "what the key serde added")
		last := l.changes[1]
		require.True(t, last.Tombstone())
		require.EqualValues(t, 9, last.Timestamp)
		require.Equal(t, 2, last.Headers.Len())
		h, ok := last.Headers.Last("trace")
		require.True(t, ok)
		require.Equal(t, "1", string(h.Value))
		require.NoError(t, s.Close())

		restored, err := windowed.Open(taskDir(t), "store", store.Serde[string](schemaKey{}), store.String(), defaults(options...)...)
		require.NoError(t, err)
		require.NoError(t, restored.RestoreBatch(l.changes, 1))
		require.Equal(t, []string{"a@5000=x"}, collect(t, sequence(restored.All())))
		require.NoError(t, restored.Close())
	}
}

// schemaKey keeps a schema id in the headers, without which it cannot read.
type schemaKey struct{}

func (schemaKey) Serialize(_ string, h *store.Headers, v string) ([]byte, error) {
	return []byte(v), h.Add("schema", []byte("7"))
}

func (schemaKey) Deserialize(_ string, h *store.Headers, b []byte) (string, error) {
	if _, ok := h.Last("schema"); !ok {
		return "", fmt.Errorf("no schema id beside key %q", b)
	}
	return string(b), nil
}

// KAFKA-20760: the position of views moves with the commit.
func TestPositionMovesAtCommit(t *testing.T) {
	s := open(t, taskDir(t))
	s.SetRecord(record(3, 1))
	require.NoError(t, s.Put("a", 5000, value("x", 1)))
	require.True(t, s.Position().Empty())
	s.Abort()
	require.True(t, s.Position().Empty())
}

func TestDirectories(t *testing.T) {
	dir := taskDir(t)
	s := open(t, dir)
	require.NoError(t, s.Put("a", 65_000, value("x", 1)))
	require.NoError(t, s.Commit(ctx))
	require.NoError(t, s.Close())
	path := filepath.Join(dir, "store")
	require.DirExists(t, filepath.Join(path, "store.60000"))
	require.NoError(t, os.Rename(filepath.Join(path, "store.60000"), filepath.Join(path, "store-197001010001")))
	require.NoError(t, os.WriteFile(filepath.Join(path, "notes.txt"), []byte("foreign"), 0o644))
	s = open(t, dir)
	require.Equal(t, []string{"a@65000=x"}, collect(t, sequence(s.All())))
	require.NoError(t, s.Close())
	require.DirExists(t, filepath.Join(path, "store.60000"))
	require.FileExists(t, filepath.Join(path, "notes.txt"))

	_, err := windowed.Open(dir, "store", store.String(), store.String(), defaults(windowed.SegmentInterval(7*time.Second))...)
	require.ErrorIs(t, err, store.ErrTaskCorrupted)
	_, err = windowed.Open(dir, "store", store.String(), store.String(), defaults(windowed.Format(store.Timestamped))...)
	require.ErrorIs(t, err, store.ErrIncompatible, "a format cannot be left")
	_, err = windowed.Open(dir, "store", store.String(), store.String(), defaults(windowed.TimeOrdered(true))...)
	require.ErrorIs(t, err, store.ErrIncompatible)
}

// One batch: what is late is judged by the newest row of the batch on disk, row by row in
// memory.
func TestRestoreJudgesByBatch(t *testing.T) {
	l := &log{}
	s, err := windowed.Open(taskDir(t), "store", store.String(), store.String(), windowed.Size(time.Minute), windowed.Retention(time.Hour), windowed.Changelog(l))
	require.NoError(t, err)
	s.SetRecord(record(1, 1))
	for _, start := range []int64{0, 5_400_000, 1_800_000} {
		require.NoError(t, s.Put("k", start, value("v", 1)))
	}
	require.NoError(t, s.Close())
	for _, c := range []struct {
		memory  bool
		dropped int64
		stored  int64
	}{{false, 0, 2}, {true, 1, 1}} {
		options := []windowed.Option{windowed.Size(time.Minute), windowed.Retention(time.Hour)}
		if c.memory {
			options = append(options, windowed.InMemory())
		}
		s, err := windowed.Open(taskDir(t), "store", store.String(), store.String(), options...)
		require.NoError(t, err)
		require.NoError(t, s.RestoreBatch(l.changes, 2))
		assert.Equal(t, []string{"k@5400000=v"}, collect(t, sequence(s.All())))
		assert.Equal(t, c.dropped, s.Dropped())
		n, err := s.ApproximateCount()
		require.NoError(t, err)
		assert.Equal(t, c.stored, n)
		require.EqualValues(t, 5_400_000, s.StreamTime())
		s.Abort()
		require.EqualValues(t, 5_400_000, s.StreamTime(), "restored rows are committed")
		require.ErrorIs(t, s.RestoreBatch([]store.Change{{Key: []byte("short")}}, 3), store.ErrCorrupt)
		require.NoError(t, s.Close())
	}
}

func TestScansEndWithBreakAndClose(t *testing.T) {
	s := open(t, taskDir(t))
	for i := range int64(4) {
		require.NoError(t, s.Put("k", i*interval/2, value("v", 1)))
	}
	require.NoError(t, s.Commit(ctx))
	for range s.All() {
		require.EqualValues(t, 1, s.OpenScans())
		break
	}
	require.Zero(t, s.OpenScans())
	seen := 0
	for _, err := range s.All() {
		if err != nil {
			require.ErrorIs(t, err, store.ErrClosed)
			continue
		}
		if seen++; seen == 1 {
			require.NoError(t, s.Close())
		}
	}
	for _, err := range s.All() {
		require.ErrorIs(t, err, store.ErrClosed)
	}
	require.ErrorIs(t, s.Put("k", 1, value("v", 1)), store.ErrClosed)
	_, _, err := s.View(store.ReadCommitted).Fetch("k", 1)
	require.ErrorIs(t, err, store.ErrClosed)
}
