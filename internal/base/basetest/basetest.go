// Package basetest holds what the tests of tables share: the contract of base.Table
// against a plain map, and helpers around cursors and files.
package basetest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/store"
)

// Rand returns a generator whose seed a failed test prints.
func Rand(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

// Rows are rows by key.
type Rows map[string]store.Row

// Within returns the rows of a span in its order.
func (m Rows) Within(span base.Span) []store.Change {
	var out []store.Change
	for k, row := range m {
		if key := []byte(k); span.Contains(key) {
			out = append(out, store.Change{Key: key, Row: row})
		}
	}
	slices.SortFunc(out, func(a, b store.Change) int { return bytes.Compare(a.Key, b.Key) })
	if span.Reverse {
		slices.Reverse(out)
	}
	return out
}

// Read returns what is left of a cursor, as rows that share no bytes with it.
func Read(c base.Cursor) ([]store.Change, error) {
	var out []store.Change
	for c.Next() {
		out = append(out, store.Change{Key: append([]byte{}, c.Key()...), Row: c.Row().Clone()})
	}
	return out, c.Err()
}

// RequireRows reads a cursor to its end and closes it.
func RequireRows(t *testing.T, want []store.Change, c base.Cursor, message ...any) {
	t.Helper()
	defer c.Close()
	got, err := Read(c)
	require.NoError(t, err, message...)
	require.Equal(t, Show(want), Show(got), message...)
	require.False(t, c.Next(), "the end stays the end")
	require.NoError(t, c.Err())
}

// Show makes rows readable and comparable.
func Show(rows []store.Change) []string {
	out := make([]string, len(rows))
	for i, c := range rows {
		out[i] = hex.EncodeToString(c.Key) + " = " + ShowRow(c.Row)
	}
	return out
}

// ShowRow is Show for one row.
func ShowRow(r store.Row) string {
	if r.Tombstone() {
		return "tombstone"
	}
	b, err := store.WithHeaders.Encode(r)
	if err != nil {
		return err.Error()
	}
	return hex.EncodeToString(b)
}

// Files returns each file below a directory with a hash of its bytes, and each
// directory. A missing directory has none.
func Files(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			files[path] = "directory"
			return nil
		}
		b, err := os.ReadFile(path)
		sum := sha256.Sum256(b)
		files[path] = hex.EncodeToString(sum[:])
		return err
	})
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	return files
}
