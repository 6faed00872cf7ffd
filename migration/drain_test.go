package migration

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/store"
)

// drainable makes a table a Drainable, as a store does.
type drainable struct{ *Table }

func (d drainable) Migration() (Stats, error) { return d.Stats() }

func TestDrainFinishesAMigration(t *testing.T) {
	const rows = 2500
	for _, c := range []struct {
		family string
		old    string
		want   string
		left   []string
	}{
		{rocks.Default, "v", "\x00" + absent + "v", []string{rocks.Default, rocks.Offsets, HeadersFamily}},
		{TimestampedFamily, stamp + "v", "\x00" + stamp + "v", []string{rocks.Default, rocks.Offsets, HeadersFamily}},
	} {
		families := []family{{name: rocks.Default}}
		legacy := family{c.family, many(rows, func(int) string { return c.old })}
		if c.family == rocks.Default {
			families[0] = legacy
		} else {
			families = append(families, legacy)
		}
		families = append(families, family{name: rocks.Offsets})
		dir := build(t, families...)
		table := openTable(t, dir, store.WithHeaders)
		require.NoError(t, table.Commit([]store.Change{
			{Key: []byte("k00007"), Row: store.Row{Value: []byte("new"), Timestamp: 7}},
			{Key: []byte("k00008")},
		}, base.Checkpoint{Logged: true, Offset: 5}))

		var progress []DrainProgress
		drain := NewDrain(drainable{table}, SliceRows(1000), OnProgress(func(p DrainProgress) { progress = append(progress, p) }))
		steps := 0
		for done := false; !done; steps++ {
			var err error
			done, err = drain.Step()
			require.NoError(t, err)
		}
		require.Equal(t, 3, steps)
		require.EqualValues(t, rows-2, progress[2].Moved)
		require.True(t, progress[2].Done)
		require.Zero(t, progress[2].Left)
		stats, err := table.Stats()
		require.NoError(t, err)
		require.Equal(t, Stats{Migrated: rows}, stats, "two by a write, the others by the drain")
		done, err := drain.Step()
		require.NoError(t, err)
		require.True(t, done, "a step too many does nothing")
		require.NoError(t, table.Close())

		listed, err := rocks.List(dir)
		require.NoError(t, err)
		require.Equal(t, c.left, listed)
		now := contents(t, dir)
		require.Empty(t, now[rocks.Default])
		want := many(rows, func(int) string { return c.want })
		want["k00007"] = "\x00\x00\x00\x00\x00\x00\x00\x00\x07new"
		delete(want, "k00008")
		require.Equal(t, want, now[HeadersFamily])
		require.Equal(t, "\x00\x00\x00\x00\x00\x00\x00\x05", now[rocks.Offsets]["app-store-changelog-0"], "a drain leaves the offset alone")
	}
}

// Rows that a crash of Kafka Streams left in both families: the newer one stays.
func TestDrainKeepsTheNewRowOfEqualKeys(t *testing.T) {
	dir := build(t, family{rocks.Default, map[string]string{"a": "old", "b": "old"}},
		family{HeadersFamily, map[string]string{"a": header + stamp + "new"}}, family{name: rocks.Offsets})
	table := openTable(t, dir, store.WithHeaders)
	moved, done, err := table.DrainSlice(10)
	require.NoError(t, err)
	require.True(t, done)
	require.Equal(t, 2, moved)
	require.NoError(t, table.Close())
	require.Equal(t, map[string]string{"a": header + stamp + "new", "b": "\x00" + absent + "old"}, contents(t, dir)[HeadersFamily])
}

// An interrupted drain goes on in the next process, where the rows are.
func TestDrainGoesOnAfterReopen(t *testing.T) {
	dir := build(t, family{rocks.Default, many(100, func(int) string { return "v" })}, family{name: rocks.Offsets})
	for i, step := range []int{30, 30, 100} {
		table := openTable(t, dir, store.WithHeaders)
		moved, done, err := table.DrainSlice(step)
		require.NoError(t, err)
		require.Equal(t, []int{30, 30, 40}[i], moved)
		require.Equal(t, i == 2, done)
		require.NoError(t, table.Close())
	}
	require.Len(t, contents(t, dir)[HeadersFamily], 100)
}

func TestDrainStopsAtACorruptRow(t *testing.T) {
	dir := build(t, family{name: rocks.Default}, family{TimestampedFamily, map[string]string{"a": stamp + "v", "b": "short"}}, family{name: rocks.Offsets})
	table := openTable(t, dir, store.WithHeaders)
	_, done, err := table.DrainSlice(10)
	require.ErrorIs(t, err, store.ErrCorrupt)
	require.False(t, done)
	var corrupt *store.CorruptError
	require.ErrorAs(t, err, &corrupt)
	require.Equal(t, []string{"b", TimestampedFamily}, []string{string(corrupt.Key), corrupt.Family})
	row, ok, err := table.Get([]byte("a"), new([]byte))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "v", string(row.Value))
}

func TestDrainRate(t *testing.T) {
	dir := build(t, family{rocks.Default, many(100, func(int) string { return "v" })}, family{name: rocks.Offsets})
	table := openTable(t, dir, store.WithHeaders)
	drain := NewDrain(drainable{table}, RowsPerSecond(0.001))
	for range 5 {
		done, err := drain.Step()
		require.NoError(t, err)
		require.False(t, done)
	}
	require.EqualValues(t, 1, drain.moved, "one row at once, the next after a quarter of an hour")
}

// Foreign readers see every key all the time while a drain moves the rows and at last
// drops the family.
func TestReadersDuringADrain(t *testing.T) {
	const rows = 3000
	dir := build(t, family{name: rocks.Default}, family{TimestampedFamily, many(rows, func(int) string { return stamp + "v" })}, family{name: rocks.Offsets})
	table := openTable(t, dir, store.WithHeaders)
	var stop atomic.Bool
	var readers sync.WaitGroup
	for i := range 4 {
		readers.Go(func() {
			var scratch []byte
			for n := i; !stop.Load(); n += 7 {
				if i < 2 {
					key := []byte("k00000")
					for j, d := 5, n%rows; d > 0; j, d = j-1, d/10 {
						key[j] = byte('0' + d%10)
					}
					if _, ok, err := table.Get(key, &scratch); !ok || err != nil {
						t.Errorf("%s is missing: %v", key, err)
						return
					}
					continue
				}
				count := 0
				c := table.Scan(base.Span{Reverse: i == 3})
				for c.Next() {
					count++
				}
				if c.Close(); count != rows || c.Err() != nil {
					t.Errorf("%d rows: %v", count, c.Err())
					return
				}
			}
		})
	}
	for done := false; !done; {
		var err error
		_, done, err = table.DrainSlice(50)
		require.NoError(t, err)
	}
	stop.Store(true)
	readers.Wait()
}
