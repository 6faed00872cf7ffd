package rocks

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/store"
)

func TestScanPair(t *testing.T) {
	db, f := newDB(t)
	other := db.Family(Default)
	rows := map[*Family][][2]string{}
	for i := range 300 {
		for j, family := range []*Family{f, other} {
			if i%(2+j) == 0 {
				rows[family] = append(rows[family], [2]string{fmt.Sprintf("%04d", i), family.Name})
			}
		}
	}
	for family, r := range rows {
		put(t, db, family, r...)
	}
	for _, span := range []base.Span{
		{}, {From: []byte("0007"), To: []byte("0100")}, {From: []byte("0100"), To: []byte("0100")},
		{To: []byte("0100"), Exclusive: true}, {From: []byte("0290")}, base.Prefix([]byte("001")), {From: []byte("z")}, {To: []byte{}},
	} {
		for range 2 {
			span.Reverse = !span.Reverse
			first, second := db.ScanPair(f, other, span)
			put(t, db, f, [2]string{"0008x", "later"})
			for family, scan := range map[*Family]*Scan{f: first, other: second} {
				want := [][2]string{}
				for _, r := range rows[family] {
					if span.Contains([]byte(r[0])) {
						want = append(want, r)
					}
				}
				if span.Reverse {
					slices.Reverse(want)
				}
				assert.Equal(t, want, read(t, scan), "%s %+v", family.Name, span)
			}
			batch := db.NewBatch(0)
			batch.Delete(f, []byte("0008x"))
			require.NoError(t, batch.Write())
			batch.Close()
		}
	}
	// Each can be closed before the other, which goes on.
	for i := range 2 {
		pair := [2]*Scan{}
		pair[0], pair[1] = db.ScanPair(f, other, base.Span{From: []byte("0001")})
		pair[i].Close()
		pair[i].Close()
		assert.NotEmpty(t, read(t, pair[1-i]))
		assert.Equal(t, int64(1), Live())
	}
	first, second := db.ScanPair(f, other, base.Span{})
	require.True(t, first.Next())
	db.Close()
	assert.Zero(t, Live())
	assert.False(t, second.Next())
	require.ErrorIs(t, second.Err(), store.ErrClosed)
	for _, s := range []*Scan{first, second} {
		s.Close()
	}
	first, second = db.ScanPair(f, other, base.Span{})
	for _, s := range []*Scan{first, second} {
		assert.False(t, s.Next())
		require.ErrorIs(t, s.Err(), store.ErrClosed)
		s.Close()
	}
}

func TestHas(t *testing.T) {
	db, f := newDB(t)
	put(t, db, f, [2]string{"", "v"}, [2]string{"empty", ""}, [2]string{"large", string(make([]byte, 1<<20))}, [2]string{"gone", "v"})
	batch := db.NewBatch(0)
	batch.Delete(f, []byte("gone"))
	require.NoError(t, batch.Write())
	batch.Close()
	for _, flushed := range []bool{false, true} {
		if flushed {
			require.NoError(t, db.Flush())
		}
		for key, want := range map[string]bool{"": true, "empty": true, "large": true, "gone": false, "never": false} {
			has, err := db.Has(f, []byte(key))
			require.NoError(t, err)
			assert.Equal(t, want, has, key)
		}
	}
	db.Close()
	_, err := db.Has(f, []byte("empty"))
	require.ErrorIs(t, err, store.ErrClosed)
}

// Who still has a dropped family reads it to the end.
func TestReadersOfADroppedFamily(t *testing.T) {
	db, f := newDB(t)
	put(t, db, f, [2]string{"k", "v"})
	require.NoError(t, db.Flush())
	scan := db.Scan(f, base.Span{})
	snapshot, err := db.Snapshot()
	require.NoError(t, err)
	require.NoError(t, db.Drop(f))
	assert.Equal(t, [][2]string{{"k", "v"}}, read(t, scan))
	assert.Equal(t, `"v"`, get(t, db, f, "k"))
	assert.Equal(t, [][2]string{{"k", "v"}}, read(t, snapshot.Scan(f, base.Span{})))
	first, second := db.ScanPair(db.Family(Default), f, base.Span{})
	assert.Empty(t, read(t, first))
	assert.Equal(t, [][2]string{{"k", "v"}}, read(t, second))
	snapshot.Close()
	require.Error(t, db.Drop(f), "once")
}
