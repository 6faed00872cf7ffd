package migration_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/base/basetest"
	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

// Short names of families.
const (
	D       = rocks.Default
	TS      = migration.TimestampedFamily
	HDR     = migration.HeadersFamily
	offsets = rocks.Offsets
)

func noLeaks(t *testing.T) {
	t.Helper()
	t.Cleanup(func() { require.Zero(t, rocks.Live(), "databases, scans, snapshots, batches") })
}

func config(t *testing.T, dir string, layout store.Layout) migration.Config {
	t.Helper()
	formats, err := migration.KeyValueFormats(layout)
	require.NoError(t, err)
	return migration.Config{Dir: dir, Store: "orders", Formats: formats, ChangelogTopic: "app-orders-changelog", Partition: 3}
}

// open opens a table and closes it with the test.
func open(t *testing.T, c migration.Config) *migration.Table {
	t.Helper()
	table, err := migration.Open(c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, table.Close()) })
	return table
}

// raw are bytes by key in one family.
type raw map[string]string

// build makes a database, or adds to one: families in this order, and what they hold.
func build(t *testing.T, dir string, families []string, data map[string]raw) {
	t.Helper()
	listed, err := rocks.List(dir)
	require.NoError(t, err)
	db, err := rocks.Open(dir, families, listed, nil)
	require.NoError(t, err)
	defer db.Close()
	batch := db.NewBatch(0)
	defer batch.Close()
	for family, rows := range data {
		for k, v := range rows {
			batch.Put(db.Family(family), []byte(k), []byte(v))
		}
	}
	require.NoError(t, batch.Write())
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	listed, err := rocks.List(dir)
	require.NoError(t, err)
	return listed
}

// dump reads a closed database, or what an open one has flushed, without changing it.
func dump(t *testing.T, dir string) map[string]raw {
	t.Helper()
	listed := list(t, dir)
	db, err := rocks.OpenReadOnly(dir, listed, t.TempDir())
	require.NoError(t, err)
	defer db.Close()
	all := map[string]raw{}
	for _, name := range listed {
		all[name] = raw{}
		scan := db.Scan(db.Family(name), base.Span{})
		for scan.Next() {
			all[name][string(scan.Key())] = string(scan.Value())
		}
		require.NoError(t, scan.Err())
		scan.Close()
	}
	return all
}

func ts8(ts int64) string { return string(binary.BigEndian.AppendUint64(nil, uint64(ts))) }

// stored is a row in a layout, with a header if the layout has them.
func stored(layout store.Layout, value string, ts int64) string {
	b, err := layout.Encode(row(value, ts, "h"))
	if err != nil {
		panic(err)
	}
	return string(b)
}

// row has a header of each given key.
func row(value string, ts int64, headers ...string) store.Row {
	r := store.Row{Value: []byte(value), Timestamp: ts}
	for _, key := range headers {
		if err := r.Headers.Add(key, []byte("of "+value)); err != nil {
			panic(err)
		}
	}
	return r
}

func change(key string, r store.Row) store.Change { return store.Change{Key: []byte(key), Row: r} }

func commit(t *testing.T, table base.Table, offset int64, changes ...store.Change) {
	t.Helper()
	require.NoError(t, table.Commit(changes, base.Checkpoint{Logged: true, Offset: offset}))
}

// get shows a row as value@timestamp and its header keys.
func get(t *testing.T, reader base.Reader, key string) string {
	t.Helper()
	var scratch []byte
	r, ok, err := reader.Get([]byte(key), &scratch)
	require.NoError(t, err)
	if !ok {
		return "absent"
	}
	return show(r)
}

func show(r store.Row) string {
	s := fmt.Sprintf("%s@%d", r.Value, r.Timestamp)
	for h := range r.Headers.All() {
		s += " " + h.Key
	}
	return s
}

// scan shows the rows of a span as key=row.
func scan(t *testing.T, reader base.Reader, span base.Span) []string {
	t.Helper()
	c := reader.Scan(span)
	defer c.Close()
	rows, err := basetest.Read(c)
	require.NoError(t, err)
	out := []string{}
	for _, r := range rows {
		out = append(out, string(r.Key)+"="+show(r.Row))
	}
	return out
}

func unhex(s string) string {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}
