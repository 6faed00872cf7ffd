package migration

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/store"
)

// family is a column family to build a directory with: its rows by key.
type family struct {
	name string
	rows map[string]string
}

// build makes a database with these families, in this order.
func build(t *testing.T, families ...family) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "app", "0_0", "rocksdb", "store")
	var names []string
	for _, f := range families {
		names = append(names, f.name)
	}
	db, err := rocks.Open(dir, names, nil, nil)
	require.NoError(t, err)
	defer db.Close()
	batch := db.NewBatch(0)
	defer batch.Close()
	for _, f := range families {
		for k, v := range f.rows {
			batch.Put(db.Family(f.name), []byte(k), []byte(v))
		}
	}
	require.NoError(t, batch.Write())
	return dir
}

func many(n int, value func(i int) string) map[string]string {
	rows := map[string]string{}
	for i := range n {
		rows[fmt.Sprintf("k%05d", i)] = value(i)
	}
	return rows
}

const (
	stamp  = "\x00\x00\x00\x00\x00\x00\x03\xe8" // 1000
	absent = "\xff\xff\xff\xff\xff\xff\xff\xff"
	header = "\x0a\x02\x02h\x02x"
)

func openTable(t *testing.T, dir string, layout store.Layout) *Table {
	t.Helper()
	formats, err := KeyValueFormats(layout)
	require.NoError(t, err)
	table, err := Open(Config{Dir: dir, Store: "store", Formats: formats, ChangelogTopic: "app-store-changelog", TaskDir: filepath.Dir(filepath.Dir(dir))})
	require.NoError(t, err)
	t.Cleanup(func() { table.Close() })
	return table
}

// contents returns the raw rows of every family.
func contents(t *testing.T, dir string) map[string]map[string]string {
	t.Helper()
	listed, err := rocks.List(dir)
	require.NoError(t, err)
	out := map[string]map[string]string{}
	require.NoError(t, readOnly(dir, listed, func(db *rocks.DB) error {
		for _, name := range listed {
			out[name] = map[string]string{}
			scan := db.Scan(db.Family(name), base.Span{})
			for scan.Next() {
				out[name][string(scan.Key())] = string(scan.Value())
			}
			require.NoError(t, scan.Err())
			scan.Close()
		}
		return nil
	}))
	return out
}
