package rocks

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base/basetest"
	"github.com/forebay-streams/forebay/store"
)

func TestFamiliesAreMadeInTheOrderWanted(t *testing.T) {
	noLeaks(t)
	dir := filepath.Join(t.TempDir(), "below", "new")
	create := func(wanted ...string) {
		t.Helper()
		listed, err := List(dir)
		require.NoError(t, err)
		db, err := Open(dir, wanted, listed, nil)
		require.NoError(t, err)
		defer db.Close()
		for _, name := range wanted {
			require.NotNil(t, db.Family(name), name)
			assert.Equal(t, name, db.Family(name).Name)
			put(t, db, db.Family(name), [2]string{"key", "of " + name})
		}
		assert.Nil(t, db.Family("unknown"))
	}
	expect := func(want ...string) {
		t.Helper()
		listed, err := List(dir)
		require.NoError(t, err)
		assert.Equal(t, want, listed, "in order of their ids")
	}
	create(Default, "z", Offsets)
	expect(Default, "z", Offsets)
	create(Default, "z", "a", Offsets, "b")
	expect(Default, "z", Offsets, "a", "b")

	// Handles are matched by name, whatever the order.
	db, err := Open(dir, []string{Default, Offsets, "b", "a", "z"}, []string{Default, "z", Offsets, "a", "b"}, nil)
	require.NoError(t, err)
	defer db.Close()
	for _, name := range []string{Default, "z", Offsets, "a", "b"} {
		assert.Equal(t, `"of `+name+`"`, get(t, db, db.Family(name), "key"))
	}
}

func TestCloseReachesTheDisk(t *testing.T) {
	noLeaks(t)
	dir := t.TempDir()
	db := open(t, dir)
	put(t, db, db.Family("rows"), [2]string{"a", "1"})
	put(t, db, db.Family(Offsets), [2]string{"o", "2"})
	db.Close()
	db = open(t, dir)
	assert.Equal(t, `"1"`, get(t, db, db.Family("rows"), "a"))
	assert.Equal(t, `"2"`, get(t, db, db.Family(Offsets), "o"))
}

func TestListOfNoDatabase(t *testing.T) {
	noLeaks(t)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "stray"), nil, 0o600))
	before := basetest.Files(t, dir)
	for _, d := range []string{dir, filepath.Join(dir, "missing"), filepath.Join(dir, "missing", "too")} {
		listed, err := List(d)
		require.NoError(t, err)
		assert.Empty(t, listed)
	}
	assert.Equal(t, before, basetest.Files(t, dir))
}

func TestListChangesNothing(t *testing.T) {
	noLeaks(t)
	dir := t.TempDir()
	open(t, dir).Close()
	before := basetest.Files(t, dir)
	_, err := List(dir)
	require.NoError(t, err)
	assert.Equal(t, before, basetest.Files(t, dir))
}

func TestListReportsOtherErrors(t *testing.T) {
	noLeaks(t)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := List(file)
	require.Error(t, err, "a file where a directory is expected")

	dir := t.TempDir()
	open(t, dir).Close()
	damage(t, dir, "CURRENT")
	_, err = List(dir)
	require.Error(t, err)
}

// RocksDB takes what it cannot read of a manifest for its end when it lists; opening
// fails.
func TestDamagedManifest(t *testing.T) {
	for name, content := range map[string][]byte{"empty": {}, "torn": []byte("damage"), "garbage": bytes.Repeat([]byte("damage"), 99)} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			dir := t.TempDir()
			open(t, dir).Close()
			manifests, err := filepath.Glob(filepath.Join(dir, "MANIFEST-*"))
			require.NoError(t, err)
			require.Len(t, manifests, 1)
			require.NoError(t, os.WriteFile(manifests[0], content, 0o600))
			listed, err := List(dir)
			if err == nil {
				_, err = Open(dir, families, listed, nil)
			}
			require.Error(t, err)
		})
	}
}

// damage overwrites a file.
func damage(t *testing.T, dir, pattern string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		require.NoError(t, os.WriteFile(f, bytes.Repeat([]byte("damaged "), 20), 0o600))
	}
}

// AK #21751: a failed open frees all that it had made, at each step.
func TestFailedOpensFreeEverything(t *testing.T) {
	budget := store.NewBudget(0, store.WriteBuffers(1<<20))
	for name, c := range map[string]struct {
		prepare        func(t *testing.T, dir string)
		wanted, listed []string
	}{
		"family on disk not wanted": {nil, []string{Default, Offsets}, families},
		"family on disk not listed": {nil, families, []string{Default, Offsets}},
		"listed family not on disk": {nil, []string{Default, "rows", "more", Offsets}, []string{Default, "rows", "more", Offsets}},
		"created twice":             {nil, []string{Default, "rows", Offsets, "more", "more"}, families},
		"CURRENT":                   {func(t *testing.T, dir string) { damage(t, dir, "CURRENT") }, families, families},
		"MANIFEST":                  {func(t *testing.T, dir string) { damage(t, dir, "MANIFEST-*") }, families, families},
		"a file missing": {func(t *testing.T, dir string) {
			files, err := filepath.Glob(filepath.Join(dir, "*.sst"))
			require.NoError(t, err)
			require.NotEmpty(t, files)
			require.NoError(t, os.Remove(files[0]))
		}, families, families},
		"locked": {func(t *testing.T, dir string) { open(t, dir) }, families, families},
		"a file instead of the directory": {func(t *testing.T, dir string) {
			require.NoError(t, os.RemoveAll(dir))
			require.NoError(t, os.WriteFile(dir, nil, 0o600))
		}, families, nil},
		"not writable": {func(t *testing.T, dir string) {
			if os.Geteuid() == 0 {
				t.Skip("root writes everywhere")
			}
			require.NoError(t, os.Chmod(dir, 0o500))
			t.Cleanup(func() { require.NoError(t, os.Chmod(dir, 0o700)) })
		}, families, families},
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			dir := filepath.Join(t.TempDir(), "db")
			db := open(t, dir)
			put(t, db, db.Family("rows"), [2]string{"k", "v"})
			db.Close()
			if c.prepare != nil {
				c.prepare(t, dir)
			}
			live := Live()
			_, err := Open(dir, c.wanted, c.listed, budget)
			require.ErrorContains(t, err, dir)
			assert.Equal(t, live, Live())
			assert.Empty(t, sharedBy)
		})
	}
}

func TestDroppedFamily(t *testing.T) {
	noLeaks(t)
	dir := t.TempDir()
	db := open(t, dir)
	put(t, db, db.Family("rows"), [2]string{"k", "v"})
	require.NoError(t, db.Drop(db.Family("rows")))
	put(t, db, db.Family(Default), [2]string{"k", "v"})
	put(t, db, db.Family(Offsets), [2]string{"o", "v"})
	require.NoError(t, db.Flush(), "of the others")
	assert.Nil(t, db.Family("rows"))
	db.Close()
	listed, err := List(dir)
	require.NoError(t, err)
	assert.Equal(t, []string{Default, Offsets}, listed)
	db = open(t, dir)
	assert.Empty(t, all(t, db, db.Family("rows")), "made anew")
	assert.Equal(t, `"v"`, get(t, db, db.Family(Default), "k"))
	assert.Equal(t, `"v"`, get(t, db, db.Family(Offsets), "o"))
}
