package migration_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

// bulkDir and bulkMark are what a load leaves in a directory that it did not end in.
const (
	bulkDir  = "forebay-bulk"
	bulkMark = bulkDir + "/joining"
)

// bulkLoad is a changelog in batches, and what the rows are after each.
type bulkLoad struct {
	batches [][]store.Change
	after   []map[string]string // key to value and timestamp
}

func newBulkLoad(r *rand.Rand, batches int) *bulkLoad {
	l := &bulkLoad{}
	rows := map[string]string{}
	for b := range batches {
		var batch []store.Change
		for i := range r.IntN(30) {
			key := fmt.Sprintf("key-%03d", r.IntN(200))
			if r.IntN(4) == 0 {
				batch = append(batch, store.Change{Key: []byte(key)})
				delete(rows, key)
				continue
			}
			row := row(fmt.Sprintf("%d of %d", i, b), int64(b), "h")
			batch = append(batch, change(key, row))
			rows[key] = describe(row)
		}
		copied := map[string]string{}
		for k, v := range rows {
			copied[k] = v
		}
		l.batches, l.after = append(l.batches, batch), append(l.after, copied)
	}
	return l
}

func describe(r store.Row) string {
	return fmt.Sprintf("%s at %d, %v", r.Value, r.Timestamp, r.Headers.List())
}

// offset is the one behind a batch.
func (l *bulkLoad) offset(batch int) int64 { return int64(10*batch + 9) }

func (l *bulkLoad) add(t *testing.T, table *migration.Table, batch int) {
	t.Helper()
	taken, err := table.AddBulk(l.batches[batch], commitAt(l.offset(batch)))
	require.NoError(t, err)
	require.True(t, taken)
}

// requirePrefix checks that a table holds what its offset says, and returns the batches.
func (l *bulkLoad) requirePrefix(t *testing.T, table *migration.Table) (batches int) {
	t.Helper()
	want := map[string]string{}
	if c, known := table.Checkpoint(); known {
		batches = int(c.Offset/10) + 1
		want = l.after[batches-1]
	}
	got := map[string]string{}
	cursor := table.Scan(base.Span{})
	defer cursor.Close()
	for cursor.Next() {
		got[string(cursor.Key())] = describe(*cursor.Row())
	}
	require.NoError(t, cursor.Err())
	require.Equal(t, want, got)
	return batches
}

// commitAt is the checkpoint of a restore at an offset.
func commitAt(offset int64) base.Checkpoint {
	return base.Checkpoint{Logged: true, Restored: true, Offset: offset}
}

func begin(t *testing.T, table *migration.Table) {
	t.Helper()
	ok, err := table.BeginBulk()
	require.NoError(t, err)
	require.True(t, ok)
}

// mark leaves a directory as a crash does while rows join.
func mark(t *testing.T, c migration.Config) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Join(c.Dir, bulkDir), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(c.Dir, bulkMark), nil, 0o644))
}

func bulkConfig(t *testing.T, bytes int) migration.Config {
	c := config(t, filepath.Join(t.TempDir(), "orders"), store.WithHeaders)
	c.BulkBytes = bytes
	return c
}

func TestBulkLoad(t *testing.T) {
	for _, bytes := range []int{1, 300, 4000, 0} { // a run for each batch, to one for all
		t.Run(fmt.Sprint(bytes), func(t *testing.T) {
			noLeaks(t)
			c := bulkConfig(t, bytes)
			table := open(t, c)
			l := newBulkLoad(rand.New(rand.NewPCG(1, uint64(bytes))), 60)
			begin(t, table)
			for b := range l.batches {
				l.add(t, table, b)
			}
			require.NoError(t, table.EndBulk())
			require.NoDirExists(t, filepath.Join(c.Dir, bulkDir))
			require.Equal(t, 60, l.requirePrefix(t, table))

			if bytes == 0 { // a single run: no compaction deletes files that are being read
				onDisk := dump(t, c.Dir) // before a flush or a close
				require.Len(t, onDisk[HDR], len(l.after[59]))
				require.Equal(t, ts8(l.offset(59)), onDisk[offsets]["app-orders-changelog-3"])
			}

			// An ordinary table from now on.
			ok, err := table.BeginBulk()
			require.NoError(t, err)
			require.False(t, ok, "it has rows")
			taken, err := table.AddBulk(nil, base.Checkpoint{})
			require.NoError(t, err)
			require.False(t, taken)
			require.NoError(t, table.EndBulk())
			commit(t, table, 1000, change("key-000", row("new", 1)), store.Change{Key: []byte("key-001")})
			require.Equal(t, "absent", get(t, table, "key-001"))
		})
	}
}

// A load that nobody ends leaves a prefix of the changelog and its offset.
func TestBulkLoadThatIsLeft(t *testing.T) {
	noLeaks(t)
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(2, seed))
		c := bulkConfig(t, 1+r.IntN(3000))
		table, err := migration.Open(c)
		require.NoError(t, err)
		l := newBulkLoad(r, 1+r.IntN(40))
		begin(t, table)
		for b := range l.batches {
			l.add(t, table, b)
		}
		require.NoError(t, table.Close())
		require.NoDirExists(t, filepath.Join(c.Dir, bulkDir))
		table = open(t, c)
		done := l.requirePrefix(t, table)
		assert.LessOrEqual(t, done, len(l.batches))
		require.NoError(t, table.Close())
	}
}

func TestWipeEndsABulkLoad(t *testing.T) {
	noLeaks(t)
	table := open(t, bulkConfig(t, 300))
	for range 2 {
		l := newBulkLoad(rand.New(rand.NewPCG(3, 3)), 20)
		begin(t, table)
		for b := range 10 {
			l.add(t, table, b)
		}
		require.NoError(t, table.Wipe())
		require.Zero(t, l.requirePrefix(t, table))
		taken, err := table.AddBulk(nil, base.Checkpoint{})
		require.NoError(t, err)
		require.False(t, taken)
	}
}

func TestNoBulkLoadOfATableThatHoldsSomething(t *testing.T) {
	noLeaks(t)
	requireNone := func(t *testing.T, table *migration.Table) {
		t.Helper()
		ok, err := table.BeginBulk()
		require.NoError(t, err)
		require.False(t, ok)
	}
	t.Run("rows", func(t *testing.T) {
		table := open(t, bulkConfig(t, 0))
		require.NoError(t, table.Commit([]store.Change{change("a", row("1", 1))}, base.Checkpoint{}))
		requireNone(t, table)
	})
	t.Run("an offset", func(t *testing.T) {
		table := open(t, bulkConfig(t, 0))
		commit(t, table, 5)
		requireNone(t, table)
	})
	t.Run("rows of an older format", func(t *testing.T) {
		c := bulkConfig(t, 0)
		build(t, c.Dir, []string{D, TS, offsets}, map[string]raw{TS: {"a": ts8(1) + "1"}})
		requireNone(t, open(t, c))
	})
}

func TestNoCommitDuringABulkLoad(t *testing.T) {
	noLeaks(t)
	table := open(t, bulkConfig(t, 0))
	begin(t, table)
	require.ErrorContains(t, table.Commit(nil, base.Checkpoint{}), "EndBulk")
	begin(t, table) // ends the first
	require.NoError(t, table.EndBulk())
	require.NoError(t, table.Commit(nil, base.Checkpoint{}))
}

// Nothing has joined the rows yet when a table file cannot be written.
func TestBulkLoadThatCannotWrite(t *testing.T) {
	noLeaks(t)
	c := bulkConfig(t, 300)
	table := open(t, c)
	l := newBulkLoad(rand.New(rand.NewPCG(4, 4)), 30)
	begin(t, table)
	l.add(t, table, 0)
	require.NoError(t, os.RemoveAll(filepath.Join(c.Dir, bulkDir)))
	var err error
	for b := 1; b < len(l.batches) && err == nil; b++ {
		_, err = table.AddBulk(l.batches[b], commitAt(l.offset(b)))
	}
	require.ErrorContains(t, err, "run.sst")
	_, again := table.AddBulk(nil, base.Checkpoint{})
	require.Equal(t, err, again)
	require.ErrorIs(t, table.EndBulk(), err)
	require.Zero(t, l.requirePrefix(t, table))

	begin(t, table) // once more
	for b := range l.batches {
		l.add(t, table, b)
	}
	require.NoError(t, table.EndBulk())
	require.Equal(t, 30, l.requirePrefix(t, table))
}

// A crash between the rows and their offset: the directory counts as an empty one.
func TestHalfLoadedDirectory(t *testing.T) {
	noLeaks(t)
	c := bulkConfig(t, 0)
	build(t, c.Dir, []string{D, HDR, offsets}, map[string]raw{HDR: {"a": stored1("1", 1)}})
	mark(t, c)

	_, err := migration.Vet(c)
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(c.Dir, "CURRENT"), "a look changes nothing")
	_, err = migration.Inspect(c.Dir)
	require.ErrorIs(t, err, store.ErrIncompatible)
	require.ErrorContains(t, err, "a restore was interrupted")

	require.NoError(t, os.Remove(filepath.Join(c.Dir, "CURRENT")), "a crash while it was being emptied")
	table := open(t, c)
	_, known := table.Checkpoint()
	assert.False(t, known)
	assert.Empty(t, scan(t, table, base.Span{}))
	assert.NoDirExists(t, filepath.Join(c.Dir, bulkDir))
	begin(t, table)
}

// A crash elsewhere leaves a table file that nobody needs.
func TestRemainsOfABulkLoad(t *testing.T) {
	noLeaks(t)
	c := bulkConfig(t, 0)
	build(t, c.Dir, []string{D, HDR, offsets}, map[string]raw{HDR: {"a": stored1("1", 1)}, offsets: {"app-orders-changelog-3": ts8(7)}})
	require.NoError(t, os.MkdirAll(filepath.Join(c.Dir, bulkDir), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(c.Dir, bulkDir, "run.sst"), []byte("half"), 0o644))
	table := open(t, c)
	checkpoint, known := table.Checkpoint()
	assert.True(t, known)
	assert.Equal(t, int64(7), checkpoint.Offset)
	assert.Len(t, scan(t, table, base.Span{}), 1)
	assert.NoDirExists(t, filepath.Join(c.Dir, bulkDir))
}

// A second open of a directory is refused, and takes nothing from the load under way.
func TestOpenBesideABulkLoad(t *testing.T) {
	for _, marked := range []bool{false, true} {
		noLeaks(t)
		c := bulkConfig(t, 0)
		table := open(t, c)
		l := newBulkLoad(rand.New(rand.NewPCG(7, 7)), 3)
		begin(t, table)
		l.add(t, table, 0)
		if marked { // as while a file joins
			mark(t, c)
		}
		_, err := migration.Open(c)
		require.ErrorContains(t, err, "already open")
		l.add(t, table, 1)
		l.add(t, table, 2)
		require.NoError(t, table.EndBulk())
		require.NoError(t, table.Close())
		table = open(t, c)
		require.Equal(t, 3, l.requirePrefix(t, table))
		require.NoError(t, table.Close())
	}
}

// Loads beside each other take less memory each.
func TestManyBulkLoads(t *testing.T) {
	noLeaks(t)
	var tables []*migration.Table
	l := newBulkLoad(rand.New(rand.NewPCG(8, 8)), 20)
	for range 20 {
		table := open(t, bulkConfig(t, 0))
		begin(t, table)
		tables = append(tables, table)
	}
	for _, table := range tables {
		for b := range l.batches {
			l.add(t, table, b)
		}
		require.NoError(t, table.EndBulk())
		require.Equal(t, 20, l.requirePrefix(t, table))
	}
}

// An offset in a file of the task is not that of rows that are emptied.
func TestHalfLoadedDirectoryAndOffsetFile(t *testing.T) {
	c := bulkConfig(t, 0)
	c.TaskDir = t.TempDir()
	build(t, c.Dir, []string{D, HDR, offsets}, map[string]raw{HDR: {"a": stored1("1", 1)}})
	mark(t, c)
	require.NoError(t, os.WriteFile(filepath.Join(c.TaskDir, ".checkpoint"), []byte("0\n1\napp-orders-changelog 3 77\n"), 0o644))
	table := open(t, c)
	checkpoint, known := table.Checkpoint()
	assert.Empty(t, scan(t, table, base.Span{}))
	assert.False(t, known, "no rows, and offset %d", checkpoint.Offset)
}

// Buffers of the DSL lie in a directory as that of a segment.
func TestInspectOfAHalfLoadedSegment(t *testing.T) {
	c := bulkConfig(t, 0)
	dir := filepath.Join(t.TempDir(), "j-Buffer")
	c.Dir = filepath.Join(dir, "j-Buffer.0")
	build(t, c.Dir, []string{D, offsets}, map[string]raw{D: {"a": "1"}})
	mark(t, c)
	_, err := migration.Inspect(dir)
	require.ErrorIs(t, err, store.ErrIncompatible)
}

func TestBulkLoadOfOddKeysAndSizes(t *testing.T) {
	noLeaks(t)
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 9))
		for _, layout := range []store.Layout{store.Plain, store.Timestamped, store.WithHeaders} {
			c := config(t, filepath.Join(t.TempDir(), "orders"), layout)
			c.BulkBytes = 1 << r.IntN(18)
			table, err := migration.Open(c)
			require.NoError(t, err)
			begin(t, table)
			want := map[string]string{}
			prefix := strings.Repeat("p", r.IntN(20))
			for b := range 30 {
				var batch []store.Change
				for range r.IntN(700) {
					var key string
					switch r.IntN(6) {
					case 0:
						key = string(make([]byte, r.IntN(20)))
					case 1:
						key = prefix + string(make([]byte, r.IntN(20)))
					case 2:
						key = strings.Repeat("\xff", r.IntN(20))
					default:
						key = prefix + fmt.Sprint(r.IntN(1500))
					}
					ch := store.Change{Key: []byte(key), Row: store.Row{Timestamp: store.NoTimestamp}}
					if layout != store.Plain {
						ch.Timestamp = int64(b)
					}
					switch r.IntN(5) {
					case 0:
						delete(want, key)
						batch = append(batch, ch)
						continue
					case 1:
						ch.Value = []byte{}
					case 2:
						if r.IntN(100) == 0 {
							ch.Value = bytes.Repeat([]byte("L"), r.IntN(1<<19))
						} else {
							ch.Value = []byte("x")
						}
					default:
						ch.Value = fmt.Appendf(nil, "%d", r.Uint32())
					}
					if layout == store.WithHeaders && r.IntN(2) == 0 {
						ch.Headers = store.NewHeaders(store.Header{Key: "h", Value: nil}, store.Header{Key: "", Value: []byte{}})
					}
					want[key] = describe(ch.Row)
					batch = append(batch, ch)
				}
				taken, err := table.AddBulk(batch, commitAt(int64(b)))
				require.NoError(t, err)
				require.True(t, taken)
			}
			require.NoError(t, table.EndBulk())
			got := map[string]string{}
			cur := table.Scan(base.Span{})
			last, first := "", true
			for cur.Next() {
				k := string(cur.Key())
				require.True(t, first || last < k)
				last, first = k, false
				got[k] = describe(*cur.Row())
				var scratch []byte
				row, ok, err := table.Get([]byte(k), &scratch)
				require.NoError(t, err)
				require.True(t, ok)
				require.Equal(t, got[k], describe(row))
			}
			require.NoError(t, cur.Err())
			cur.Close()
			require.Equal(t, want, got)
			require.NoError(t, table.Close())
		}
	}
}

func TestVetWhileRowsJoin(t *testing.T) {
	c := bulkConfig(t, 0)
	table, err := migration.Open(c)
	require.NoError(t, err)
	begin(t, table)
	taken, err := table.AddBulk([]store.Change{change("a", row("1", 1))}, commitAt(5))
	require.NoError(t, err)
	require.True(t, taken)
	mark(t, c)
	v, err := migration.Vet(c)
	require.NoError(t, err)
	require.NoError(t, table.EndBulk())
	require.NoError(t, table.Close())
	second, err := v.Open()
	if assert.NoError(t, err) {
		_, known := second.Checkpoint()
		assert.True(t, known)
		require.NoError(t, second.Close())
	}
}
