package migration_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/base/basetest"
	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

func TestContract(t *testing.T) {
	run := func(name string, formats []migration.Format, data map[string]raw) {
		target := formats[len(formats)-1]
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			var dir string
			c := config(t, "", store.Plain)
			c.Formats = formats
			reopen := func(t *testing.T) base.Table {
				c.Dir = dir
				table, err := migration.Open(c)
				require.NoError(t, err)
				return table
			}
			basetest.Run(t, basetest.Case{
				Layout: target.Layout,
				Open: func(t *testing.T) base.Table {
					dir = filepath.Join(t.TempDir(), "orders")
					if data != nil {
						families := []string{D, offsets}
						for name := range data {
							if name != D {
								families = append(families, name)
							}
						}
						build(t, dir, families, data)
					}
					return reopen(t)
				},
				Reopen: reopen,
				Rows:   merged(t, formats, data),
			})
		})
	}
	formats := func(layout store.Layout) []migration.Format {
		f, err := migration.KeyValueFormats(layout)
		require.NoError(t, err)
		return f
	}
	run("plain", formats(store.Plain), nil)
	run("timestamped", formats(store.Timestamped), nil)
	run("headers", formats(store.WithHeaders), nil)
	run("plain to timestamped", formats(store.Timestamped), map[string]raw{D: edges(store.Plain, 0)})
	run("plain to headers", formats(store.WithHeaders), map[string]raw{D: edges(store.Plain, 0), HDR: edges(store.WithHeaders, 1)})
	run("timestamped to headers", formats(store.WithHeaders), map[string]raw{TS: edges(store.Timestamped, 0), HDR: edges(store.WithHeaders, 1)})
	session := []migration.Format{{Family: D, Layout: store.Plain}, {Family: "sessionKeyValueWithHeaders", Layout: store.Aggregation}}
	run("aggregation", session, nil)
	run("plain to aggregation", session, map[string]raw{D: edges(store.Plain, 0)})
}

// edges are rows at every second or third of the keys that the contract uses.
func edges(layout store.Layout, skip int) raw {
	rows, n := raw{}, 0
	ends := []string{"", "\x00", "\x01", "\x7f", "\xff"}
	for _, a := range ends {
		for _, b := range ends {
			for _, c := range ends {
				if n++; n%(2+skip) == 0 {
					rows[a+b+c] = stored(layout, fmt.Sprint("stored ", n), int64(n))
				}
			}
		}
	}
	return rows
}

func merged(t *testing.T, formats []migration.Format, data map[string]raw) basetest.Rows {
	target := formats[len(formats)-1].Layout
	rows := basetest.Rows{}
	for _, f := range formats {
		for k, v := range data[f.Family] {
			b, err := f.Layout.Convert(nil, target, []byte(v))
			require.NoError(t, err)
			rows[k], err = target.Decode(b)
			require.NoError(t, err)
		}
	}
	return rows
}

func TestWipe(t *testing.T) {
	noLeaks(t)
	dir := filepath.Join(t.TempDir(), "orders")
	build(t, dir, []string{D, TS, offsets}, map[string]raw{
		TS: {"a": ts8(1) + "1", "b": ts8(2)}, offsets: {"status": ts8(1), "extra": "x"}})
	table := open(t, config(t, dir, store.WithHeaders))
	require.NoError(t, table.Commit([]store.Change{change("c", row("3", 3))}, base.Checkpoint{Logged: true, Offset: 8, Position: orders()}))
	snapshot, err := table.Snapshot()
	require.NoError(t, err)
	defer snapshot.Close()
	begun := table.Scan(base.Span{})
	defer begun.Close()

	require.NoError(t, table.Wipe())
	assert.Empty(t, scan(t, table, base.Span{}))
	assert.Equal(t, "absent", get(t, table, "a"))
	assert.False(t, table.Migrating())
	c, ok := table.Checkpoint()
	assert.False(t, ok)
	assert.Equal(t, base.Checkpoint{Offset: store.UnknownOffset}, c)
	var scratch []byte
	_, _, err = snapshot.Get([]byte("a"), &scratch)
	require.ErrorIs(t, err, store.ErrClosed)
	assert.False(t, begun.Next())
	require.ErrorIs(t, begun.Err(), store.ErrClosed)
	assert.Equal(t, []string{D, HDR, offsets}, list(t, dir))

	commit(t, table, 1, change("new", row("v", 1)))
	require.NoError(t, table.Close())
	assert.Equal(t, map[string]raw{D: {}, HDR: {"new": stored1("v", 1)}, offsets: {"app-orders-changelog-3": ts8(1), "position": emptyPosition}}, dump(t, dir))
}

// stored1 is a headers row without headers.
func stored1(value string, ts int64) string { return "\x00" + ts8(ts) + value }

// Offset and position in files of the task belong to the rows that go.
func TestWipeForgetsFilesToo(t *testing.T) {
	noLeaks(t)
	task := t.TempDir()
	checkpoints, positions := filepath.Join(task, ".checkpoint"), filepath.Join(task, "orders.position")
	others := "0\n1\nanother-changelog 0 7\n"
	require.NoError(t, os.WriteFile(positions, []byte("0\n1\nin 0 9\n"), 0o600))
	require.NoError(t, os.WriteFile(checkpoints, []byte("0\n2\napp-orders-changelog 3 42\nanother-changelog 0 7\n"), 0o600))
	c := config(t, filepath.Join(task, "rocksdb", "orders"), store.WithHeaders)
	c.TaskDir = task
	table := open(t, c)
	got, ok := table.Checkpoint()
	require.True(t, ok)
	require.Equal(t, int64(42), got.Offset)
	require.Equal(t, "{in-0:9}", got.Position.String())
	require.NoError(t, os.WriteFile(checkpoints, []byte("0\n2\napp-orders-changelog 3 43\nanother-changelog 0 7\n"), 0o600))
	require.NoError(t, table.Wipe())
	for range 2 {
		got, ok = table.Checkpoint()
		assert.False(t, ok)
		assert.Equal(t, base.Checkpoint{Offset: store.UnknownOffset}, got)
		require.NoError(t, table.Close())
		table = open(t, c)
	}
	left, err := os.ReadFile(checkpoints)
	require.NoError(t, err)
	assert.Equal(t, others, string(left))
	assert.NoFileExists(t, positions)
}

func TestFailedWipeCanBeRepeated(t *testing.T) {
	noLeaks(t)
	parent := filepath.Join(t.TempDir(), "parent")
	dir := filepath.Join(parent, "orders")
	table := open(t, config(t, dir, store.Plain))
	commit(t, table, 5, change("k", row("v", 1)))
	require.NoError(t, os.RemoveAll(parent))
	require.NoError(t, os.WriteFile(parent, nil, 0o600))
	require.ErrorIs(t, table.Wipe(), store.ErrFailed)
	_, ok := table.Checkpoint()
	assert.False(t, ok, "what it held is gone")
	var scratch []byte
	_, _, err := table.Get([]byte("k"), &scratch)
	require.ErrorIs(t, err, store.ErrClosed)
	assert.Zero(t, rocks.Live())
	require.NoError(t, os.Remove(parent))
	require.NoError(t, table.Wipe())
	assert.Equal(t, "absent", get(t, table, "k"))
	require.NoError(t, table.Close())
	require.ErrorIs(t, table.Wipe(), store.ErrClosed, "a closed table is not opened again")
	assert.Zero(t, rocks.Live())
}

// Close says so when the last commit cannot reach the disk.
func TestCloseReportsAFailedFlush(t *testing.T) {
	noLeaks(t)
	dir := filepath.Join(t.TempDir(), "orders")
	table, err := migration.Open(config(t, dir, store.Plain))
	require.NoError(t, err)
	commit(t, table, 1, change("k", row("v", 1)))
	require.NoError(t, os.RemoveAll(dir))
	require.Error(t, table.Close())
	assert.Zero(t, rocks.Live(), "closed all the same")
	require.NoError(t, table.Close())
}

// ended tells whether a read ended as it may when the table is wiped or closed.
func ended(t *testing.T, err error) bool {
	if err != nil && !errors.Is(err, store.ErrClosed) {
		t.Error(err)
	}
	return err != nil
}

func TestReadersWhileTheOwnerWipesAndCloses(t *testing.T) {
	noLeaks(t)
	dir := filepath.Join(t.TempDir(), "orders")
	build(t, dir, []string{D, offsets}, map[string]raw{D: edges(store.Plain, 0)})
	table := open(t, config(t, dir, store.WithHeaders))
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			var scratch []byte
			for {
				select {
				case <-done:
					return
				default:
				}
				_, _, err := table.Get([]byte("k"), &scratch)
				ended(t, err)
				c := table.Scan(base.Span{})
				_, err = basetest.Read(c)
				ended(t, err)
				c.Close()
				if s, err := table.Snapshot(); !ended(t, err) {
					_, _, err = s.Get([]byte("k"), &scratch)
					ended(t, err)
					s.Close()
				}
				table.Checkpoint()
				table.Migrating()
			}
		})
	}
	for i := range int64(8) {
		require.NoError(t, table.Wipe())
		commit(t, table, i, change("k", row("v", i)))
	}
	require.NoError(t, table.Close())
	close(done)
	readers.Wait()
}

// T7: a key that moves from one family to the other between two look-ups must not be
// missed by readers in other goroutines.
func TestMovingKeysAreNeverMissed(t *testing.T) {
	const keys, group, rounds = 600, 2, 4
	for range rounds {
		noLeaks(t)
		dir := filepath.Join(t.TempDir(), "orders")
		legacy := raw{}
		for i := range keys {
			legacy[fmt.Sprintf("%03d", i)] = ts8(1) + "old"
		}
		build(t, dir, []string{D, TS, offsets}, map[string]raw{TS: legacy})
		table, err := migration.Open(config(t, dir, store.WithHeaders))
		require.NoError(t, err)
		done := make(chan struct{})
		var readers sync.WaitGroup
		reading := func(read func(i int) error) {
			readers.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-done:
						return
					default:
					}
					if err := read(i); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		var scratch [2][]byte
		one := func(r base.Reader, key string, scratch *[]byte) error {
			_, ok, err := r.Get([]byte(key), scratch)
			if err == nil && !ok {
				err = fmt.Errorf("key %s was not found by %T", key, r)
			}
			return err
		}
		every := func(r base.Reader, reverse bool) error {
			c := r.Scan(base.Span{Reverse: reverse})
			defer c.Close()
			n := 0
			for c.Next() {
				want := n
				if reverse {
					want = keys - 1 - n
				}
				if string(c.Key()) != fmt.Sprintf("%03d", want) {
					return fmt.Errorf("key %s instead of %03d", c.Key(), want)
				}
				n++
			}
			if c.Err() == nil && n != keys {
				return fmt.Errorf("%d keys", n)
			}
			return c.Err()
		}
		var moving atomic.Int64 // the key that moves next is where a reader can miss it
		reading(func(int) error { return one(table, fmt.Sprintf("%03d", moving.Load()), &scratch[0]) })
		reading(func(i int) error { return every(table, i%2 == 0) })
		reading(func(i int) error {
			s, err := table.Snapshot()
			if err != nil {
				return err
			}
			defer s.Close()
			if err := one(s, fmt.Sprintf("%03d", i*11%keys), &scratch[1]); err != nil {
				return err
			}
			return every(s, i%2 == 0)
		})
		for pass := range 2 {
			for i := 0; i < keys; i += group {
				var changes []store.Change
				for j := range group {
					changes = append(changes, change(fmt.Sprintf("%03d", i+j), row("new", int64(pass), "h")))
				}
				moving.Store(int64(i + pass))
				commit(t, table, int64(i), changes...)
			}
		}
		close(done)
		readers.Wait()
		assert.True(t, table.Migrating())
		require.NoError(t, table.Close())
		assert.Empty(t, dump(t, dir)[TS])
	}
}
