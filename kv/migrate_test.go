package kv_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/kv"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

// legacy makes a directory with rows a, b, c, d of an older format.
func legacy(t *testing.T, layout store.Layout) string {
	t.Helper()
	dir := taskDir(t)
	s := open(t, dir, kv.Format(layout))
	for _, k := range []string{"a", "b", "c", "d"} {
		require.NoError(t, s.Put(k, value("old", 1000)))
	}
	require.NoError(t, s.Commit(ctx))
	require.NoError(t, s.Close())
	return dir
}

func stats(t *testing.T, s *kv.Store[string, string]) migration.Stats {
	t.Helper()
	m, err := s.Migration()
	require.NoError(t, err)
	return m
}

func TestOldRowsUpgradeAtTheirNextWrite(t *testing.T) {
	for _, c := range []struct {
		layout store.Layout
		family string
		ts     int64
	}{{store.Plain, "default", store.NoTimestamp}, {store.Timestamped, migration.TimestampedFamily, 1000}} {
		dir := legacy(t, c.layout)
		l := &log{}
		s := open(t, dir, kv.Changelog(l))
		s.SetRecord(record(0, 5, "rec", "1"))
		require.True(t, stats(t, s).Migrating)
		require.EqualValues(t, 4, stats(t, s).LegacyLeft)
		v, ok, err := s.Get("a")
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, store.Value[string]{Data: "old", Timestamp: c.ts}, v)
		require.Equal(t, []string{"a=old", "b=old", "c=old", "d=old"}, collect(t, sequence(s.All())))

		// Reading moves nothing, and neither does a write before its commit.
		require.NoError(t, s.Put("b", value("new", 7, "h", "1")))
		require.NoError(t, s.Tombstone("c"))
		require.Equal(t, []string{"a=old", "b=new", "d=old"}, collect(t, sequence(s.All())))
		require.Equal(t, []string{"d=old", "b=new", "a=old"}, collect(t, sequence(s.ReverseAll())))
		require.Equal(t, []string{"a=old", "b=old", "c=old", "d=old"}, collect(t, sequence(s.View(store.ReadCommitted).All())))
		require.Zero(t, stats(t, s).Migrated)
		s.Abort()
		require.Equal(t, []string{"a=old", "b=old", "c=old", "d=old"}, collect(t, sequence(s.All())), "an abort leaves the old rows")

		require.NoError(t, s.Put("b", value("new", 7, "h", "1")))
		require.NoError(t, s.Put("e", value("fresh", 8)))
		require.NoError(t, s.Tombstone("c"))
		require.NoError(t, s.Commit(ctx))
		require.EqualValues(t, 2, stats(t, s).Migrated)
		require.Equal(t, []string{"a=old", "b=new", "d=old", "e=fresh"}, collect(t, sequence(s.All())))
		require.NoError(t, s.Close())
		now := dump(t, dir)
		require.Len(t, now[c.family], 2, "a and d are where they were")
		require.Len(t, now[migration.HeadersFamily], 2)

		s = open(t, dir)
		drain := migration.NewDrain(s)
		for done := false; !done; {
			done, err = drain.Step()
			require.NoError(t, err)
		}
		require.False(t, stats(t, s).Migrating)
		require.Equal(t, []string{"a=old", "b=new", "d=old", "e=fresh"}, collect(t, sequence(s.All())))
		require.NoError(t, s.Close())
		now = dump(t, dir)
		require.Empty(t, now[c.family])
		require.Len(t, now[migration.HeadersFamily], 4)
	}
}

// In steady state a read is one look-up; while rows of an older format are left, one that
// finds nothing in the new family costs one more.
func TestReadCostWhileMigrating(t *testing.T) {
	dir := legacy(t, store.Plain)
	s := open(t, dir)
	require.NoError(t, s.Put("b", value("new", 7)))
	require.NoError(t, s.Commit(ctx))
	for _, c := range []struct {
		key            string
		lookups, reads int64
	}{{"b", 0, 0}, {"a", 1, 1}, {"x", 2, 1}, {"b", 2, 1}} {
		_, _, err := s.Get(c.key)
		require.NoError(t, err)
		require.Equal(t, []int64{c.lookups, c.reads}, []int64{stats(t, s).LegacyLookups, stats(t, s).LegacyReads}, c.key)
	}
	_, done, err := s.DrainSlice(100)
	require.NoError(t, err)
	require.True(t, done)
	_, _, err = s.Get("x")
	require.NoError(t, err)
	require.EqualValues(t, 2, stats(t, s).LegacyLookups, "after the migration there is one family to ask")
}

// Opening with headers switched on, reading and closing rewrites no table file.
func TestOpeningRewritesNothing(t *testing.T) {
	for _, layout := range []store.Layout{store.Plain, store.Timestamped} {
		dir := legacy(t, layout)
		before := tables(t, dir)
		require.NotEmpty(t, before)
		for range 2 {
			s := open(t, dir)
			require.Len(t, collect(t, sequence(s.All())), 4)
			_, _, err := s.Get("a")
			require.NoError(t, err)
			require.NoError(t, s.Commit(ctx))
			require.NoError(t, s.Close())
			after := tables(t, dir)
			for name, sum := range before {
				require.Equal(t, sum, after[name], name)
			}
		}
	}
}

// tables returns the checksums of the table files that hold old rows: nothing is
// compressed, so their bytes can be seen.
func tables(t *testing.T, dir string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "rocksdb", "store", "*.sst"))
	require.NoError(t, err)
	sums := map[string]string{}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		require.NoError(t, err)
		if bytes.Contains(b, []byte("old")) {
			sums[filepath.Base(p)] = fmt.Sprintf("%x", sha256.Sum256(b))
		}
	}
	return sums
}

func TestOpeningAsAnOlderFormatIsRefused(t *testing.T) {
	dir := legacy(t, store.WithHeaders)
	before := files(t, dir)
	for _, layout := range []store.Layout{store.Plain, store.Timestamped} {
		_, err := kv.Open(dir, "store", store.String(), store.String(), kv.Format(layout))
		require.ErrorIs(t, err, store.ErrIncompatible)
		require.ErrorContains(t, err, "delete the local state")
		require.Equal(t, before, files(t, dir), "a refused directory keeps every file as it was")
	}
	_, err := migration.Downgrade(filepath.Join(dir, "rocksdb", "store"), store.Timestamped)
	require.NoError(t, err)
	s := open(t, dir, kv.Format(store.Timestamped))
	require.Len(t, collect(t, sequence(s.All())), 4)
	require.NoError(t, s.Close())
}

func files(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		fmt.Fprintf(&b, "%s %x\n", path, sha256.Sum256(content))
		return err
	}))
	return b.String()
}

func TestMemoryHasNothingToMigrate(t *testing.T) {
	s := open(t, "", kv.InMemory())
	_, done, err := s.DrainSlice(1)
	require.NoError(t, err)
	require.True(t, done)
	require.Zero(t, stats(t, s))
}
