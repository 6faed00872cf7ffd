package windowed_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/store"
	"github.com/forebay-streams/forebay/windowed"
)

// After all tests no goroutine and no RocksDB object may be left.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // random operations drop many rows
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if n := rocks.Live(); n != 0 {
			fmt.Println("RocksDB objects left:", n)
			code = 1
		}
		os.Exit(code)
	}))
}

var ctx = context.Background()

const (
	size      = 30_000
	retention = 120_000
	interval  = 60_000
)

// taskDir is the directory of a task.
func taskDir(t testing.TB) string { return filepath.Join(t.TempDir(), "app", "0_0") }

// log is a changelog in memory. It keeps what it is given, as a client's buffer does.
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

type bytesStore = windowed.Store[[]byte, []byte]

func defaults(options ...windowed.Option) []windowed.Option {
	return append([]windowed.Option{windowed.Size(size * time.Millisecond), windowed.Retention(retention * time.Millisecond)}, options...)
}

func open(t testing.TB, dir string, options ...windowed.Option) *windowed.Store[string, string] {
	t.Helper()
	s, err := windowed.Open(dir, "store", store.String(), store.String(), defaults(options...)...)
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

type sequence func(func(windowed.Row[string, string], error) bool)

func collect(t testing.TB, seq sequence) (out []string) {
	t.Helper()
	for row, err := range seq {
		require.NoError(t, err)
		out = append(out, fmt.Sprintf("%s@%d=%s", row.Key, row.Start, row.Data))
	}
	return out
}
