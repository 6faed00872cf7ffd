package segment

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/base/basetest"
	"github.com/forebay-streams/forebay/internal/checkpointfile"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

func checkpoint(offset int64) base.Checkpoint {
	c := base.Checkpoint{Logged: true, Offset: offset}
	c.Position.Advance("in", 0, offset*10)
	return c
}

// spread is a table of keys without prefix on one of segments: the first byte decides.
type spread struct{ *Table }

func spreadKey(key []byte) []byte {
	if key == nil {
		return nil
	}
	id := int64(0)
	if len(key) > 0 {
		id = int64(bytes.Compare(key[:1], []byte{1})+1) + int64(key[0])/0x7f
	}
	return append(Key(nil, id), key...)
}

func spreadSpan(s base.Span) base.Span {
	s.From, s.To = spreadKey(s.From), spreadKey(s.To)
	return s
}

type spreadCursor struct{ base.Cursor }

func (c spreadCursor) Key() []byte { return c.Cursor.Key()[base.PrefixSize:] }

func (s spread) Get(key []byte, scratch *[]byte) (store.Row, bool, error) {
	return s.Table.Get(spreadKey(key), scratch)
}

func (s spread) Scan(span base.Span) base.Cursor { return spreadCursor{s.Table.Scan(spreadSpan(span))} }

type spreadSnapshot struct{ base.Snapshot }

func (s spread) Snapshot() (base.Snapshot, error) {
	one, err := s.Table.Snapshot()
	if err != nil {
		return nil, err
	}
	return spreadSnapshot{one}, nil
}

func (s spreadSnapshot) Get(key []byte, scratch *[]byte) (store.Row, bool, error) {
	return s.Snapshot.Get(spreadKey(key), scratch)
}

func (s spreadSnapshot) Scan(span base.Span) base.Cursor {
	return spreadCursor{s.Snapshot.Scan(spreadSpan(span))}
}

func (s spread) Commit(changes []store.Change, c base.Checkpoint) error {
	flat := make([]store.Change, len(changes))
	for i, one := range changes {
		flat[i] = store.Change{Key: spreadKey(one.Key), Row: one.Row}
	}
	// The contract wants a checkpoint kept that comes without rows.
	s.config.Clock.Put(0)
	return s.Table.Commit(flat, c)
}

func TestContract(t *testing.T) {
	var dir string
	reopen := func(t *testing.T) base.Table {
		table, err := Open(config(t, dir))
		require.NoError(t, err)
		return spread{table}
	}
	basetest.Run(t, basetest.Case{Layout: store.WithHeaders, Reopen: reopen, Open: func(t *testing.T) base.Table {
		dir = t.TempDir()
		return reopen(t)
	}})
}

// A comb equals a scan of everything that is filtered.
func TestCombs(t *testing.T) {
	r := basetest.Rand(t)
	c := config(t, t.TempDir())
	disk := open(t, c)
	memory := NewMemory(store.WithHeaders, NewClock(Rules{1, 1}))
	rows := basetest.Rows{}
	own := func() []byte { return [][]byte{{}, {0}, {1}, {1, 0}, {1, 0xff}, {2}, {0xff}, {0xff, 0xff}}[r.IntN(8)] }
	ids := []int64{0, 1, 2, 5, 1000}
	for range 25 {
		rows[string(append(Key(nil, ids[r.IntN(len(ids))]), own()...))] = store.Row{Value: []byte("v")}
	}
	changes := rows.Within(base.Span{})
	require.NoError(t, disk.Commit(changes, checkpoint(1)))
	require.NoError(t, memory.Table.Commit(changes, checkpoint(1)))
	for range 4000 {
		comb := base.Comb{Span: base.Span{Reverse: r.IntN(2) == 0, Exclusive: r.IntN(2) == 0}}
		comb.First, comb.Last = Prefix(int64(r.IntN(8))-1), Prefix([]int64{0, 1, 3, 6, 1000, 1<<63 - 1}[r.IntN(6)])
		if r.IntN(4) > 0 {
			comb.From = own()
		}
		if r.IntN(4) > 0 {
			comb.To = own()
		}
		var want []store.Change
		for _, row := range rows.Within(base.Span{Reverse: comb.Reverse}) {
			if p := prefixOf(row.Key); p >= comb.First && p <= comb.Last && comb.Contains(row.Key[base.PrefixSize:]) {
				want = append(want, row)
			}
		}
		basetest.RequireRows(t, want, disk.Comb(comb), "%+v", comb)
		basetest.RequireRows(t, want, memory.Comb(comb), "%+v", comb)
	}
}

func files(t *testing.T, c Config) (names []string) {
	entries, err := os.ReadDir(c.Dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestExpiredSegmentsGoWithTheCommit(t *testing.T) {
	c := config(t, t.TempDir())
	table := open(t, c)
	put := func(id int64) []store.Change {
		c.Clock.Raise(id * interval)
		c.Clock.Put(id * interval)
		return []store.Change{change(id, "k", "v")}
	}
	require.NoError(t, table.Commit(put(0), checkpoint(1)))
	c.Clock.Committed()
	require.Equal(t, []string{"store.0"}, files(t, c))

	late := append([]store.Change{change(0, "late", "v")}, put(5)...)
	require.EqualValues(t, 3, c.Clock.Now().Floor)
	require.EqualValues(t, 3, c.Clock.First(c.Clock.Now(), 0))
	c.Clock.Aborted()
	require.NoError(t, table.Commit([]store.Change{change(0, "k2", "v")}, checkpoint(2)))
	require.Equal(t, []string{"store.0"}, files(t, c), "an abort keeps what was about to go")

	put(5)
	scan := table.Scan(base.Span{})
	require.True(t, scan.Next())
	require.NoError(t, table.Commit(late, checkpoint(3)))
	require.Equal(t, []string{"store.0", "store.300000"}, files(t, c), "a scan still reads it")
	require.Equal(t, []int64{5}, table.IDs())
	_, ok, err := table.Get(change(0, "late", "").Key, new([]byte))
	require.NoError(t, err)
	require.False(t, ok)
	require.True(t, scan.Next(), "the rows of the scan's moment, to the end")
	require.False(t, scan.Next())
	require.NoError(t, scan.Err())
	scan.Close()
	require.Equal(t, []string{"store.300000"}, files(t, c))
}

func TestSegmentsAreMadeByRowsAndByPuts(t *testing.T) {
	c := config(t, t.TempDir())
	table := open(t, c)
	require.NoError(t, table.Commit([]store.Change{change(3, "k", ""), change(4, "k", "v"), change(6, "k", "")}, checkpoint(1)))
	require.Equal(t, []int64{4}, table.IDs(), "a delete makes none")
	c.Clock.Put(3 * interval)
	require.NoError(t, table.Commit([]store.Change{change(3, "k", "")}, checkpoint(2)))
	require.Equal(t, []int64{3, 4}, table.IDs())
	c.Clock.Committed()
	require.Empty(t, c.Clock.wanted)
}

func TestTheOldestOffsetCounts(t *testing.T) {
	c := config(t, t.TempDir())
	table := open(t, c)
	_, known := table.Checkpoint()
	require.False(t, known)
	require.NoError(t, table.Commit([]store.Change{change(0, "k", "v"), change(1, "k", "v")}, checkpoint(5)))
	require.NoError(t, table.Commit([]store.Change{change(2, "k", "v")}, checkpoint(7)))
	for _, s := range table.segments() {
		got, _ := s.Checkpoint()
		require.EqualValues(t, 7, got.Offset)
	}
	set := table.segments()
	require.NoError(t, set[1].Commit(nil, checkpoint(6))) // as if the later commit had not reached the disk
	require.NoError(t, table.Close())
	table = open(t, c)
	got, known := table.Checkpoint()
	require.True(t, known)
	require.EqualValues(t, 6, got.Offset)
	n, _ := got.Position.Offset("in", 0)
	require.EqualValues(t, 70, n, "positions are merged")
	require.NoError(t, table.segments()[0].Commit(nil, base.Checkpoint{Logged: true, Offset: store.UnknownOffset}))
	require.NoError(t, table.Close())
	_, known = open(t, c).Checkpoint()
	require.False(t, known)
}

// A new segment has the store's offset on disk before any row: a copy of the directory,
// which is what a crash leaves, knows it.
func TestANewSegmentKnowsTheOffset(t *testing.T) {
	c := config(t, t.TempDir())
	table := open(t, c)
	require.NoError(t, table.Commit([]store.Change{change(0, "k", "v")}, checkpoint(5)))
	require.NoError(t, table.Flush())
	require.NoError(t, table.Commit([]store.Change{change(1, "k", "v")}, checkpoint(9)))
	crashed := config(t, t.TempDir())
	require.NoError(t, os.CopyFS(crashed.Dir, os.DirFS(c.Dir)))
	copied := open(t, crashed)
	got, known := copied.Checkpoint()
	require.True(t, known)
	require.EqualValues(t, 5, got.Offset)
	require.Equal(t, []int64{0, 1}, copied.IDs())
}

// A crash while an expired segment is deleted costs neither the offset nor the open.
func TestHalfDeletedSegments(t *testing.T) {
	c := config(t, t.TempDir())
	table := open(t, c)
	require.NoError(t, table.Commit([]store.Change{change(0, "k", "v"), change(5, "k", "v")}, checkpoint(5)))
	require.NoError(t, table.Close())
	require.NoError(t, os.Remove(filepath.Join(c.Dir, "store.0", "CURRENT")))
	table = open(t, c)
	got, known := table.Checkpoint()
	require.True(t, known)
	require.EqualValues(t, 5, got.Offset)
	require.Equal(t, []string{"store.300000"}, files(t, c))
}

// Nor does one while a segment is made, which has no offset yet; but a segment that has no
// offset on disk because its first commit did not get there is none of these.
func TestHalfMadeSegments(t *testing.T) {
	c := config(t, t.TempDir())
	table := open(t, c)
	require.NoError(t, table.Commit([]store.Change{change(0, "k", "v")}, checkpoint(5)))
	require.NoError(t, table.Close())
	half := func(marked bool) {
		dir := filepath.Join(c.Dir, "store.300000")
		made, err := migration.Open(migration.Config{Dir: dir, Store: "store", Formats: c.Formats})
		require.NoError(t, err)
		require.NoError(t, made.Close())
		if marked {
			require.NoError(t, os.WriteFile(filepath.Join(dir, unborn), nil, 0o644))
		}
	}
	half(true)
	table = open(t, c)
	got, known := table.Checkpoint()
	require.True(t, known)
	require.EqualValues(t, 5, got.Offset)
	require.Equal(t, []string{"store.0"}, files(t, c))
	require.NoError(t, table.Close())

	half(false)
	table = open(t, c)
	_, known = table.Checkpoint()
	require.False(t, known)
	require.Equal(t, []string{"store.0", "store.300000"}, files(t, c))
	require.NoError(t, table.Commit(nil, checkpoint(6)))
	require.NoError(t, table.Close())

	// A mark that outlived its time, as it may when the power fails.
	mark := filepath.Join(c.Dir, "store.300000", unborn)
	require.NoError(t, os.WriteFile(mark, nil, 0o644))
	table = open(t, c)
	got, known = table.Checkpoint()
	require.True(t, known)
	require.EqualValues(t, 6, got.Offset)
	require.Equal(t, []string{"store.0", "store.300000"}, files(t, c))
	require.NoFileExists(t, mark)
	require.NoError(t, table.Close())
}

// A restore begins at the oldest offset of all segments. Those that are further keep rows
// and offset until it has come up with them.
func TestRestoreLeavesSegmentsThatAreFurther(t *testing.T) {
	c := config(t, t.TempDir())
	table := open(t, c)
	require.NoError(t, table.Commit([]store.Change{change(0, "k", "5"), change(1, "k", "5")}, checkpoint(5)))
	further := table.segments()[1]
	require.NoError(t, further.Commit([]store.Change{{Key: []byte("k"), Row: store.Row{Value: []byte("9")}}}, checkpoint(9)))
	require.NoError(t, table.Close())
	table = open(t, c)
	get := func(id int64) string {
		row, ok, err := table.Get(append(Key(nil, id), "k"...), new([]byte))
		require.NoError(t, err)
		require.True(t, ok)
		return string(row.Value)
	}
	restored := checkpoint(7)
	restored.Restored = true
	require.NoError(t, table.Commit([]store.Change{change(0, "k", "7"), change(1, "k", "7")}, restored))
	require.Equal(t, "7", get(0))
	require.Equal(t, "9", get(1))
	got, _ := table.segments()[1].Checkpoint()
	require.EqualValues(t, 9, got.Offset)
	require.NoError(t, table.Commit([]store.Change{change(0, "k", "11"), change(1, "k", "11")}, checkpoint(11)))
	require.Equal(t, "11", get(1))
	require.NoError(t, table.Close())
}

func TestACommitThatFailedInPart(t *testing.T) {
	c := config(t, t.TempDir())
	table := open(t, c)
	changes := []store.Change{change(0, "k", "v"), change(1, "k", "v")}
	require.NoError(t, table.Commit(changes, checkpoint(1)))
	second := table.segments()[1].Table
	broken, err := migration.Open(migration.Config{Dir: t.TempDir(), Store: "store", Formats: c.Formats})
	require.NoError(t, err)
	require.NoError(t, broken.Close())
	table.segments()[1].Table = broken
	require.Error(t, table.Commit(changes, checkpoint(2)))
	got, _ := table.Checkpoint()
	require.EqualValues(t, 1, got.Offset)
	table.segments()[1].Table = second
	require.NoError(t, table.Commit(changes, checkpoint(2)), "it can be tried again")

	table.segments()[1].Table = broken
	require.Error(t, table.Commit(changes, checkpoint(3)))
	table.segments()[1].Table = second
	c.Clock.Aborted()
	require.ErrorIs(t, table.Commit(changes, checkpoint(3)), store.ErrFailed)
	require.NoError(t, table.Wipe())
	require.NoError(t, table.Commit(changes, checkpoint(1)))
}

func TestFilesOfOlderVersionsAreTakenOver(t *testing.T) {
	dir := t.TempDir()
	c := config(t, dir)
	table := open(t, c)
	require.NoError(t, table.Commit([]store.Change{change(0, "k", "v"), change(1, "k", "v")}, base.Checkpoint{}))
	require.NoError(t, table.Close())
	ours := checkpointfile.Entry{Topic: "log", Offset: 77}
	other := checkpointfile.Entry{Topic: "other", Offset: 5}
	offsets, positions := filepath.Join(dir, checkpointfile.Name), filepath.Join(dir, "store.position")
	require.NoError(t, checkpointfile.Write(offsets, []checkpointfile.Entry{ours, other}))
	require.NoError(t, checkpointfile.Write(positions, []checkpointfile.Entry{{Topic: "in", Offset: 99}}))
	for range 2 {
		table = open(t, c)
		got, known := table.Checkpoint()
		require.True(t, known)
		require.EqualValues(t, 77, got.Offset)
		n, _ := got.Position.Offset("in", 0)
		require.EqualValues(t, 99, n)
		require.NoError(t, table.Close())
		left, err := checkpointfile.Read(offsets)
		require.NoError(t, err)
		require.Equal(t, []checkpointfile.Entry{other}, left)
	}
	require.NoError(t, checkpointfile.Set(offsets, ours))
	table = open(t, c)
	require.NoError(t, table.Wipe())
	require.NoFileExists(t, positions)
	require.NoError(t, table.Close())
	_, known := open(t, c).Checkpoint()
	require.False(t, known)
}

func TestSegmentsMigrateOnTheirOwn(t *testing.T) {
	c := config(t, t.TempDir())
	plain := c
	var err error
	plain.Formats, err = migration.KeyValueFormats(store.Plain)
	require.NoError(t, err)
	table := open(t, plain)
	for id := range int64(3) {
		require.NoError(t, table.Commit([]store.Change{change(id, "a", "v"), change(id, "b", "v")}, checkpoint(1)))
	}
	require.NoError(t, table.Close())
	table = open(t, c)
	require.NoError(t, table.Commit([]store.Change{change(0, "a", "v"), change(0, "b", "v"), change(3, "a", "v")}, checkpoint(2)))
	stats, err := table.Stats()
	require.NoError(t, err)
	require.True(t, stats.Migrating)
	require.NoError(t, table.Close())
	table = open(t, c)
	var modes []bool
	for _, s := range table.segments() {
		modes = append(modes, s.Migrating())
	}
	require.Equal(t, []bool{false, true, true, false}, modes)
	total := 0
	for done := false; !done; {
		var moved int
		moved, done, err = table.DrainSlice(3)
		require.NoError(t, err)
		total += moved
	}
	assert.Equal(t, 4, total)
	stats, err = table.Stats()
	require.NoError(t, err)
	assert.False(t, stats.Migrating)
	assert.EqualValues(t, 4, stats.Migrated)
	n, err := table.ApproximateCount()
	require.NoError(t, err)
	assert.Positive(t, n)
}

func TestClosed(t *testing.T) {
	table := open(t, config(t, t.TempDir()))
	require.NoError(t, table.Commit([]store.Change{change(0, "k", "v")}, checkpoint(1)))
	scan := table.Comb(base.Comb{Last: 1<<64 - 1})
	require.NoError(t, table.Close())
	require.False(t, scan.Next())
	require.ErrorIs(t, scan.Err(), store.ErrClosed)
	scan.Close()
	_, _, err := table.Get(change(0, "k", "").Key, new([]byte))
	require.ErrorIs(t, err, store.ErrClosed)
	_, err = table.Snapshot()
	require.ErrorIs(t, err, store.ErrClosed)
	_, err = table.ApproximateCount()
	require.ErrorIs(t, err, store.ErrClosed)
	for _, err := range []error{table.Flush(), table.Wipe(), table.Commit(nil, checkpoint(2)), table.Comb(base.Comb{}).Err()} {
		require.ErrorIs(t, err, store.ErrClosed)
	}
}
