package store_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/store"
)

func TestLocate(t *testing.T) {
	plain := store.HeadersFromBlock([]byte{0}).Err()
	assert.Equal(t, "corrupt bytes: block_empty at byte 0", plain.Error())

	key := []byte("key")
	err := store.Locate(fmt.Errorf("get: %w", plain), "orders", "headers", key)
	key[0] = 'x'
	require.ErrorIs(t, err, store.ErrCorrupt)
	assert.Equal(t, `corrupt bytes: block_empty at byte 0, store "orders", column family "headers", key 6b6579`, err.Error())
	assert.Equal(t, "corrupt bytes: block_empty at byte 0", plain.Error(), "the first error stays as it is")

	err = store.Locate(plain, "orders", "", nil)
	assert.Equal(t, `corrupt bytes: block_empty at byte 0, store "orders"`, err.Error())
	err = store.Locate(plain, "", "", make([]byte, 33))
	assert.Contains(t, err.Error(), fmt.Sprintf("key %064x…", 0))

	assert.Equal(t, io.EOF, store.Locate(io.EOF, "s", "f", nil))
	assert.NoError(t, store.Locate(nil, "s", "f", nil))
}

func TestError(t *testing.T) {
	err := &store.Error{Store: "s", Op: "open", Err: store.ErrConfig}
	assert.Equal(t, `store "s": open: bad configuration`, err.Error())
	err.Remedy = "set it"
	assert.Equal(t, `store "s": open: bad configuration; set it`, err.Error())
	require.ErrorIs(t, err, store.ErrConfig)
	var e *store.Error
	require.ErrorAs(t, fmt.Errorf("app: %w", err), &e)
	assert.False(t, errors.Is(err, store.ErrCorrupt))
}

func TestBudget(t *testing.T) {
	b := store.NewBudget(10)
	assert.False(t, b.AddCache(10))
	assert.True(t, b.AddCache(1))
	assert.False(t, b.AddCache(-5))
	assert.Equal(t, int64(6), b.CacheUsed())
	assert.False(t, b.AddUncommitted(store.DefaultUncommitted))
	assert.True(t, b.AddUncommitted(1))
	assert.Equal(t, store.DefaultUncommitted+1, b.UncommittedUsed())
	assert.Equal(t, store.DefaultBlockCache, b.BlockCacheSize())
	assert.Zero(t, b.WriteBufferSize())

	b = store.NewBudget(0, store.Uncommitted(0), store.BlockCache(1), store.WriteBuffers(2))
	assert.True(t, b.AddCache(1), "no cache")
	assert.False(t, b.AddUncommitted(1<<40), "no limit")
	assert.Equal(t, int64(1), b.BlockCacheSize())
	assert.Equal(t, int64(2), b.WriteBufferSize())
}
