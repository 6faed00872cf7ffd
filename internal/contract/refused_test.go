package contract

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/internal/subject"
	"github.com/forebay-streams/forebay/store"
)

// A serde that could only panic at its first use is refused by name, before anything is
// made on disk.
func TestNilSerdesAreRefused(t *testing.T) {
	whole, half := store.Bytes(), store.SerdeFuncs(func(b []byte) ([]byte, error) { return b, nil }, nil)
	families(t, func(t *testing.T, f subject.Family) {
		for _, bad := range []store.Serde[[]byte]{nil, half} {
			dir := taskDir(t)
			for name, serdes := range map[string][2]store.Serde[[]byte]{"key": {bad, whole}, "value": {whole, bad}} {
				for _, memory := range []bool{false, true} {
					_, err := subject.Open(f, dir, "store", serdes[0], serdes[1], subject.Config{Layout: store.WithHeaders, Memory: memory})
					require.ErrorIs(t, err, store.ErrConfig)
					require.ErrorContains(t, err, "the "+name+" serde")
					require.ErrorContains(t, err, `store "store": open`)
				}
			}
			require.NoDirExists(t, dir)
		}
	})
}

// bytesOf hashes every file below a directory.
func bytesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			out[path] = "directory"
			return err
		}
		b, err := os.ReadFile(path)
		sum := sha256.Sum256(b)
		out[path] = hex.EncodeToString(sum[:])
		return err
	}))
	return out
}

// databases are the directories of a store's databases, oldest first.
func databases(t *testing.T, f subject.Family, dir string) []string {
	t.Helper()
	if !f.Segmented() {
		return []string{filepath.Join(dir, "rocksdb", "store")}
	}
	found, err := filepath.Glob(filepath.Join(dir, "store", "store.*"))
	require.NoError(t, err)
	require.Len(t, found, 2)
	return found
}

// A directory that is refused keeps every byte, whatever forbids to open it, and whichever
// of its segments.
func TestRefusedDirectoriesStayAsTheyAre(t *testing.T) {
	long := []byte{0, 0, 0, 0, 0, 0, 0, 1}
	for name, c := range map[string]struct {
		key         string
		value       []byte
		exactlyOnce bool
		want        error
	}{
		"status":            {"status", long, true, store.ErrTaskCorrupted},
		"size of status":    {"status", long[1:], false, store.ErrCorrupt},
		"size of offset":    {"app-store-changelog-0", long[:3], false, store.ErrCorrupt},
		"bytes of position": {"position", []byte{9, 9}, false, store.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			families(t, func(t *testing.T, f subject.Family) {
				config := subject.Config{Layout: store.WithHeaders, Log: &log{}, ExactlyOnce: c.exactlyOnce}
				dir := taskDir(t)
				s := kind{f, config}.open(t, dir)
				require.NoError(t, s.Put(f.At("a", 1), value("1")))
				require.NoError(t, s.Put(f.At("a", 3_000_000_000), value("1")))
				require.NoError(t, s.Commit(ctx))
				require.NoError(t, s.Close())
				list := databases(t, f, dir)
				plant(t, list[len(list)-1], c.key, c.value)
				before := bytesOf(t, dir)
				_, err := f.Open(dir, "store", config)
				require.ErrorIs(t, err, c.want)
				var named *store.Error
				require.True(t, errors.As(err, &named))
				require.Equal(t, before, bytesOf(t, dir))
			})
		})
	}
	t.Run("checkpoint file", func(t *testing.T) {
		families(t, func(t *testing.T, f subject.Family) {
			config := subject.Config{Layout: store.WithHeaders, Log: &log{}}
			dir := taskDir(t)
			s := kind{f, config}.open(t, dir)
			require.NoError(t, s.Put(f.At("a", 1), value("1")))
			require.NoError(t, s.Commit(ctx))
			require.NoError(t, s.Close())
			require.NoError(t, os.WriteFile(filepath.Join(dir, ".checkpoint"), []byte("0\nnonsense\n"), 0o644))
			before := bytesOf(t, dir)
			_, err := f.Open(dir, "store", config)
			require.ErrorIs(t, err, store.ErrCorrupt)
			require.Equal(t, before, bytesOf(t, dir))
		})
	})
}

// plant writes a key of the offsets family past the store.
func plant(t *testing.T, dir, key string, value []byte) {
	t.Helper()
	families, err := rocks.List(dir)
	require.NoError(t, err)
	db, err := rocks.Open(dir, families, families, nil)
	require.NoError(t, err)
	defer db.Close()
	batch := db.NewBatch(0)
	defer batch.Close()
	batch.Put(db.Family(rocks.Offsets), []byte(key), value)
	require.NoError(t, batch.Write())
	require.NoError(t, db.Flush())
}
