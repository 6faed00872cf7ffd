package rocks

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/store"
)

func TestGetGrowsItsScratch(t *testing.T) {
	db, f := newDB(t)
	sizes := []int{0, 1, minScratch - 1, minScratch, minScratch + 1, 100_000, 1 << 20}
	for i, n := range sizes {
		put(t, db, f, [2]string{string(rune('a' + i)), strings.Repeat("x", n)})
	}
	for _, flushed := range []bool{false, true} {
		if flushed {
			require.NoError(t, db.Flush())
		}
		var kept []byte
		for i := range len(sizes) * 2 {
			i %= len(sizes)
			var fresh []byte
			for _, scratch := range []*[]byte{&fresh, &kept} {
				value, ok, err := db.Get(f, []byte{'a' + byte(i)}, scratch)
				require.NoError(t, err)
				require.True(t, ok)
				require.NotNil(t, value, "an empty value is a value")
				require.Equal(t, sizes[i], len(value))
				require.Equal(t, sizes[i], bytes.Count(value, []byte("x")))
				require.Equal(t, len(value), cap(value), "appending must not write into scratch")
				if sizes[i] > 0 {
					require.Same(t, &(*scratch)[0], &value[0], "it is scratch")
				}
			}
		}
		assert.Equal(t, 1<<20, cap(kept), "the largest was kept")
	}
	small := make([]byte, 3, minScratch-1)
	_, _, err := db.Get(f, []byte("a"), &small)
	require.NoError(t, err)
	assert.Equal(t, minScratch, cap(small))
}

func TestGetOfEdgeKeys(t *testing.T) {
	db, f := newDB(t)
	assert.Equal(t, "absent", get(t, db, f, ""))
	assert.Equal(t, "absent", get(t, db, f, "k"))
	long := strings.Repeat("k", 70_000)
	put(t, db, f, [2]string{"", "of the empty key"}, [2]string{"k", ""}, [2]string{"\x00", "zero"}, [2]string{"\xff\xff", "last"}, [2]string{long, "long"})
	for _, flushed := range []bool{false, true} {
		if flushed {
			require.NoError(t, db.Flush())
		}
		assert.Equal(t, `"of the empty key"`, get(t, db, f, ""))
		assert.Equal(t, `""`, get(t, db, f, "k"))
		assert.Equal(t, `"zero"`, get(t, db, f, "\x00"))
		assert.Equal(t, `"last"`, get(t, db, f, "\xff\xff"))
		assert.Equal(t, `"long"`, get(t, db, f, long))
		assert.Equal(t, "absent", get(t, db, f, long[1:]))
		assert.Equal(t, "absent", get(t, db, db.Family(Default), "k"), "another family")
	}
	var scratch []byte
	value, ok, err := db.Get(f, nil, &scratch)
	require.NoError(t, err)
	assert.True(t, ok, "nil is the empty key")
	assert.Equal(t, "of the empty key", string(value))
}

func TestUseAfterClose(t *testing.T) {
	db, f := newDB(t)
	put(t, db, f, [2]string{"k", "v"})
	db.Close()
	db.Close()
	var scratch []byte
	_, _, err := db.Get(f, []byte("k"), &scratch)
	require.ErrorIs(t, err, store.ErrClosed)
	require.ErrorIs(t, db.Flush(), store.ErrClosed)
	_, err = db.IntProperty(f, "rocksdb.estimate-num-keys")
	require.ErrorIs(t, err, store.ErrClosed)
	_, err = db.Snapshot()
	require.ErrorIs(t, err, store.ErrClosed)
	require.ErrorIs(t, db.Drop(f), store.ErrClosed)
	batch := db.NewBatch(0)
	batch.Put(f, []byte("k"), make([]byte, 2*64<<10))
	require.ErrorIs(t, batch.Write(), store.ErrClosed)
	batch.Close()
}

func TestIntProperty(t *testing.T) {
	db, f := newDB(t)
	put(t, db, f, [2]string{"a", ""}, [2]string{"b", ""}, [2]string{"c", ""})
	n, err := db.IntProperty(f, "rocksdb.estimate-num-keys")
	require.NoError(t, err)
	assert.Equal(t, uint64(3), n)
	_, err = db.IntProperty(f, "rocksdb.no-such-property")
	require.Error(t, err)
}
