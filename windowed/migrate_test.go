package windowed_test

import (
	"encoding/hex"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
	"github.com/forebay-streams/forebay/windowed"
)

// dumpFamily returns a family's rows in hex, read past the store.
func dumpFamily(t *testing.T, dir, name string) map[string]string {
	t.Helper()
	listed, err := rocks.List(dir)
	require.NoError(t, err)
	db, err := rocks.OpenReadOnly(dir, listed, t.TempDir())
	require.NoError(t, err)
	defer db.Close()
	family := db.Family(name)
	if family == nil {
		return nil
	}
	out := map[string]string{}
	scan := db.Scan(family, base.Span{})
	defer scan.Close()
	for scan.Next() {
		out[hex.EncodeToString(scan.Key())] = hex.EncodeToString(scan.Value())
	}
	require.NoError(t, scan.Err())
	return out
}

// The example of the reference: a timestamped store is opened with headers.
func TestUpgradeOfOneSegment(t *testing.T) {
	dir := taskDir(t)
	segment := func(name string) string { return filepath.Join(dir, "store", name) }
	const key, old, renewed = "41000000000000138800000000", "000000000000138878", "00000000000000138878"
	s := open(t, dir, windowed.Format(store.Timestamped))
	require.NoError(t, s.Put("A", 5000, value("x", 5000)))
	require.NoError(t, s.Commit(ctx))
	require.NoError(t, s.Close())
	require.Equal(t, map[string]string{key: old}, dumpFamily(t, segment("store.0"), migration.TimestampedFamily))

	s = open(t, dir)
	require.Equal(t, []string{"A@5000=x"}, collect(t, sequence(s.All())))
	v, ok, err := s.Fetch("A", 5000)
	require.NoError(t, err)
	require.True(t, ok)
	require.EqualValues(t, 5000, v.Timestamp)
	require.True(t, v.Headers.Empty())
	require.NoError(t, s.Put("A", 60_000, value("y", 1)))
	require.NoError(t, s.Commit(ctx))
	stats, err := s.Migration()
	require.NoError(t, err)
	require.True(t, stats.Migrating)
	require.NoError(t, s.Close())
	require.Equal(t, map[string]string{key: old}, dumpFamily(t, segment("store.0"), migration.TimestampedFamily), "reads move nothing")
	require.Empty(t, dumpFamily(t, segment("store.0"), migration.HeadersFamily))
	listed, err := rocks.List(segment("store.60000"))
	require.NoError(t, err)
	require.Equal(t, []string{"default", migration.HeadersFamily, "offsets"}, listed)

	s = open(t, dir)
	require.NoError(t, s.Put("A", 5000, value("x", 5000)))
	require.NoError(t, s.Commit(ctx))
	require.NoError(t, s.Close())
	require.Equal(t, map[string]string{key: renewed}, dumpFamily(t, segment("store.0"), migration.HeadersFamily))
	s = open(t, dir)
	stats, err = s.Migration()
	require.NoError(t, err)
	require.False(t, stats.Migrating)
	require.NoError(t, s.Close())
	listed, err = rocks.List(segment("store.0"))
	require.NoError(t, err)
	require.NotContains(t, listed, migration.TimestampedFamily)
}

// Rows of a time-ordered store without index are found by key after an upgrade, and have
// index rows once they are drained.
func TestUpgradeOfAnUnindexedStore(t *testing.T) {
	dir := taskDir(t)
	s := open(t, dir, windowed.Format(store.Timestamped), windowed.TimeOrdered(false))
	for _, start := range []int64{5000, 10_000} {
		require.NoError(t, s.Put("b", start, value("old", 1)))
		require.NoError(t, s.Put("a", start, value("old", 1)))
	}
	require.NoError(t, s.Commit(ctx))
	require.Equal(t, []string{"a@5000=old", "b@5000=old", "a@10000=old", "b@10000=old"}, collect(t, sequence(s.FetchKeys(0, 20_000))))
	require.NoError(t, s.Close())
	s = open(t, dir, windowed.TimeOrdered(true))
	require.NoError(t, s.Put("a", 10_000, value("new", 1)))
	require.NoError(t, s.Put("c", 10_000, value("new", 1)))
	want := []string{"a@5000=old", "a@10000=new", "b@5000=old", "b@10000=old", "c@10000=new"}
	check := func() {
		require.Equal(t, want, collect(t, sequence(s.FetchKeys(0, 20_000))))
		require.Equal(t, want[2:4], collect(t, sequence(s.FetchRange("b", 0, 20_000))))
	}
	check()
	require.NoError(t, s.Commit(ctx))
	check()
	require.NoError(t, migrate(s))
	check()
	require.NoError(t, s.Close())
	s = open(t, dir, windowed.TimeOrdered(true))
	stats, err := s.Migration()
	require.NoError(t, err)
	require.False(t, stats.Migrating)
	check()
}

func migrate(s migration.Drainable) error {
	drain := migration.NewDrain(s, migration.SliceRows(2))
	for {
		if done, err := drain.Step(); done || err != nil {
			return err
		}
	}
}

// Tools that work on a database directory work on every segment.
func TestInspectAndDowngradeOfSegments(t *testing.T) {
	dir := taskDir(t)
	s := open(t, dir, windowed.Changelog(&log{}))
	s.SetRecord(record(4, 1))
	require.NoError(t, s.Put("a", 5000, value("x", 7, "h", "1")))
	require.NoError(t, s.Put("a", 65_000, value("y", 8)))
	require.NoError(t, s.Commit(ctx))
	require.NoError(t, s.Close())
	for _, name := range []string{"store.0", "store.60000"} {
		path := filepath.Join(dir, "store", name)
		report, err := migration.Inspect(path, migration.CheckRows())
		require.NoError(t, err)
		require.Equal(t, store.WithHeaders, report.Format)
		require.EqualValues(t, 1, report.Offsets["app-store-changelog-0"])
		_, err = migration.Downgrade(path, store.Timestamped, migration.DiscardHeaders())
		require.NoError(t, err)
	}
	s = open(t, dir, windowed.Format(store.Timestamped))
	offset, ok := s.RestoredOffset()
	require.True(t, ok)
	require.EqualValues(t, 1, offset)
	require.Equal(t, []string{"a@5000=x", "a@65000=y"}, collect(t, sequence(s.All())))
}
