package kv_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/kv"
	"github.com/forebay-streams/forebay/store"
)

// After all tests no goroutine and no RocksDB object may be left.
func TestMain(m *testing.M) {
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
func taskDir(t *testing.T) string { return filepath.Join(t.TempDir(), "app", "0_0") }

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

func (l *log) last(t *testing.T) store.Change {
	t.Helper()
	require.NotEmpty(t, l.changes)
	return l.changes[len(l.changes)-1]
}

func open(t *testing.T, dir string, options ...kv.Option) *kv.Store[string, string] {
	t.Helper()
	s, err := kv.Open(dir, "store", store.String(), store.String(), options...)
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

type sequence func(func(kv.Row[string, string], error) bool)

func collect(t *testing.T, seq sequence) (out []string) {
	t.Helper()
	for row, err := range seq {
		require.NoError(t, err)
		out = append(out, row.Key+"="+row.Data)
	}
	return out
}

// dump returns key and value of every family in hex, read past the store.
func dump(t *testing.T, dir string) map[string]map[string]string {
	t.Helper()
	path := filepath.Join(dir, "rocksdb", "store")
	families, err := rocks.List(path)
	require.NoError(t, err)
	db, err := rocks.OpenReadOnly(path, families, t.TempDir())
	require.NoError(t, err)
	defer db.Close()
	out := map[string]map[string]string{}
	for _, name := range families {
		out[name] = map[string]string{}
		scan := db.Scan(db.Family(name), base.Span{})
		for scan.Next() {
			out[name][hex.EncodeToString(scan.Key())] = hex.EncodeToString(scan.Value())
		}
		require.NoError(t, scan.Err())
		scan.Close()
	}
	return out
}
