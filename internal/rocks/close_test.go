package rocks

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/store"
)

func TestSnapshotsIsolate(t *testing.T) {
	db, f := newDB(t)
	put(t, db, f, [2]string{"a", "1"}, [2]string{"b", "1"})
	first, err := db.Snapshot()
	require.NoError(t, err)
	batch := db.NewBatch(0)
	batch.Delete(f, []byte("a"))
	batch.Put(f, []byte("b"), []byte("2"))
	batch.Put(f, []byte("c"), []byte("2"))
	require.NoError(t, batch.Write())
	batch.Close()
	second, err := db.Snapshot()
	require.NoError(t, err)
	require.NoError(t, db.Flush())
	put(t, db, f, [2]string{"b", "3"})

	read1 := func(s *Snapshot, key string) string {
		var scratch []byte
		value, ok, err := s.Get(f, []byte(key), &scratch)
		require.NoError(t, err)
		if !ok {
			return "absent"
		}
		return string(value)
	}
	assert.Equal(t, "1", read1(first, "a"))
	assert.Equal(t, "1", read1(first, "b"))
	assert.Equal(t, "absent", read1(first, "c"))
	assert.Equal(t, "absent", read1(second, "a"))
	assert.Equal(t, "2", read1(second, "b"))
	assert.Equal(t, [][2]string{{"b", "1"}, {"a", "1"}}, read(t, first.Scan(f, base.Span{Reverse: true})))
	assert.Equal(t, [][2]string{{"b", "2"}, {"c", "2"}}, read(t, second.Scan(f, base.Span{})))
	assert.Equal(t, [][2]string{{"b", "3"}, {"c", "2"}}, all(t, db, f))

	scan := first.Scan(f, base.Span{})
	first.Close()
	first.Close()
	assert.Equal(t, [][2]string{{"a", "1"}, {"b", "1"}}, read(t, scan), "a scan outlives its snapshot")
	var scratch []byte
	_, _, err = first.Get(f, []byte("a"), &scratch)
	require.ErrorIs(t, err, store.ErrClosed)
	scan = first.Scan(f, base.Span{})
	assert.False(t, scan.Next())
	require.ErrorIs(t, scan.Err(), store.ErrClosed)
	scan.Close()
	second.Close()
	assert.Equal(t, int64(1), Live(), "the database alone")
}

func TestCloseEndsScansAndSnapshots(t *testing.T) {
	db, f := newDB(t)
	for i := range 50 {
		put(t, db, f, [2]string{fmt.Sprintf("%04d", i), "v"})
	}
	fresh, begun, finished := db.Scan(f, base.Span{}), db.Scan(f, base.Span{}), db.Scan(f, base.Span{})
	require.True(t, begun.Next())
	for finished.Next() {
	}
	snapshot, err := db.Snapshot()
	require.NoError(t, err)
	of := snapshot.Scan(f, base.Span{})
	require.Equal(t, int64(6), Live())
	db.Close()
	assert.Zero(t, Live(), "all freed, though none was closed")

	for _, scan := range []*Scan{fresh, of} {
		assert.False(t, scan.Next())
		require.ErrorIs(t, scan.Err(), store.ErrClosed)
	}
	n := 1
	for begun.Next() {
		n++
	}
	assert.Equal(t, firstFill, n, "what it had fetched")
	require.ErrorIs(t, begun.Err(), store.ErrClosed)
	assert.False(t, finished.Next())
	require.NoError(t, finished.Err())
	var scratch []byte
	_, _, err = snapshot.Get(f, []byte("0001"), &scratch)
	require.ErrorIs(t, err, store.ErrClosed)
	scan := snapshot.Scan(f, base.Span{})
	assert.False(t, scan.Next())
	require.ErrorIs(t, scan.Err(), store.ErrClosed)
	for _, s := range []*Scan{fresh, begun, finished, of, scan} {
		s.Close()
		s.Close()
	}
	snapshot.Close()
	assert.Zero(t, Live(), "freed once")
}

// Readers in other goroutines end with ErrClosed, in whatever they are doing.
func TestCloseWhileOthersRead(t *testing.T) {
	for range 8 {
		db, f := newDB(t)
		for i := range 300 {
			put(t, db, f, [2]string{fmt.Sprintf("%04d", i), "v"})
		}
		shared, err := db.Snapshot()
		require.NoError(t, err)
		var scratch [4][]byte
		scan := func(s *Scan) error {
			defer s.Close()
			n := 0
			for s.Next() {
				n++
			}
			if s.Err() == nil && n != 300 {
				return fmt.Errorf("%d rows", n)
			}
			return s.Err()
		}
		reads := []func() error{
			func() error { _, _, err := db.Get(f, []byte("0007"), &scratch[0]); return err },
			func() error { return scan(db.Scan(f, base.Span{})) },
			func() error { return scan(shared.Scan(f, base.Span{Reverse: true})) },
			func() error { _, _, err := shared.Get(f, []byte("0007"), &scratch[1]); return err },
			func() error {
				s, err := db.Snapshot()
				if err != nil {
					return err
				}
				defer s.Close()
				_, _, err = s.Get(f, []byte("0007"), &scratch[2])
				return err
			},
			func() error { // left open: the database frees it
				s := db.Scan(f, base.Span{})
				s.Next()
				return s.Err()
			},
			func() error { _, err := db.IntProperty(f, "rocksdb.estimate-num-keys"); return err },
		}
		var ready, done sync.WaitGroup
		for _, read := range reads {
			ready.Add(1)
			done.Go(func() {
				for i := 0; ; i++ {
					err := read()
					if i == 5 {
						ready.Done()
					}
					if err != nil {
						if i < 5 {
							ready.Done()
						}
						if !errors.Is(err, store.ErrClosed) {
							t.Error(err)
						}
						return
					}
				}
			})
		}
		ready.Wait()
		db.Close()
		shared.Close()
		done.Wait()
		require.Zero(t, Live())
	}
}

// Closing the same things from several goroutines frees each once.
func TestConcurrentCloses(t *testing.T) {
	for range 20 {
		db, f := newDB(t)
		snapshot, err := db.Snapshot()
		require.NoError(t, err)
		scan := db.Scan(f, base.Span{})
		var done sync.WaitGroup
		for _, closing := range []func(){db.Close, db.Close, snapshot.Close, snapshot.Close, scan.Close} {
			done.Go(closing)
		}
		done.Wait()
		require.Zero(t, Live())
	}
}
