package contract

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/internal/subject"
	"github.com/forebay-streams/forebay/store"
)

// After all tests no goroutine and no RocksDB object may be left.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if n := rocks.Live(); n != 0 {
			fmt.Println("RocksDB objects left:", n)
			code = 1
		}
		os.Exit(code)
	}))
}

var ctx = context.Background()

// taskDir is the directory of a task.
func taskDir(t testing.TB) string { return filepath.Join(t.TempDir(), "app", "0_0") }

// log is a changelog in memory that can be made to fail.
type log struct {
	changes []store.Change
	fail    error
	taken   int
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

// take returns what was logged since the last call.
func (l *log) take() []store.Change {
	out := l.changes[l.taken:]
	l.taken = len(l.changes)
	return out
}

// families runs a test once for each family.
func families(t *testing.T, run func(t *testing.T, f subject.Family)) {
	for _, f := range subject.Families {
		t.Run(string(f), func(t *testing.T) { run(t, f) })
	}
}

// kind is a family and how it is opened.
type kind struct {
	family subject.Family
	config subject.Config
}

func (k kind) String() string {
	s := fmt.Sprintf("%s/%s", k.family, k.config.Layout)
	for _, flag := range []struct {
		set  bool
		name string
	}{{k.config.Memory, "memory"}, {k.config.Ordered, "ordered"}, {k.config.Cache, "cache"}} {
		if flag.set {
			s += "," + flag.name
		}
	}
	return s
}

// kinds are all combinations of family, table, layout of keys and cache.
func kinds(t *testing.T, run func(t *testing.T, k kind)) {
	for _, f := range subject.Families {
		for _, layout := range []store.Layout{store.WithHeaders, store.Plain} {
			for flags := range 8 {
				k := kind{f, subject.Config{Layout: layout, Memory: flags&1 != 0, Ordered: flags&2 != 0, Cache: flags&4 != 0, Budget: store.NewBudget(1 << 20)}}
				c := &k.config
				if c.Cache && !f.Cached() || c.Ordered && (!f.Segmented() || c.Memory || f == subject.Windowed && layout == store.Plain) {
					continue
				}
				t.Run(k.String(), func(t *testing.T) { run(t, k) })
			}
		}
	}
}

func (k kind) open(t testing.TB, dir string) subject.Store {
	t.Helper()
	s, err := k.family.Open(dir, "store", k.config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	s.SetRecord(record(1))
	return s
}

func record(offset int64) store.Record {
	return store.Record{Topic: "in", Offset: offset, Timestamp: 1000 + offset}
}

func value(data string) subject.Value { return subject.Value{Data: []byte(data), Timestamp: 1000} }

// show lists rows as key@time=value, sorted.
func show(rows map[subject.Place]subject.Value) (out []string) {
	for p, v := range rows {
		out = append(out, fmt.Sprintf("%s@%d=%s", p.Key, p.Time(), v.Data))
	}
	slices.Sort(out)
	return out
}

func rows(t testing.TB, r subject.Reader, keys ...string) []string {
	t.Helper()
	got, err := r.Rows(keys)
	require.NoError(t, err)
	return show(got)
}
