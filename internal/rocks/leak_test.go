//go:build !race

// The race detector has memory of its own, which grows.

package rocks

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/store"
)

// resident is the number of bytes of the process in memory.
func resident(t *testing.T) int {
	t.Helper()
	debug.FreeOSMemory()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip("no /proc/self/statm here")
	}
	var size, pages int
	_, err = fmt.Sscan(string(b), &size, &pages)
	require.NoError(t, err)
	return pages * os.Getpagesize()
}

// flat checks that doing something many times takes no memory for good. Once before, so
// that caches and pools are there.
func flat(t *testing.T, times int, do func()) {
	t.Helper()
	for range times / 10 {
		do()
	}
	before := resident(t)
	for range times {
		do()
	}
	more := resident(t) - before
	t.Logf("%d bytes more after %d times", more, times)
	assert.Less(t, more, 8<<20)
}

// AK #7050: write batches were never freed.
func TestManyBatchesTakeNoMemory(t *testing.T) {
	db, f := newDB(t)
	row := store.Row{Value: []byte(strings.Repeat("v", 100))}
	flat(t, 5_000, func() {
		batch := db.NewBatch(0)
		batch.PutRow(f, []byte("k"), store.WithHeaders, &row)
		require.NoError(t, batch.Write())
		batch.Close()
	})
}

func TestManyScansTakeNoMemory(t *testing.T) {
	db, f := newDB(t)
	for i := range 10 {
		put(t, db, f, [2]string{fmt.Sprint(i), "v"})
	}
	from, to := append([]byte("2"), make([]byte, 400)...), append([]byte("7"), make([]byte, 400)...)
	flat(t, 60_000, func() {
		scan := db.Scan(f, base.Span{From: from, To: to})
		require.True(t, scan.Next())
		scan.Close()
	})
}

func TestManySnapshotsTakeNoMemory(t *testing.T) {
	db, f := newDB(t)
	put(t, db, f, [2]string{"k", "v"})
	var scratch []byte
	flat(t, 100_000, func() {
		snapshot, err := db.Snapshot()
		require.NoError(t, err)
		_, _, err = snapshot.Get(f, []byte("k"), &scratch)
		require.NoError(t, err)
		snapshot.Close()
	})
}

func TestManyOpensTakeNoMemory(t *testing.T) {
	noLeaks(t)
	dir := t.TempDir()
	open(t, dir).Close()
	flat(t, 60, func() {
		db, err := Open(dir, families, families, nil)
		require.NoError(t, err)
		db.Close()
		_, err = Open(dir, families[:1], families, nil)
		require.Error(t, err)
	})
}

func TestManyPairsTakeNoMemory(t *testing.T) {
	db, f := newDB(t)
	put(t, db, f, [2]string{"k", "v"})
	from := append([]byte("k"), make([]byte, 400)...)
	flat(t, 40_000, func() {
		first, second := db.ScanPair(f, db.Family(Default), base.Span{From: from, To: from})
		first.Next()
		second.Close()
		first.Close()
	})
}
