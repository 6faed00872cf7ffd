package rocks

import (
	"bytes"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/store"
)

func newRun(t *testing.T, bytes int) *Run {
	t.Helper()
	r := NewRun(bytes)
	t.Cleanup(r.Close)
	return r
}

func plain(pairs ...string) (changes []store.Change) {
	for i := 0; i < len(pairs); i += 2 {
		c := store.Change{Key: []byte(pairs[i])}
		if pairs[i+1] != "-" {
			c.Value = []byte(pairs[i+1])
		}
		changes = append(changes, c)
	}
	return changes
}

func add(t *testing.T, r *Run, changes []store.Change) {
	t.Helper()
	fits, err := r.Add(changes, store.Plain)
	require.NoError(t, err)
	require.True(t, fits)
}

// join writes a run as a table and moves it in.
func join(t *testing.T, db *DB, f *Family, r *Run, keep bool) {
	t.Helper()
	path := filepath.Join(db.dir, "run")
	written, err := db.WriteTable(r, path, keep)
	require.NoError(t, err)
	require.True(t, written)
	require.NoError(t, db.Ingest(f, path))
	require.NoFileExists(t, path, "moved")
}

func TestRun(t *testing.T) {
	db, f := newDB(t)
	r := newRun(t, 1000)
	require.True(t, r.Empty())
	add(t, r, plain("b", "1", "prefix of eight bytes 2", "2", "a", "3", "b", "4", "prefix of eight bytes 1", "5", "gone", "6", "", "7", "gone", "-"))
	add(t, r, plain("b", "8", "never", "-", "empty", ""))
	require.False(t, r.Empty())
	join(t, db, f, r, false)
	want := [][2]string{{"", "7"}, {"a", "3"}, {"b", "8"}, {"empty", ""}, {"prefix of eight bytes 1", "5"}, {"prefix of eight bytes 2", "2"}}
	assert.Equal(t, want, all(t, db, f))

	// A second one hides rows of the first, and those in memory.
	put(t, db, f, [2]string{"c", "in memory"}, [2]string{"d", "too"})
	r.Reset()
	require.True(t, r.Empty())
	add(t, r, plain("d", "-", "c", "9", "a", "-", "b", "10"))
	join(t, db, f, r, true)
	want = [][2]string{{"", "7"}, {"b", "10"}, {"c", "9"}, {"empty", ""}, {"prefix of eight bytes 1", "5"}, {"prefix of eight bytes 2", "2"}}
	assert.Equal(t, want, all(t, db, f))
	put(t, db, f, [2]string{"b", "newer"})
	assert.Equal(t, `"newer"`, get(t, db, f, "b"))
}

func TestRunOfNothing(t *testing.T) {
	db, _ := newDB(t)
	r := newRun(t, 1000)
	path := filepath.Join(db.dir, "run")
	for _, changes := range [][]store.Change{nil, plain("a", "-"), plain("a", "1", "a", "-")} {
		r.Reset()
		add(t, r, changes)
		written, err := db.WriteTable(r, path, false)
		require.NoError(t, err)
		assert.False(t, written)
		assert.NoFileExists(t, path)
	}
}

func TestRunTakesAllOfABatchOrNothing(t *testing.T) {
	db, f := newDB(t)
	const most = 4 * (runHead + 1 + 10 + rowExtra + placeBytes)
	ten := string(bytes.Repeat([]byte("x"), 10))
	r := newRun(t, most)
	add(t, r, plain("a", ten, "b", ten))
	fits, err := r.Add(plain("b", "later", "c", ten, "d", string(make([]byte, most-2*(runHead+11)))), store.Plain)
	require.NoError(t, err)
	assert.False(t, fits)
	add(t, r, plain("f", "1"))
	join(t, db, f, r, false)
	assert.Equal(t, [][2]string{{"a", ten}, {"b", ten}, {"f", "1"}}, all(t, db, f))

	// Empty, it makes room for any.
	r.Reset()
	large := string(bytes.Repeat([]byte("y"), 10*most))
	add(t, r, plain("g", "1", "h", large, "g", "2"))
	join(t, db, f, r, true)
	assert.Equal(t, `"2"`, get(t, db, f, "g"))
	assert.Equal(t, `"`+large+`"`, get(t, db, f, "h"))
	r.Reset()
	add(t, r, plain("g", large)) // keeps the room it has
	r.Reset()
	fits, err = r.Add([]store.Change{{Key: []byte("a"), Row: store.Row{Value: []byte("1")}}, {Key: []byte("b"), Row: store.Row{Value: []byte("2"), Headers: corruptHeaders(t)}}}, store.WithHeaders)
	require.ErrorIs(t, err, store.ErrCorrupt)
	assert.False(t, fits)
	assert.True(t, r.Empty(), "nothing of it was taken")
}

// Rows of every layout take no more than they are reckoned with.
func TestRunOfLayouts(t *testing.T) {
	db, f := newDB(t)
	headers := store.NewHeaders(store.Header{Key: "h", Value: []byte("v")}, store.Header{Key: "none"})
	for _, layout := range []store.Layout{store.Plain, store.Timestamped, store.WithHeaders, store.Aggregation} {
		row := store.Row{Value: []byte("value"), Timestamp: 1 << 40, Headers: headers}
		want, err := layout.Encode(row)
		require.NoError(t, err)
		r := newRun(t, sizeInRun(&store.Change{Key: []byte("k"), Row: row})+placeBytes)
		fits, err := r.Add([]store.Change{{Key: []byte("k"), Row: row}}, layout)
		require.NoError(t, err)
		require.True(t, fits)
		join(t, db, f, r, false)
		var scratch []byte
		got, ok, err := db.Get(f, []byte("k"), &scratch)
		require.NoError(t, err)
		require.True(t, ok)
		assert.Equal(t, want, got)
	}
}

func TestRunErrors(t *testing.T) {
	db, f := newDB(t)
	r := newRun(t, 1000)
	add(t, r, plain("a", "1"))
	_, err := db.WriteTable(r, filepath.Join(db.dir, "none", "run"), false)
	require.Error(t, err)
	require.Error(t, db.Ingest(f, filepath.Join(db.dir, "none")))
	assert.Empty(t, all(t, db, f))
	r.Close()
	r.Close()
	db.Close()
	_, err = db.WriteTable(newRun(t, 10), filepath.Join(t.TempDir(), "run"), false)
	require.NoError(t, err, "nothing to write")
	full := newRun(t, 100)
	add(t, full, plain("a", "1"))
	_, err = db.WriteTable(full, filepath.Join(t.TempDir(), "run"), false)
	require.ErrorIs(t, err, store.ErrClosed)
	require.ErrorIs(t, db.Ingest(f, "run"), store.ErrClosed)
}

func TestCompactionTrigger(t *testing.T) {
	db, f := newDB(t)
	require.NoError(t, db.SetCompactionTrigger(f, 1000))
	files := func() int {
		n, err := strconv.Atoi(db.db.GetPropertyCF("rocksdb.num-files-at-level0", f.handle))
		require.NoError(t, err)
		return n
	}
	for range 3 * CompactionTrigger {
		put(t, db, f, [2]string{"k", "v"})
		require.NoError(t, db.Flush())
	}
	assert.Equal(t, 3*CompactionTrigger, files())
	require.NoError(t, db.SetCompactionTrigger(f, CompactionTrigger))
	require.Eventually(t, func() bool { return files() < CompactionTrigger }, 10*time.Second, time.Millisecond)
	assert.Equal(t, `"v"`, get(t, db, f, "k"))
	db.Close()
	require.ErrorIs(t, db.SetCompactionTrigger(f, 1), store.ErrClosed)
}
