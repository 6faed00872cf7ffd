package rocks

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/store"
)

// noLeaks checks at the end of a test, after its other clean-ups, that nothing in C is
// left.
func noLeaks(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		require.Zero(t, Live(), "databases, scans, snapshots, batches")
		require.Empty(t, sharedBy, "caches of budgets")
	})
}

var families = []string{Default, "rows", Offsets}

// open opens a database and closes it with the test.
func open(t *testing.T, dir string) *DB {
	t.Helper()
	listed, err := List(dir)
	require.NoError(t, err)
	db, err := Open(dir, families, listed, nil)
	require.NoError(t, err)
	t.Cleanup(db.Close)
	return db
}

func newDB(t *testing.T) (*DB, *Family) {
	t.Helper()
	noLeaks(t)
	db := open(t, t.TempDir())
	return db, db.Family("rows")
}

// put writes rows in one batch.
func put(t *testing.T, db *DB, f *Family, rows ...[2]string) {
	t.Helper()
	batch := db.NewBatch(0)
	defer batch.Close()
	for _, r := range rows {
		batch.Put(f, []byte(r[0]), []byte(r[1]))
	}
	require.NoError(t, batch.Write())
}

func get(t *testing.T, db *DB, f *Family, key string) string {
	t.Helper()
	var scratch []byte
	value, ok, err := db.Get(f, []byte(key), &scratch)
	require.NoError(t, err)
	if !ok {
		return "absent"
	}
	return fmt.Sprintf("%q", value)
}

// read returns what is left of a scan and closes it.
func read(t *testing.T, s *Scan) [][2]string {
	t.Helper()
	defer s.Close()
	rows := [][2]string{}
	for s.Next() {
		rows = append(rows, [2]string{string(s.Key()), string(s.Value())})
	}
	require.NoError(t, s.Err())
	return rows
}

func all(t *testing.T, db *DB, f *Family) [][2]string {
	t.Helper()
	return read(t, db.Scan(f, base.Span{}))
}

// corruptHeaders cannot be encoded: a header was added to a malformed block.
func corruptHeaders(t *testing.T) store.Headers {
	t.Helper()
	h := store.HeadersFromBlock([]byte{0xff})
	require.NoError(t, h.Add("added", nil))
	return h
}
