package migration

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/store"
)

// T7 for scans and snapshots, with keys that move forth and, what no store does, back:
// so every commit is one that a scan without a common snapshot would miss.
func TestScansOfMovingKeys(t *testing.T) {
	const keys, moves = 3, 1000
	dir := t.TempDir()
	db, err := rocks.Open(dir, []string{rocks.Default, TimestampedFamily, rocks.Offsets}, nil, nil)
	require.NoError(t, err)
	legacy := make([]byte, 9)
	var changes []store.Change
	back := func(db *rocks.DB) {
		batch := db.NewBatch(0)
		defer batch.Close()
		for _, c := range changes {
			if f := db.Family(HeadersFamily); f != nil {
				batch.Delete(f, c.Key)
			}
			batch.Put(db.Family(TimestampedFamily), c.Key, legacy)
		}
		require.NoError(t, batch.Write())
	}
	for i := range keys {
		changes = append(changes, store.Change{Key: fmt.Append(nil, i), Row: store.Row{Value: []byte("new")}})
	}
	back(db)
	db.Close()
	formats, err := KeyValueFormats(store.WithHeaders)
	require.NoError(t, err)
	table, err := Open(Config{Dir: dir, Formats: formats})
	require.NoError(t, err)
	require.True(t, table.Migrating())

	all := func(r base.Reader, reverse bool) error {
		c := r.Scan(base.Span{Reverse: reverse})
		defer c.Close()
		n := 0
		for c.Next() {
			n++
		}
		if c.Err() == nil && n != keys {
			return fmt.Errorf("%d keys, reverse %v", n, reverse)
		}
		return c.Err()
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for _, read := range []func() error{
		func() error { return all(table, false) },
		func() error { return all(table, true) },
		func() error {
			s, err := table.Snapshot()
			if err != nil {
				return err
			}
			defer s.Close()
			for _, c := range changes {
				if _, ok, err := s.Get(c.Key, new([]byte)); err != nil || !ok {
					return fmt.Errorf("key %s: found %v, %w", c.Key, ok, err)
				}
			}
			return all(s, false)
		},
	} {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := read(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range moves {
		require.NoError(t, table.Commit(changes, base.Checkpoint{}))
		back(table.state.Load().db)
	}
	close(done)
	readers.Wait()
	require.NoError(t, table.Close())
	require.Zero(t, rocks.Live())
}
