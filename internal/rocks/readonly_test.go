package rocks

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base/basetest"
)

func TestReadOnlyChangesNoFile(t *testing.T) {
	noLeaks(t)
	dir, logs := t.TempDir(), t.TempDir()
	db := open(t, dir)
	put(t, db, db.Family("rows"), [2]string{"a", "1"}, [2]string{"b", "2"})
	db.Close()
	before := basetest.Files(t, dir)

	db, err := OpenReadOnly(dir, families, logs)
	require.NoError(t, err)
	assert.Equal(t, before, basetest.Files(t, dir), "while open")
	assert.Equal(t, [][2]string{{"a", "1"}, {"b", "2"}}, all(t, db, db.Family("rows")))
	assert.Equal(t, `"2"`, get(t, db, db.Family("rows"), "b"))
	batch := db.NewBatch(0)
	batch.Put(db.Family("rows"), []byte("c"), nil)
	require.Error(t, batch.Write())
	batch.Close()
	db.Close()
	assert.Equal(t, before, basetest.Files(t, dir))
}

// A database that another process has open can be looked at.
func TestReadOnlyBesideAWriter(t *testing.T) {
	noLeaks(t)
	dir := t.TempDir()
	writer := open(t, dir)
	put(t, writer, writer.Family("rows"), [2]string{"a", "1"})
	require.NoError(t, writer.Flush())
	put(t, writer, writer.Family("rows"), [2]string{"b", "2"})
	before := basetest.Files(t, dir)
	db, err := OpenReadOnly(dir, families, t.TempDir())
	require.NoError(t, err)
	defer db.Close()
	assert.Equal(t, [][2]string{{"a", "1"}}, all(t, db, db.Family("rows")), "what was flushed")
	assert.Equal(t, before, basetest.Files(t, dir))
}

func TestFailedReadOnlyOpens(t *testing.T) {
	noLeaks(t)
	missing := filepath.Join(t.TempDir(), "missing")
	_, err := OpenReadOnly(missing, families, t.TempDir())
	require.ErrorContains(t, err, missing)
	assert.Zero(t, Live())

	dir := t.TempDir()
	open(t, dir).Close()
	before := basetest.Files(t, dir)
	_, err = OpenReadOnly(dir, []string{Default, "unknown"}, t.TempDir())
	require.ErrorContains(t, err, dir)
	assert.Zero(t, Live())
	assert.Equal(t, before, basetest.Files(t, dir))
	damage(t, dir, "MANIFEST-*")
	_, err = OpenReadOnly(dir, families, t.TempDir())
	require.Error(t, err)
	assert.Zero(t, Live())
}
