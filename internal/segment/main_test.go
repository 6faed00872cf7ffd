package segment

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if n := rocks.Live(); n != 0 {
			fmt.Println("RocksDB objects left:", n)
			code = 1
		}
		os.Exit(code)
	}))
}

const (
	retention = 120_000
	interval  = 60_000
)

func config(t testing.TB, dir string) Config {
	formats, err := migration.KeyValueFormats(store.WithHeaders)
	require.NoError(t, err)
	rules, err := NewRules(retention, interval)
	require.NoError(t, err)
	return Config{Dir: filepath.Join(dir, "store"), Store: "store", Clock: NewClock(rules), Formats: formats, ChangelogTopic: "log", TaskDir: dir}
}

func open(t testing.TB, c Config) *Table {
	table, err := Open(c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, table.Close()) })
	return table
}

func change(id int64, key, value string) store.Change {
	c := store.Change{Key: append(Key(nil, id), key...)}
	if value != "" {
		c.Value = []byte(value)
	}
	return c
}
