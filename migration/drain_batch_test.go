package migration

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/store"
)

// Large rows end a slice by their bytes, before it has as many rows as asked for: that
// is not the end of the drain.
func TestDrainOfLargeRows(t *testing.T) {
	for _, from := range []string{rocks.Default, TimestampedFamily} {
		t.Run(from, func(t *testing.T) {
			const rows = 12
			large := strings.Repeat("v", moveBytes/4)
			families := []family{{name: rocks.Default}, {name: rocks.Offsets}}
			stored := many(rows, func(int) string { return stamp + large })
			if from == rocks.Default {
				families[0].rows = stored
			} else {
				families = append(families, family{from, stored})
			}
			dir := build(t, families...)
			table := openTable(t, dir, store.WithHeaders)
			total, slices := 0, 0
			for done := false; !done; slices++ {
				var moved int
				var err error
				moved, done, err = table.DrainSlice(1000)
				require.NoError(t, err)
				total += moved
				require.Equal(t, rows, count(t, table), "after slice %d", slices)
			}
			assert.Equal(t, rows, total)
			assert.GreaterOrEqual(t, slices, 3)
			assert.False(t, table.Migrating())
			require.NoError(t, table.Close())
			left := contents(t, dir)
			assert.Len(t, left[HeadersFamily], rows)
			assert.Empty(t, left[from])
		})
	}
}

func count(t *testing.T, table *Table) int {
	t.Helper()
	c := table.Scan(base.Span{})
	defer c.Close()
	n := 0
	for c.Next() {
		n++
	}
	require.NoError(t, c.Err())
	return n
}

// A slice that could not be written is tried again from where it began: none of its rows
// is passed over, and the family they are in stays.
func TestDrainAfterAFailedSlice(t *testing.T) {
	dir := build(t, family{name: rocks.Default}, family{TimestampedFamily, many(20, func(int) string { return stamp + "v" })}, family{name: rocks.Offsets})
	before := contents(t, dir)
	listed, err := rocks.List(dir)
	require.NoError(t, err)
	db, err := rocks.OpenReadOnly(dir, listed, t.TempDir()) // reads work, writes fail
	require.NoError(t, err)
	defer db.Close()
	formats, err := KeyValueFormats(store.Timestamped)
	require.NoError(t, err)
	table := &Table{config: Config{Dir: dir, Store: "store", Formats: formats}}
	legacy := &source{store: "store", family: db.Family(TimestampedFamily), layout: store.Timestamped}
	table.state.Store(&state{db: db, rows: source{store: "store", family: db.Family(rocks.Default), layout: store.WithHeaders}, legacy: legacy, offsets: db.Family(rocks.Offsets)})
	for range 3 {
		moved, done, err := table.DrainSlice(8)
		require.Error(t, err)
		assert.False(t, done)
		assert.Zero(t, moved)
		assert.Empty(t, table.drainFrom)
		assert.Equal(t, 20, count(t, table))
	}
	stats, err := table.Stats()
	require.NoError(t, err)
	assert.Zero(t, stats.Migrated)
	assert.Equal(t, before, contents(t, dir))
}
