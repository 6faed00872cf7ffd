package versioned

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/rocks"
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

// log is a changelog in memory.
type log struct{ changes []store.Change }

func (*log) Topic() string    { return "app-store-changelog" }
func (*log) Partition() int32 { return 0 }

func (l *log) Append(c store.Change) error {
	l.changes = append(l.changes, c)
	return nil
}

func (l *log) Flush(context.Context) (int64, bool, error) {
	return int64(len(l.changes)) - 1, len(l.changes) > 0, nil
}

type strings = Store[string, string]

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// open opens a store with segments of 10 ms and a history of 30, unless said otherwise.
func open(t testing.TB, dir string, options ...Option) *strings {
	t.Helper()
	options = append([]Option{History(millis(30)), SegmentInterval(millis(10))}, options...)
	s, err := Open(dir, "store", store.String(), store.String(), options...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func value(data string, ts int64, headers ...string) store.Value[string] {
	return store.Value[string]{Data: data, Timestamp: ts, Headers: headerList(headers...)}
}

func headerList(pairs ...string) store.Headers {
	var h store.Headers
	for i := 0; i < len(pairs); i += 2 {
		_ = h.Add(pairs[i], []byte(pairs[i+1]))
	}
	return h
}

func record(offset, ts int64, headers ...string) store.Record {
	return store.Record{Topic: "in", Offset: offset, Timestamp: ts, Headers: headerList(headers...)}
}

func put(t testing.TB, s *strings, key, data string, ts int64, headers ...string) Placed {
	t.Helper()
	p, err := s.Put(key, value(data, ts, headers...))
	require.NoError(t, err)
	return p
}

func tombstone(t testing.TB, s *strings, key string, ts int64) Placed {
	t.Helper()
	p, err := s.Tombstone(key, ts)
	require.NoError(t, err)
	return p
}

func commit(t testing.TB, s *strings) {
	t.Helper()
	require.NoError(t, s.Commit(ctx))
}

// show is data[from,to){headers}.
func show(v Version[string], ok bool, err error) string {
	if err != nil {
		return err.Error()
	}
	if !ok {
		return "-"
	}
	end := fmt.Sprint(v.ValidTo)
	if v.Latest() {
		end = ""
	}
	return fmt.Sprintf("%s[%d,%s)%v", v.Data, v.Timestamp, end, v.Headers.List())
}

func bare(data string, from, to int64) string {
	return show(Version[string]{Value: value(data, from), ValidTo: to}, true, nil)
}

func history(s reader, from, to int64) (out []string) {
	for v, err := range s.History("k", from, to, Ascending) {
		out = append(out, show(v, true, err))
	}
	return out
}

// rows are the physical rows of a store, committed, in its format.
func rows(t testing.TB, s *strings) map[string]string {
	t.Helper()
	out := map[string]string{}
	c := s.core.Table.Scan(base.Span{})
	defer c.Close()
	for c.Next() {
		out[string(c.Key())] = string(c.Row().Value)
	}
	require.NoError(t, c.Err())
	return out
}

const (
	always = math.MinInt64
	never  = math.MaxInt64
)
