package memory_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/base/basetest"
	"github.com/forebay-streams/forebay/internal/memory"
	"github.com/forebay-streams/forebay/store"
)

func TestContract(t *testing.T) {
	for _, layout := range []store.Layout{store.Plain, store.Timestamped, store.WithHeaders, store.Aggregation} {
		t.Run(layout.String(), func(t *testing.T) {
			basetest.Run(t, basetest.Case{
				Layout: layout,
				Open:   func(*testing.T) base.Table { return memory.New(layout) },
			})
		})
	}
}

func TestCountIsExact(t *testing.T) {
	table := memory.New(store.Plain)
	change := func(key string, value []byte) store.Change {
		return store.Change{Key: []byte(key), Row: store.Row{Value: value}}
	}
	commit := func(want int64, changes ...store.Change) {
		t.Helper()
		require.NoError(t, table.Commit(changes, base.Checkpoint{}))
		n, err := table.ApproximateCount()
		require.NoError(t, err)
		assert.Equal(t, want, n)
	}
	commit(0)
	commit(2, change("a", []byte{}), change("b", []byte("v")))
	commit(2, change("a", []byte("new")), change("absent", nil))
	commit(1, change("b", nil))
	require.NoError(t, table.Wipe())
	commit(0)
}

func TestSnapshotSurvivesWipeAndClose(t *testing.T) {
	table := memory.New(store.Timestamped)
	row := store.Row{Value: []byte("v"), Timestamp: 5}
	require.NoError(t, table.Commit([]store.Change{{Key: []byte("k"), Row: row}}, base.Checkpoint{}))
	snapshot, err := table.Snapshot()
	require.NoError(t, err)
	require.NoError(t, table.Wipe())
	require.NoError(t, table.Close())
	got, ok, err := snapshot.Get([]byte("k"), nil)
	require.NoError(t, err)
	assert.True(t, ok)
	assert.Equal(t, row, got)
	basetest.RequireRows(t, []store.Change{{Key: []byte("k"), Row: row}}, snapshot.Scan(base.Span{Reverse: true}))
}

// Readers see a commit whole or not at all while the owner goes on.
func TestReadersWhileTheOwnerWrites(t *testing.T) {
	const keys, rounds = 200, 200
	table := memory.New(store.Timestamped)
	commit := func(round int64) {
		changes := make([]store.Change, keys)
		for i := range changes {
			changes[i] = store.Change{Key: fmt.Appendf(nil, "%03d", i), Row: store.Row{Value: []byte("v"), Timestamp: round}}
		}
		require.NoError(t, table.Commit(changes, base.Checkpoint{Logged: true, Offset: round}))
	}
	commit(0)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for i := range 3 {
		readers.Go(func() {
			last := int64(0)
			for {
				select {
				case <-done:
					return
				default:
				}
				scan := table.Scan(base.Span{Reverse: i == 0})
				rows, err := basetest.Read(scan)
				scan.Close()
				if !assert.NoError(t, err) || !assert.Len(t, rows, keys) || !assert.GreaterOrEqual(t, rows[0].Timestamp, last) {
					return
				}
				last = rows[0].Timestamp
				for _, r := range rows {
					if !assert.Equal(t, last, r.Timestamp) {
						return
					}
				}
				if row, ok, err := table.Get([]byte("007"), nil); !assert.NoError(t, err) || !assert.True(t, ok) || !assert.GreaterOrEqual(t, row.Timestamp, last) {
					return
				}
			}
		})
	}
	for round := range int64(rounds) {
		commit(round + 1)
	}
	close(done)
	readers.Wait()
}
