//go:build failpoints

package migration_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/failpoint"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

// The files of every moment at which a bulk load could be killed hold a prefix of the changelog
// and its offset, or count as none.
func TestKilledBulkLoad(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(10) {
		c := bulkConfig(t, 8000)
		table := open(t, c)
		// Three runs at most: from four on RocksDB compacts offsets, and files go while they are
		// copied.
		l := newBulkLoad(rand.New(rand.NewPCG(5, seed)), 12)
		copies := t.TempDir()
		var marks []string
		var failed error // the hook is not on the test's goroutine
		failpoint.Set(func(name string) {
			failed = errors.Join(failed, os.CopyFS(filepath.Join(copies, fmt.Sprint(len(marks))), os.DirFS(c.Dir)))
			marks = append(marks, name)
		})
		defer failpoint.Set(nil)
		begin(t, table)
		for b := range l.batches {
			l.add(t, table, b)
		}
		require.NoError(t, table.EndBulk())
		failpoint.Set(nil)
		require.NoError(t, failed)
		require.LessOrEqual(t, strings.Count(strings.Join(marks, " "), "bulk/joined"), 3)

		for i, mark := range marks {
			seen[mark]++
			killed := c
			killed.Dir = filepath.Join(copies, fmt.Sprint(i))
			_, err := os.Stat(filepath.Join(killed.Dir, bulkMark))
			table, e := migration.Open(killed)
			require.NoError(t, e)
			done := l.requirePrefix(t, table)
			if err == nil {
				require.Zero(t, done, mark)
			} else if done > 0 {
				seen["progress"]++
			}
			require.NoError(t, table.Close())
		}
	}
	for _, mark := range []string{"bulk/written", "bulk/marked", "bulk/joined", "bulk/committed", "progress"} {
		assert.Greater(t, seen[mark], 10, mark)
	}
}

// After a failure behind the join, nothing is committed any more.
func TestTornBulkLoad(t *testing.T) {
	c := bulkConfig(t, 600)
	l := newBulkLoad(rand.New(rand.NewPCG(6, 6)), 40)
	table, err := migration.Open(c)
	require.NoError(t, err)
	failpoint.Set(func(name string) {
		if name == "bulk/marked" {
			_ = os.Remove(filepath.Join(c.Dir, bulkDir, "run.sst"))
		}
	})
	defer failpoint.Set(nil)
	begin(t, table)
	for b := range l.batches {
		if _, err = table.AddBulk(l.batches[b], commitAt(l.offset(b))); err != nil {
			break
		}
	}
	require.Error(t, err)
	require.ErrorIs(t, table.EndBulk(), err)
	failpoint.Set(nil)
	err = table.Commit(nil, commitAt(5))
	require.ErrorIs(t, err, store.ErrFailed)
	require.False(t, errors.Is(err, store.ErrCorrupt))
	ok, err := table.BeginBulk()
	require.NoError(t, err)
	require.False(t, ok)
	require.NoError(t, table.Close())

	table = open(t, c) // which empties it
	require.Zero(t, l.requirePrefix(t, table))
	begin(t, table)
	l.add(t, table, 0)
	require.NoError(t, table.EndBulk())
	require.Equal(t, 1, l.requirePrefix(t, table))
}
