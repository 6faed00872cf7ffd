package buffer_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/dsl/internal/buffer"
	"github.com/forebay-streams/forebay/dsl/internal/wire"
	"github.com/forebay-streams/forebay/store"
)

func delayed(t *testing.T, dir string, l *log, memory bool) *buffer.Delayed {
	t.Helper()
	c := buffer.DelayedConfig{Config: buffer.Config{Name: "j-Buffer", Topic: "app-j-Buffer-changelog"}, Dir: dir, Memory: memory}
	if l != nil {
		c.Log = l
	}
	d, err := buffer.OpenDelayed(c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func put(t *testing.T, d *buffer.Delayed, at int64, key string) {
	t.Helper()
	require.NoError(t, d.Put([]byte(key), []byte("v"+key), store.Record{Topic: "a", Offset: at, Timestamp: at, Headers: headers("h", key)}))
}

// evict returns what is due, as "time key".
func evict(t *testing.T, d *buffer.Delayed, until int64) (out []string) {
	t.Helper()
	require.NoError(t, d.Evict(until, func(key []byte, row wire.Delayed) error {
		out = append(out, fmt.Sprintf("%d %s", row.Context.Timestamp, key))
		assert.Equal(t, "v"+string(key), string(row.Value))
		assert.True(t, headers("h", string(key)).Equal(row.Context.Headers))
		return nil
	}))
	return out
}

func both(t *testing.T, run func(t *testing.T, memory bool)) {
	t.Run("rocks", func(t *testing.T) { run(t, false) })
	t.Run("memory", func(t *testing.T) { run(t, true) })
}

func TestDelayedOrder(t *testing.T) {
	both(t, func(t *testing.T, memory bool) {
		d := delayed(t, filepath.Join(t.TempDir(), "app", "0_0"), nil, memory)
		assert.EqualValues(t, -1, d.StreamTime())
		for _, r := range []struct {
			at  int64
			key string
		}{{20, "b"}, {10, "z"}, {20, "a"}, {10, "z"}, {0, "k"}, {30, "c"}} {
			put(t, d, r.at, r.key)
		}
		assert.EqualValues(t, 30, d.StreamTime())
		assert.Equal(t, []string{"0 k", "10 z", "10 z"}, evict(t, d, 10))
		assert.Empty(t, evict(t, d, 10))
		put(t, d, 5, "late")
		require.NoError(t, d.Commit(t.Context()))
		assert.Equal(t, []string{"5 late", "20 a", "20 b"}, evict(t, d, 29))
		assert.Equal(t, []string{"30 c"}, evict(t, d, math.MaxInt64))
		assert.EqualValues(t, 30, d.StreamTime(), "stream time does not go back")
	})
}

func TestDelayedCommitAndAbort(t *testing.T) {
	both(t, func(t *testing.T, memory bool) {
		d := delayed(t, filepath.Join(t.TempDir(), "app", "0_0"), nil, memory)
		put(t, d, 10, "a")
		put(t, d, 20, "b")
		require.NoError(t, d.Commit(t.Context()))
		assert.Equal(t, []string{"10 a"}, evict(t, d, 10))
		put(t, d, 40, "c")
		d.Abort()
		assert.EqualValues(t, 20, d.StreamTime())
		assert.Equal(t, []string{"10 a", "20 b"}, evict(t, d, 40))
	})
}

func TestDelayedEmitFails(t *testing.T) {
	d := delayed(t, "", nil, true)
	put(t, d, 10, "a")
	put(t, d, 20, "b")
	broken := errors.New("broken")
	seen := 0
	err := d.Evict(30, func([]byte, wire.Delayed) error {
		if seen++; seen == 2 {
			return broken
		}
		return nil
	})
	require.ErrorIs(t, err, broken)
	assert.Equal(t, []string{"20 b"}, evict(t, d, 30), "what was emitted is gone, what was not is there")
}

func TestDelayedChangelog(t *testing.T) {
	both(t, func(t *testing.T, memory bool) {
		l := &log{}
		d := delayed(t, filepath.Join(t.TempDir(), "app", "0_0"), l, memory)
		require.NoError(t, d.Put([]byte("k1"), []byte("d1"), store.Record{Topic: "a", Timestamp: 99001, Headers: headers("k", "R")}))
		require.Len(t, l.records, 1)
		assert.Equal(t, "0000000000000182b96b3100000001", fmt.Sprintf("%x", l.records[0].Key))
		assert.Equal(t, "00000000000182b9000000000000000000000001610000000000000001000000016b0000000152ffffffffffffffff0000000264310000000000000000", fmt.Sprintf("%x", l.records[0].Value))
		assert.True(t, l.records[0].Headers.Empty())
		assert.EqualValues(t, store.NoTimestamp, l.records[0].Timestamp)
		require.NoError(t, d.Evict(99001, func([]byte, wire.Delayed) error { return nil }))
		require.Len(t, l.records, 2)
		assert.Equal(t, store.Change{Key: l.records[0].Key, Row: store.Row{Timestamp: store.NoTimestamp}}, l.records[1])
		l.fail = errors.New("no broker")
		require.ErrorIs(t, d.Put([]byte("k"), nil, store.Record{}), l.fail)
		l.fail = nil
	})
}

// Rows that wait survive the loss of the disk: the changelog's keys have the time first.
func TestDelayedRestore(t *testing.T) {
	both(t, func(t *testing.T, memory bool) {
		l := &log{}
		d := delayed(t, filepath.Join(t.TempDir(), "app", "0_0"), l, memory)
		for _, at := range []int64{1000, 10, 256_107, 10} {
			put(t, d, at, fmt.Sprint("k", at))
		}
		assert.Len(t, evict(t, d, 10), 2)
		require.NoError(t, d.Commit(t.Context()))

		restored := delayed(t, filepath.Join(t.TempDir(), "app", "0_0"), nil, memory)
		changes := l.take(0)
		require.NoError(t, restored.RestoreBatch(changes[:2], 1))
		require.NoError(t, restored.RestoreBatch(changes[2:], int64(len(changes)-1)))
		assert.EqualValues(t, 256_107, restored.StreamTime())
		assert.Equal(t, []string{"1000 k1000", "256107 k256107"}, evict(t, restored, 300_000))

		require.ErrorIs(t, restored.RestoreBatch([]store.Change{{Key: []byte{1}}}, 9), store.ErrCorrupt)
		require.NoError(t, restored.Wipe())
		assert.EqualValues(t, -1, restored.StreamTime())
		require.ErrorIs(t, restored.RestoreBatch([]store.Change{{Key: changes[0].Key, Row: store.Row{Value: []byte{1}}}}, 9), store.ErrCorrupt)
		assert.Empty(t, evict(t, restored, 300_000))
	})
}

func TestDelayedReopen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "app", "0_0")
	d := delayed(t, dir, nil, false)
	put(t, d, 10, "a")
	put(t, d, 20, "b")
	require.NoError(t, d.Commit(t.Context()))
	put(t, d, 30, "lost")
	require.NoError(t, d.Close())
	_, err := os.Stat(filepath.Join(dir, "j-Buffer", "j-Buffer.0", "CURRENT"))
	require.NoError(t, err, "where Kafka Streams has its buffer")
	d = delayed(t, dir, nil, false)
	assert.EqualValues(t, 20, d.StreamTime())
	put(t, d, 15, "c")
	assert.Equal(t, []string{"10 a", "15 c", "20 b"}, evict(t, d, 20))
}

func TestDelayedRefused(t *testing.T) {
	_, err := buffer.OpenDelayed(buffer.DelayedConfig{Config: buffer.Config{Name: "no/name"}, Memory: true})
	require.ErrorIs(t, err, store.ErrConfig)
	d := delayed(t, "", nil, true)
	require.NoError(t, d.Close())
	require.ErrorIs(t, d.Put(nil, nil, store.Record{}), store.ErrClosed)
}

func TestDelayedRestoredInBulk(t *testing.T) {
	l := &log{}
	from := delayed(t, filepath.Join(t.TempDir(), "app", "0_0"), l, false)
	for i := range 300 {
		put(t, from, int64(i), fmt.Sprint("k", i))
	}
	evict(t, from, 100)
	require.NoError(t, from.Commit(t.Context()))
	changes := l.take(0)
	to := delayed(t, filepath.Join(t.TempDir(), "app", "0_0"), nil, false)
	ok, err := to.BeginBulk()
	require.NoError(t, err)
	require.True(t, ok)
	for i := 0; i < len(changes); i += 7 {
		require.NoError(t, to.RestoreBatch(changes[i:min(i+7, len(changes))], int64(i)))
	}
	require.NoError(t, to.EndBulk())
	require.EqualValues(t, 299, to.StreamTime())
	require.Equal(t, evict(t, from, math.MaxInt64), evict(t, to, math.MaxInt64))
}
