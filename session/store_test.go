package session_test

import (
	"bytes"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/formatdoc"
	"github.com/forebay-streams/forebay/session"
	"github.com/forebay-streams/forebay/store"
)

func TestOptionsAreChecked(t *testing.T) {
	minute := time.Minute
	for _, c := range []struct {
		name    string // what the message must hold
		options []session.Option
	}{
		{"Retention", nil},
		{"Retention(-1m0s)", []session.Option{session.Retention(-minute)}},
		{"whole milliseconds", []session.Option{session.Retention(minute + 1)}},
		{"SegmentInterval", defaults(session.SegmentInterval(0))},
		{"SegmentInterval", defaults(session.SegmentInterval(-minute))},
		{"TimeOrdered and InMemory", defaults(session.TimeOrdered(true), session.InMemory())},
		{"timestamped", defaults(session.Format(store.Timestamped))},
		{"timestamped", defaults(session.Format(store.Timestamped), session.TimeOrdered(true))},
		{"budget", defaults(session.Cache(nil))},
	} {
		dir := taskDir(t)
		_, err := session.Open(dir, "store", store.String(), store.String(), c.options...)
		require.ErrorIs(t, err, store.ErrConfig, c.name)
		require.ErrorContains(t, err, c.name)
		require.ErrorContains(t, err, `store "store"`)
		require.NoDirExists(t, dir)
	}
	_, err := session.Open("", "store", store.String(), store.String(), defaults()...)
	require.ErrorIs(t, err, store.ErrConfig)
}

func TestTimesOfASession(t *testing.T) {
	s := open(t, taskDir(t))
	for _, c := range [][2]int64{{-1, 5}, {6, 5}, {-5, -1}} {
		require.ErrorIs(t, s.Put("A", c[0], c[1], value("x")), session.ErrTimes)
		require.ErrorIs(t, s.Remove("A", c[0], c[1]), session.ErrTimes)
		_, ok, err := s.FetchSession("A", c[0], c[1])
		require.NoError(t, err)
		require.False(t, ok)
	}
	require.EqualValues(t, -1, s.StreamTime())
	require.NoError(t, s.Put("A", 5, 5, value("x")))
	require.NoError(t, s.Put("A", 0, math.MaxInt64, value("x")))
	require.Equal(t, []string{"A[0,9223372036854775807]"}, collect(t, sequence(s.Fetch("A"))))
}

// everyKind runs on each kind of store, cached and not.
func everyKind(t *testing.T, run func(t *testing.T, name string, options []session.Option)) {
	names := map[string][]session.Option{"memory": {session.InMemory()}}
	for name, kind := range kinds {
		names[name] = kind.options
	}
	for name, options := range names {
		t.Run(name, func(t *testing.T) { run(t, name, options) })
		t.Run(name+" cached", func(t *testing.T) {
			run(t, name, append(options[:len(options):len(options)], session.Cache(store.NewBudget(1<<20))))
		})
	}
}

// The table of stream times, and the two clocks of retention: reads go by the
// millisecond, writes by the segment.
func TestRetention(t *testing.T) {
	everyKind(t, func(t *testing.T, name string, options []session.Option) {
		for _, row := range formatdoc.Rows(t, "session.md", "session_times", 3) {
			stream, live, shown := formatdoc.Int(t, row[0]), formatdoc.Int(t, row[1])*1_800_000, formatdoc.Int(t, row[2])
			if stream < 0 {
				continue
			}
			s, err := session.Open(taskDir(t), "store", store.String(), store.String(), append(options[:len(options):len(options)], session.Retention(time.Hour))...)
			require.NoError(t, err)
			require.NoError(t, s.Put("now", stream, stream, value("v")))
			if name == "memory" {
				live = stream - 3_600_000 + 1
			}
			for _, end := range []int64{live - 1, live, shown - 1, shown} {
				if end < 0 {
					continue
				}
				dropped := s.Dropped()
				require.NoError(t, s.Put("k", end, end, value("v")))
				require.Equal(t, end < live, s.Dropped() > dropped, "%d at %d", end, stream)
				_, ok, err := s.FetchSession("k", end, end)
				require.NoError(t, err)
				require.Equal(t, end >= shown && end >= live, ok, "%d at %d", end, stream)
				found := collect(t, sequence(s.FindSessions("k", end, end)))
				require.Equal(t, ok, len(found) > 0, "%d at %d", end, stream)
			}
			require.NoError(t, s.Close())
		}
	})
}

// Sessions of one segment, in the order of each store.
func TestOrder(t *testing.T) {
	everyKind(t, func(t *testing.T, name string, options []session.Option) {
		s := open(t, taskDir(t), options...)
		for _, r := range []struct {
			key        string
			start, end int64
		}{{"A", 0, 10}, {"A\x00", 0, 0}, {"A", 5, 10}, {"AB", 0, 0}, {"A", 0, 0}, {"A\x00", 0, 5000}, {"A", 5000, 70_000}} {
			require.NoError(t, s.Put(r.key, r.start, r.end, value("v")))
		}
		one := []string{"A[0,0]", "A[0,10]", "A[5,10]", "A[5000,70000]"}
		all := []string{"A[0,0]", "A\x00[0,0]", "A[0,10]", "A[5,10]", "A\x00[0,5000]", "AB[0,0]", "A[5000,70000]"}
		switch name {
		case "memory":
			one = []string{"A[0,0]", "A[5,10]", "A[0,10]", "A[5000,70000]"}
			all = []string{"A[0,0]", "A\x00[0,0]", "AB[0,0]", "A[5,10]", "A[0,10]", "A\x00[0,5000]", "A[5000,70000]"}
		case "noindex":
			all = []string{"A[0,0]", "A\x00[0,0]", "AB[0,0]", "A[0,10]", "A[5,10]", "A\x00[0,5000]", "A[5000,70000]"}
		}
		for range 2 { // uncommitted, then committed
			require.Equal(t, one, collect(t, sequence(s.Fetch("A"))))
			require.Equal(t, backward(one), collect(t, sequence(s.BackwardFetch("A"))))
			require.Equal(t, all, collect(t, sequence(s.FetchKeys())))
			require.Equal(t, backward(all), collect(t, sequence(s.BackwardFetchKeys())))
			// A key that begins the last one is in the range.
			require.Contains(t, collect(t, sequence(s.FetchKeys(session.To("A\x00")))), "A[5000,70000]")
			require.NoError(t, s.Commit(ctx))
		}
	})
}

func backward(list []string) (out []string) {
	for i := range list {
		out = append(out, list[len(list)-1-i])
	}
	return out
}

// Both times of a find are included; the second may lie before the first.
func TestFindSessions(t *testing.T) {
	everyKind(t, func(t *testing.T, _ string, options []session.Option) {
		s, err := session.Open(taskDir(t), "store", store.String(), store.String(), append(options[:len(options):len(options)],
			session.Retention(time.Minute), session.SegmentInterval(time.Minute))...)
		require.NoError(t, err)
		defer s.Close()
		require.NoError(t, s.Put("A", 0, 10, value("x")))
		require.NoError(t, s.Put("A", 5, 70_000, value("x")))
		find := func(end, start int64) []string { return collect(t, sequence(s.FindSessions("A", end, start))) }
		long := []string{"A[5,70000]"}
		require.Equal(t, long, find(0, math.MaxInt64))
		require.Equal(t, long, find(70_000, 5))
		require.Empty(t, find(70_000, 4))
		require.Empty(t, find(70_001, 5))
		require.Empty(t, find(0, -1))
		require.Equal(t, long, find(-70_000, 5))
		require.Equal(t, long, collect(t, sequence(s.BackwardFindSessions("A", 0, 50_000))))
		_, ok, err := s.FetchSession("A", 5, 70_000)
		require.NoError(t, err)
		require.True(t, ok)
		_, ok, err = s.FetchSession("A", 0, 10)
		require.NoError(t, err)
		require.False(t, ok)
		require.Empty(t, collect(t, sequence(s.FindKeys(0, math.MaxInt64, session.From("B"), session.To("A")))), "inverted")
		require.Empty(t, collect(t, sequence(s.FetchKeys(session.From("B"), session.To("A")))), "inverted")
	})
}

func TestFindByEnd(t *testing.T) {
	everyKind(t, func(t *testing.T, name string, options []session.Option) {
		s := open(t, taskDir(t), options...)
		require.NoError(t, s.Put("A", 0, 10, value("x")))
		require.NoError(t, s.Put("B", 4, 9, value("x")))
		require.NoError(t, s.Put("A", 5, 70_000, value("x")))
		if name == "plain" || name == "headers" {
			for _, err := range s.FindByEnd(0, 10) {
				require.ErrorIs(t, err, session.ErrUnordered)
			}
			return
		}
		find := func(from, to int64) []string { return collect(t, sequence(s.FindByEnd(from, to))) }
		require.Equal(t, []string{"B[4,9]", "A[0,10]"}, find(9, 10))
		require.Equal(t, []string{"A[0,10]"}, find(10, 69_999))
		require.Equal(t, []string{"B[4,9]", "A[0,10]", "A[5,70000]"}, find(-1, math.MaxInt64))
		require.Empty(t, find(70_000, 10))
		require.Empty(t, find(-5, -1))
		require.NoError(t, s.Put("A", 130_000, 130_000, value("x")))
		if name == "memory" {
			require.Equal(t, []string{"A[5,70000]"}, find(0, 70_000))
		} else { // retention hides nothing here until the segment goes
			require.Equal(t, []string{"B[4,9]", "A[0,10]", "A[5,70000]"}, find(0, 70_000))
		}
	})
}

// A removal moves stream time on, and neither cleans nor moves the position; in memory it
// moves nothing. A late put cleans only where there are headers, and is never stored.
func TestRemoveAndLatePuts(t *testing.T) {
	everyKind(t, func(t *testing.T, name string, options []session.Option) {
		l := &log{}
		s := open(t, taskDir(t), append(options[:len(options):len(options)], session.Changelog(l))...)
		position := func() int64 {
			n, _ := s.Position().Offset("in", 0)
			return n
		}
		s.SetRecord(record(1, 1))
		require.NoError(t, s.Put("A", 0, 0, value("x")))
		require.NoError(t, s.Commit(ctx))
		s.SetRecord(record(2, 2, "r", "2"))
		require.NoError(t, s.Remove("B", 5, 600_000))
		require.NoError(t, s.Commit(ctx))
		require.EqualValues(t, 1, position())
		require.True(t, l.last(t).Tombstone())
		if name == "memory" {
			require.EqualValues(t, 0, s.StreamTime())
			return
		}
		require.EqualValues(t, 600_000, s.StreamTime())
		require.Empty(t, collect(t, sequence(s.Fetch("A"))))
		onDisk := func() []string {
			if name == "plain" || name == "headers" {
				return nil
			}
			return collect(t, sequence(s.FindByEnd(0, 0)))
		}
		kept := onDisk()
		s.SetRecord(record(3, 3))
		require.NoError(t, s.Put("A", 0, 0, value("late")))
		require.NoError(t, s.Put("C", 0, 0, value("late")))
		require.EqualValues(t, 2, s.Dropped())
		require.NoError(t, s.Commit(ctx))
		require.EqualValues(t, 1, position())
		require.Len(t, l.changes, 4, "late puts are logged")
		if name == "headers" || name == "ordered-headers" {
			kept = nil
		}
		require.Equal(t, kept, onDisk())
	})
	for _, c := range []struct {
		format store.Layout
		want   []string
	}{{store.Plain, []string{"store.0"}}, {store.WithHeaders, nil}} {
		dir := taskDir(t)
		s := open(t, dir, session.Format(c.format))
		require.NoError(t, s.Put("A", 0, 0, value("x")))
		require.NoError(t, s.Commit(ctx))
		require.NoError(t, s.Remove("B", 5, 600_000))
		require.NoError(t, s.Put("A", 0, 0, value("late")))
		s.SetRecord(record(1, 1))
		require.NoError(t, s.Remove("B", 5, 600_000))
		require.NoError(t, s.Commit(ctx))
		require.Equal(t, c.want, segments(t, dir))
	}
}

// A put of null takes part in everything, a late one in what late puts do.
func TestPutOfNull(t *testing.T) {
	dir := taskDir(t)
	l := &log{}
	s := openRaw(t, dir, session.Changelog(l))
	s.SetRecord(record(7, 70, "r", "7"))
	require.NoError(t, s.Put([]byte("A"), 0, 200_000, store.Value[[]byte]{}))
	require.NoError(t, s.Put([]byte("A"), 0, 5, store.Value[[]byte]{}))
	require.EqualValues(t, 1, s.Dropped())
	require.NoError(t, s.Commit(ctx))
	n, _ := s.Position().Offset("in", 0)
	require.EqualValues(t, 7, n)
	require.Equal(t, []string{"store.180000"}, segments(t, dir))
	require.Len(t, l.changes, 2)
	for _, c := range l.changes {
		require.True(t, c.Tombstone())
		h, _ := c.Headers.Last("r")
		require.Equal(t, "7", string(h.Value))
		require.EqualValues(t, 70, c.Timestamp)
	}
}

// Key, timestamp and headers of changelog records, the same whatever the layout.
func TestChangelog(t *testing.T) {
	everyKind(t, func(t *testing.T, name string, options []session.Option) {
		l := &log{}
		s := open(t, taskDir(t), append(options[:len(options):len(options)], session.Changelog(l))...)
		for range 2 { // the second in memory that was used before
			s.SetRecord(record(1, 42, "r", "1"))
			v := value("x", "h", "1")
			v.Timestamp = 99
			require.NoError(t, s.Put("A", 1000, 5000, v))
			require.NoError(t, s.Flush(ctx))
			put := l.last(t)
			s.SetRecord(record(2, 43, "r", "2"))
			require.NoError(t, s.Remove("A", 1000, 5000))
			require.NoError(t, s.Flush(ctx))
			removal := l.last(t)
			require.Equal(t, unhex(t, key1), put.Key)
			require.Equal(t, "x", string(put.Value))
			require.EqualValues(t, 42, put.Timestamp)
			require.Equal(t, unhex(t, key1), removal.Key)
			require.True(t, removal.Tombstone())
			require.EqualValues(t, 43, removal.Timestamp)
			if name == "plain" || name == "index" || name == "noindex" {
				require.True(t, put.Headers.Empty() && removal.Headers.Empty())
			} else {
				h, _ := put.Headers.Last("h")
				require.Equal(t, "1", string(h.Value))
				h, _ = removal.Headers.Last("r")
				require.Equal(t, "2", string(h.Value))
			}
		}
		require.Len(t, l.changes, 4)
	})
}

func TestDroppedSessionsAreReported(t *testing.T) {
	var out bytes.Buffer
	old := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	defer slog.SetDefault(old)
	s := open(t, taskDir(t))
	require.NoError(t, s.Put("A", 0, 1_000_000, value("new")))
	require.NoError(t, s.Put("A", 0, 1000, value("late")))
	require.NoError(t, s.Put("A", 0, 2000, value("late")))
	require.EqualValues(t, 2, s.Dropped())
	require.Equal(t, 1, strings.Count(out.String(), "\n"), out.String())
	require.Contains(t, out.String(), "store=store")
}

// Stream time is not stored: what has expired and is still on disk shows until the first
// write. An abort takes stream time back, and with it what had expired.
func TestStreamTime(t *testing.T) {
	dir := taskDir(t)
	s := open(t, dir)
	require.NoError(t, s.Put("A", 0, 70_000, value("x")))
	require.NoError(t, s.Put("A", 0, 190_000, value("x")))
	require.NoError(t, s.Commit(ctx))
	both := []string{"A[0,70000]", "A[0,190000]"}
	require.Equal(t, both[1:], collect(t, sequence(s.Fetch("A"))))
	require.NoError(t, s.Close())
	s = open(t, dir)
	require.EqualValues(t, -1, s.StreamTime())
	require.Equal(t, both, collect(t, sequence(s.Fetch("A"))))
	require.NoError(t, s.Put("A", 0, 400_000, value("x")))
	require.Equal(t, []string{"A[0,400000]"}, collect(t, sequence(s.Fetch("A"))))
	require.Equal(t, both, collect(t, sequence(s.View(store.ReadCommitted).Fetch("A"))))
	s.Abort()
	require.EqualValues(t, -1, s.StreamTime())
	require.Equal(t, both, collect(t, sequence(s.Fetch("A"))))
	require.NoError(t, s.Put("A", 0, 60_000, value("again")))
	require.Zero(t, s.Dropped())
}

// ksql #3009: a gap of a day or more.
func TestLongSessions(t *testing.T) {
	everyKind(t, func(t *testing.T, _ string, options []session.Option) {
		const day = 86_400_000
		s, err := session.Open(taskDir(t), "store", store.String(), store.String(), append(options[:len(options):len(options)], session.Retention(48*time.Hour))...)
		require.NoError(t, err)
		defer s.Close()
		require.NoError(t, s.Put("A", 1, 1, value("x")))
		require.NoError(t, s.Put("A", 1, day+1, value("y")))
		require.Equal(t, []string{"A[1,1]", "A[1,86400001]"}, collect(t, sequence(s.FindSessions("A", 1, day+1))))
	})
}

// The aggregate processor of a session window with a gap of 10.
func TestMerges(t *testing.T) {
	everyKind(t, func(t *testing.T, _ string, options []session.Option) {
		s := open(t, taskDir(t), options...)
		for _, c := range []struct {
			t           int64
			found, want []string
		}{
			{0, nil, []string{"k[0,0]"}},
			{0, []string{"k[0,0]"}, []string{"k[0,0]"}},
			{11, nil, []string{"k[0,0]", "k[11,11]"}},
			{21, []string{"k[11,11]"}, []string{"k[0,0]", "k[11,21]"}},
			{10, []string{"k[0,0]", "k[11,21]"}, []string{"k[0,21]"}},
		} {
			start, end := c.t, c.t
			var found []session.Row[string, string]
			for row, err := range s.FindSessions("k", c.t-10, c.t+10) {
				require.NoError(t, err)
				found = append(found, row.Clone())
				start, end = min(start, row.Start), max(end, row.End)
			}
			require.Len(t, found, len(c.found))
			for i, row := range found {
				require.Equal(t, c.found[i], collect(t, func(yield func(session.Row[string, string], error) bool) { yield(row, nil) })[0])
				if start != c.t || end != c.t {
					require.NoError(t, s.Remove("k", row.Start, row.End))
				}
			}
			require.NoError(t, s.Put("k", start, end, value("v")))
			require.Equal(t, c.want, collect(t, sequence(s.Fetch("k"))))
		}
	})
}

// AK #6134, #6161: of overlapping sessions exactly the asked one is found, cached or not.
func TestOverlappingSessions(t *testing.T) {
	everyKind(t, func(t *testing.T, _ string, options []session.Option) {
		s := open(t, taskDir(t), options...)
		places := [][2]int64{{0, 10}, {0, 20}, {5, 10}, {5, 20}, {10, 10}}
		for range 2 {
			for _, p := range places {
				require.NoError(t, s.Put("A", p[0], p[1], value(string(rune('a'+p[0]+p[1])))))
			}
			for _, p := range places {
				v, ok, err := s.FetchSession("A", p[0], p[1])
				require.NoError(t, err)
				require.True(t, ok)
				require.Equal(t, string(rune('a'+p[0]+p[1])), v.Data)
				require.Equal(t, p[1], v.Timestamp)
			}
			require.NoError(t, s.Flush(ctx))
			require.NoError(t, s.Commit(ctx))
		}
		_, ok, err := s.FetchSession("A", 10, 20)
		require.NoError(t, err)
		require.False(t, ok)
	})
}

// schema is a serde that keeps an id in the headers and reads nothing without.
type schema struct{ name string }

func (s schema) Serialize(_ string, h *store.Headers, v string) ([]byte, error) {
	return []byte(v), h.Add(s.name, []byte("id"))
}

func (s schema) Deserialize(_ string, h *store.Headers, b []byte) (string, error) {
	if _, ok := h.Last(s.name); !ok {
		return "", errors.New("no schema id in the headers")
	}
	return string(b), nil
}

// AK #22806 (KAFKA-20798): serdes find in the headers what they put there, in a store that
// was restored and in views too. The caller's headers are left alone.
func TestSerdesSeeTheRowsHeaders(t *testing.T) {
	for _, options := range [][]session.Option{nil, {session.TimeOrdered(true)}, {session.InMemory()}} {
		l := &log{}
		dir := taskDir(t)
		options = append(options, session.Changelog(l))
		opened := func() *stringStore {
			s, err := session.Open(dir, "store", schema{"key"}, schema{"value"}, defaults(options...)...)
			require.NoError(t, err)
			return s
		}
		s := opened()
		s.SetRecord(record(1, 1))
		v := value("x", "mine", "1")
		require.NoError(t, s.Put("A", 0, 5, v))
		require.Equal(t, 1, v.Headers.Len())
		require.NoError(t, s.Commit(ctx))
		require.NoError(t, s.Wipe())
		require.NoError(t, s.RestoreBatch(l.changes, 0))
		for _, rows := range []sequence{sequence(s.FetchKeys()), sequence(s.View(store.ReadCommitted).FetchKeys()), sequence(s.View(store.ReadUncommitted).Fetch("A"))} {
			require.Equal(t, []string{"A[0,5]"}, collect(t, rows))
		}
		require.NoError(t, s.Close())
	}
}

func TestAfterClose(t *testing.T) {
	s := open(t, taskDir(t))
	view := s.View(store.ReadCommitted)
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Put("A", 0, 5, value("x")), store.ErrClosed)
	require.ErrorIs(t, s.Remove("A", 0, 5), store.ErrClosed)
	_, _, err := s.FetchSession("A", 0, 5)
	require.ErrorIs(t, err, store.ErrClosed)
	_, _, err = view.FetchSession("A", 0, 5)
	require.ErrorIs(t, err, store.ErrClosed)
	for _, err := range view.FetchKeys() {
		require.ErrorIs(t, err, store.ErrClosed)
	}
}
