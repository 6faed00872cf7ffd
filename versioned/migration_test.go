package versioned

import (
	"maps"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/internal/versions"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

// raw are the rows of each data family, read past the store, which is closed.
func raw(t *testing.T, dir string) map[string]map[string]string {
	path := filepath.Join(dir, "rocksdb", "store")
	families, err := rocks.List(path)
	require.NoError(t, err)
	db, err := rocks.OpenReadOnly(path, families, t.TempDir())
	require.NoError(t, err)
	defer db.Close()
	out := map[string]map[string]string{}
	for _, name := range families {
		if name == rocks.Offsets {
			continue
		}
		out[name] = map[string]string{}
		scan := db.Scan(db.Family(name), base.Span{})
		for scan.Next() {
			out[name][string(scan.Key())] = string(scan.Value())
		}
		require.NoError(t, scan.Err())
		scan.Close()
	}
	return out
}

func fill(t *testing.T, s *strings) {
	put(t, s, "k", "a", 12)
	put(t, s, "k", "bb", 15)
	tombstone(t, s, "k", 18)
	put(t, s, "k", "c", 23)
	put(t, s, "k", "d", 26)
	put(t, s, "quiet", "q", 5)
	tombstone(t, s, "gone", 21)
	commit(t, s)
}

func TestUpgrade(t *testing.T) {
	dir := taskDir(t)
	s := open(t, dir, Format(store.Plain))
	fill(t, s)
	want := history(s, always, never)
	require.NoError(t, s.Close())
	plain := raw(t, dir)[rocks.Default]
	require.Len(t, plain, 5)

	s = open(t, dir)
	require.Equal(t, want, history(s, always, never), "old rows are live history")
	require.Equal(t, bare("q", 5, Forever), show(s.Get("quiet")))
	stats, err := s.Migration()
	require.NoError(t, err)
	require.True(t, stats.Migrating)

	// A version that moves takes its converted bytes along; the row that it leaves and the
	// one that it comes to are new ones.
	require.Equal(t, Placed(15), put(t, s, "k", "x", 13, "h", "1"))
	tombstone(t, s, "quiet", 26)
	commit(t, s)
	require.NoError(t, s.Close())
	both := raw(t, dir)
	left := maps.Clone(plain)
	delete(left, physicalKey(1, "k"))
	delete(left, latestKey("quiet"))
	require.Equal(t, left, both[rocks.Default])
	require.Equal(t, map[string]string{
		physicalKey(1, "k"): string(row(18, versions.Entry{From: 15, Value: []byte("\x00bb")},
			versions.Entry{From: 13, Value: []byte("\x0a\x02\x02h\x021x")}, versions.Entry{From: 12, Value: []byte("\x00a")})),
		physicalKey(2, "quiet"): string(row(26, versions.Entry{From: 5, Value: []byte("\x00q")})),
	}, both[migration.VersionsFamily])

	// Segments are found in both families, and dropped in both.
	s = open(t, dir)
	require.Equal(t, []int64{1, 2}, s.table.now.Segments)
	put(t, s, "z", "z", 200)
	commit(t, s)
	require.NoError(t, s.Close())
	both = raw(t, dir)
	require.Equal(t, map[string]string{latestKey("k"): latestRow(26, "d")}, both[rocks.Default])
	require.Equal(t, map[string]string{latestKey("z"): latestRow(200, "\x00z")}, both[migration.VersionsFamily])
}

func TestDrain(t *testing.T) {
	dir := taskDir(t)
	s := open(t, dir, Format(store.Plain))
	fill(t, s)
	want := history(s, always, never)
	require.NoError(t, s.Close())
	s = open(t, dir)
	drain := migration.NewDrain(s, migration.SliceRows(2))
	for done := false; !done; {
		var err error
		done, err = drain.Step()
		require.NoError(t, err)
		require.Equal(t, want, history(s, always, never))
	}
	stats, err := s.Migration()
	require.NoError(t, err)
	require.False(t, stats.Migrating)
	require.EqualValues(t, 5, stats.Migrated)
	got := rows(t, s)
	require.NoError(t, s.Close())
	require.Empty(t, raw(t, dir)[rocks.Default])

	fresh := open(t, taskDir(t))
	fill(t, fresh)
	require.Equal(t, rows(t, fresh), got)
	done, err := migration.NewDrain(fresh).Step()
	require.NoError(t, err)
	require.True(t, done, "there is nothing to move")
	inMemory := open(t, "", InMemory())
	_, done, err = inMemory.DrainSlice(5)
	require.NoError(t, err)
	require.True(t, done)
	_, err = inMemory.Migration()
	require.NoError(t, err)
}

func TestDowngrade(t *testing.T) {
	dir := taskDir(t)
	path := filepath.Join(dir, "rocksdb", "store")
	s := open(t, dir)
	fill(t, s)
	put(t, s, "k", "e", 27, "h", "1")
	commit(t, s)
	require.NoError(t, s.Close())

	report, err := migration.Inspect(path, migration.CheckRows())
	require.NoError(t, err)
	require.Equal(t, store.Aggregation, report.Format)
	require.Zero(t, report.Legacy)
	_, err = migration.Downgrade(path, store.Plain)
	require.ErrorIs(t, err, migration.ErrLossy)
	require.ErrorContains(t, err, "DiscardHeaders")
	_, err = migration.Downgrade(path, store.Timestamped, migration.DiscardHeaders())
	require.ErrorIs(t, err, store.ErrConfig)
	result, err := migration.Downgrade(path, store.Plain, migration.DiscardHeaders())
	require.NoError(t, err)
	require.EqualValues(t, 5, result.Rows)
	require.Equal(t, []string{migration.VersionsFamily}, result.Dropped)

	plainDir := taskDir(t)
	plain := open(t, plainDir, Format(store.Plain))
	fill(t, plain)
	put(t, plain, "k", "e", 27)
	commit(t, plain)
	require.NoError(t, plain.Close())
	require.Equal(t, raw(t, plainDir), raw(t, dir))
	require.Equal(t, offsets(t, plainDir), offsets(t, dir))
	again := open(t, dir, Format(store.Plain))
	require.EqualValues(t, 27, again.StreamTime())
}

// A corrupt row is named by inspection and refused by a downgrade, which changes nothing.
func TestCorruptRows(t *testing.T) {
	dir := taskDir(t)
	path := filepath.Join(dir, "rocksdb", "store")
	kafkaDirectory(t, dir, migration.VersionsFamily, map[string]string{physicalKey(1, "k"): "short"})
	_, err := migration.Inspect(path, migration.CheckRows())
	require.ErrorIs(t, err, store.ErrCorrupt)
	_, err = migration.Downgrade(path, store.Plain)
	require.ErrorIs(t, err, store.ErrCorrupt)
	s := open(t, dir)
	_, _, err = s.GetAsOf("k", 5)
	var c *store.CorruptError
	require.ErrorAs(t, err, &c)
	require.Equal(t, physicalKey(1, "k"), string(c.Key))
	for _, err := range s.History("k", 0, 5, Ascending) {
		require.ErrorIs(t, err, store.ErrCorrupt)
	}
	_, err = s.Put("k", value("v", 25))
	require.NoError(t, err, "which does not need the row")
	_, err = s.Put("k", value("v", 8))
	require.ErrorIs(t, err, store.ErrCorrupt)
}
