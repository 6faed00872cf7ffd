package migration_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base/basetest"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/session"
	"github.com/forebay-streams/forebay/store"
	"github.com/forebay-streams/forebay/windowed"
)

// timed is a window or session store that is open.
type timed interface {
	put(key string, at int64, v store.Value[string]) error
	// read shows all rows in the order of their keys, as a scan over keys has them, and as
	// one over times where there is one.
	read(t *testing.T) (byKey, byTime []string)
	Commit(context.Context) error
	Close() error
}

type windows struct {
	*windowed.Store[string, string]
}

func (s windows) put(key string, at int64, v store.Value[string]) error { return s.Put(key, at, v) }

func (s windows) read(t *testing.T) (byKey, byTime []string) {
	for row, err := range s.FetchKeys(0, math.MaxInt64) {
		require.NoError(t, err)
		byKey = append(byKey, showTimed(row.Key, row.Start, row.Value))
	}
	for row, err := range s.All() {
		require.NoError(t, err)
		byTime = append(byTime, showTimed(row.Key, row.Start, row.Value))
	}
	slices.Sort(byKey)
	slices.Sort(byTime)
	return byKey, byTime
}

type sessions struct {
	*session.Store[string, string]
	ordered bool
}

func (s sessions) put(key string, at int64, v store.Value[string]) error {
	return s.Put(key, at-1, at, v)
}

func (s sessions) read(t *testing.T) (byKey, byTime []string) {
	for row, err := range s.FetchKeys() {
		require.NoError(t, err)
		byKey = append(byKey, showTimed(row.Key, row.End, row.Value))
	}
	slices.Sort(byKey)
	if !s.ordered {
		return byKey, byKey
	}
	for row, err := range s.FindByEnd(0, math.MaxInt64) {
		require.NoError(t, err)
		byTime = append(byTime, showTimed(row.Key, row.End, row.Value))
	}
	slices.Sort(byTime)
	return byKey, byTime
}

func showTimed(key string, at int64, v store.Value[string]) string {
	out := fmt.Sprintf("%s@%d=%s@%d", key, at, v.Data, v.Timestamp)
	for h := range v.Headers.All() {
		out += fmt.Sprintf(" %s:%s", h.Key, h.Value)
	}
	return out
}

// timedKind is a kind of window or session store.
type timedKind struct {
	name    string
	older   store.Layout
	ordered bool
	indexed bool // the older store
	open    func(t *testing.T, dir string, layout store.Layout, indexed bool) timed
}

func openWindows(options ...windowed.Option) func(*testing.T, string, store.Layout, bool) timed {
	return func(t *testing.T, dir string, layout store.Layout, indexed bool) timed {
		options := append(slices.Clone(options), windowed.Format(layout), windowed.Size(time.Second), windowed.Retention(time.Hour), windowed.SegmentInterval(time.Minute))
		if len(options) > 4 {
			options[0] = windowed.TimeOrdered(indexed)
		}
		s, err := windowed.Open(dir, "store", store.String(), store.String(), options...)
		require.NoError(t, err)
		return windows{s}
	}
}

func openSessions(ordered bool) func(*testing.T, string, store.Layout, bool) timed {
	return func(t *testing.T, dir string, layout store.Layout, indexed bool) timed {
		options := []session.Option{session.Format(layout), session.Retention(time.Hour), session.SegmentInterval(time.Minute)}
		if ordered {
			options = append(options, session.TimeOrdered(indexed))
		}
		s, err := session.Open(dir, "store", store.String(), store.String(), options...)
		require.NoError(t, err)
		return sessions{s, ordered}
	}
}

var timedKinds = []timedKind{
	{"windows", store.Timestamped, false, false, openWindows()},
	{"plain windows", store.Plain, false, false, openWindows()},
	{"time-ordered windows", store.Timestamped, true, true, openWindows(windowed.TimeOrdered(true))},
	{"time-ordered windows without index", store.Timestamped, true, false, openWindows(windowed.TimeOrdered(true))},
	{"sessions", store.Plain, false, false, openSessions(false)},
	{"time-ordered sessions", store.Plain, true, true, openSessions(true)},
	{"time-ordered sessions without index", store.Plain, true, false, openSessions(true)},
}

func (k timedKind) inspect() []migration.InspectOption {
	if k.ordered {
		return []migration.InspectOption{migration.CheckRows(), migration.TimeOrdered()}
	}
	return []migration.InspectOption{migration.CheckRows()}
}

func (k timedKind) downgrade(dir string, options ...migration.DowngradeOption) (migration.DowngradeResult, error) {
	if k.ordered {
		options = append(options, migration.TimeOrdered())
	}
	return migration.Downgrade(filepath.Join(dir, "store"), k.older, options...)
}

// fill leaves a store with headers in three segments that are half upgraded: the first
// two hold rows of the older format too.
func (k timedKind) fill(t *testing.T) (dir string) {
	dir = filepath.Join(t.TempDir(), "app", "0_0")
	s := k.open(t, dir, k.older, k.indexed)
	put := func(key string, at int64, data string, headers ...string) {
		v := store.Value[string]{Data: data, Timestamp: at}
		for _, h := range headers {
			require.NoError(t, v.Headers.Add(h, []byte("of "+data)))
		}
		require.NoError(t, s.put(key, at, v))
	}
	for _, at := range []int64{5000, 65_000} {
		for _, key := range []string{"a", "b", "c"} {
			put(key, at, "old")
		}
	}
	require.NoError(t, s.Commit(t.Context()))
	require.NoError(t, s.Close())
	s = k.open(t, dir, store.WithHeaders, true)
	put("a", 5000, "new", "h")
	put("d", 5000, "new")
	put("b", 65_000, "new")
	put("a", 125_000, "new", "h")
	put("b", 125_000, "new")
	require.NoError(t, s.Commit(t.Context()))
	require.NoError(t, s.Close())
	return dir
}

// rows are those of a store that is opened for it.
func (k timedKind) rows(t *testing.T, dir string, layout store.Layout) []string {
	s := k.open(t, dir, layout, layout == store.WithHeaders || k.indexed)
	byKey, byTime := s.read(t)
	require.Equal(t, byTime, byKey)
	require.NoError(t, s.Close())
	return byKey
}

var discard = []migration.DowngradeOption{migration.DiscardHeaders(), migration.DiscardTimestamps()}

func copyOf(t *testing.T, dir string) string {
	to := filepath.Join(t.TempDir(), "app", "0_0")
	require.NoError(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

// A store with headers goes back to the older format with every row, after a kill at any
// slice too; in between it opens with headers.
func TestDowngradeOfEverySegment(t *testing.T) {
	for _, k := range timedKinds {
		t.Run(k.name, func(t *testing.T) {
			noLeaks(t)
			dir := k.fill(t)
			report, err := migration.Inspect(filepath.Join(dir, "store"), k.inspect()...)
			require.NoError(t, err)
			require.Len(t, report.Segments, 3)
			require.Equal(t, filepath.Join(dir, "store", "store.60000"), report.Segments[1].Dir)
			require.True(t, report.Format.HasHeaders())
			require.Equal(t, k.older, report.Legacy)
			require.Equal(t, []store.Layout{k.older, k.older, 0}, []store.Layout{report.Segments[0].Legacy, report.Segments[1].Legacy, report.Segments[2].Legacy})

			before := basetest.Files(t, dir)
			_, err = k.downgrade(dir)
			require.ErrorIs(t, err, migration.ErrLossy)
			require.ErrorContains(t, err, "segment store.0: ")
			require.Equal(t, before, basetest.Files(t, dir), "a refused directory stays as it was")

			all := k.rows(t, copyOf(t, dir), store.WithHeaders)
			require.Len(t, all, 9)
			whole := copyOf(t, dir)
			result, err := k.downgrade(whole, discard...)
			require.NoError(t, err)
			require.Len(t, result.Segments, 3)
			require.Len(t, result.Dropped, 1)
			require.Equal(t, result.Rows, result.Segments[0].Rows+result.Segments[1].Rows+result.Segments[2].Rows)
			again, err := k.downgrade(whole, discard...)
			require.NoError(t, err)
			require.Zero(t, again.Rows)
			bytes := contentsOf(t, whole)
			want := k.rows(t, whole, k.older)
			require.Len(t, want, len(all))

			for n, stopped := 1, true; stopped; n++ {
				at := copyOf(t, dir)
				stop := append(slices.Clone(discard), migration.StopAfter(n, 2))
				stopped = panics(func() { _, err = k.downgrade(at, stop...) })
				if stopped {
					require.Equal(t, names(all), names(k.rows(t, copyOf(t, at), store.WithHeaders)), "after %d slices", n)
				}
				_, err := k.downgrade(at, discard...)
				require.NoError(t, err)
				require.Equal(t, bytes, contentsOf(t, at), "after %d slices", n)
			}
			require.Equal(t, names(all), names(k.rows(t, whole, store.WithHeaders)), "up again")
		})
	}
}

// names are keys and data without what a downgrade drops.
func names(rows []string) (out []string) {
	for _, row := range rows {
		out = append(out, row[:slices.Index([]byte(row), '=')+4])
	}
	return out
}

func panics(f func()) (yes bool) {
	defer func() { yes = recover() != nil }()
	f()
	return false
}

// contentsOf is all rows of all segments.
func contentsOf(t *testing.T, dir string) map[string]map[string]raw {
	out := map[string]map[string]raw{}
	segments, err := filepath.Glob(filepath.Join(dir, "store", "store.*"))
	require.NoError(t, err)
	for _, segment := range segments {
		out[filepath.Base(segment)] = dump(t, segment)
	}
	return out
}

// The option must say which kind of session store it is; the wrong one changes nothing.
func TestTheOtherKindOfSessions(t *testing.T) {
	for _, k := range timedKinds[4:6] {
		dir := k.fill(t)
		before := basetest.Files(t, dir)
		k.ordered = !k.ordered
		_, err := migration.Inspect(filepath.Join(dir, "store"), k.inspect()...)
		require.ErrorIs(t, err, store.ErrIncompatible)
		require.ErrorContains(t, err, "segment store.0: ")
		require.ErrorContains(t, err, "TimeOrdered")
		_, err = k.downgrade(dir, discard...)
		require.ErrorIs(t, err, store.ErrIncompatible)
		require.ErrorContains(t, err, "TimeOrdered")
		require.Equal(t, before, basetest.Files(t, dir))
	}
	dir := timedKinds[0].fill(t)
	_, err := migration.Downgrade(filepath.Join(dir, "store"), store.Plain, migration.TimeOrdered())
	require.ErrorIs(t, err, store.ErrIncompatible)
}
