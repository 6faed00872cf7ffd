package kv_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/kv"
	"github.com/forebay-streams/forebay/store"
)

// One writer commits and aborts, eight readers on views see whole commits with their
// headers, and then the store is closed under them.
func TestReadersWhileTheOwnerWritesAndCloses(t *testing.T) {
	for _, options := range [][]kv.Option{{}, {kv.InMemory()}, {kv.Cache(store.NewBudget(4000))}} {
		s := open(t, taskDir(t), options...)
		const keys = 8
		round := func(n int) {
			rows := make([]kv.Row[string, string], keys)
			for i := range rows {
				rows[i] = kv.Row[string, string]{Key: fmt.Sprint(i), Value: value(fmt.Sprint(n), int64(n), "n", fmt.Sprint(n))}
			}
			require.NoError(t, s.PutAll(rows...))
		}
		round(0)
		require.NoError(t, s.Commit(ctx))
		var reads atomic.Int64
		var readers sync.WaitGroup
		for i := range 8 {
			readers.Go(func() {
				view := s.View(store.Isolation(i % 2))
				for {
					if err := readOnce(view, keys, i%3 == 0); errors.Is(err, store.ErrClosed) {
						return
					} else if err != nil {
						t.Error(err)
						return
					}
					reads.Add(1)
				}
			})
		}
		for n := 1; n < 300 || reads.Load() < 300; n++ {
			round(n)
			if n%5 == 0 {
				s.Abort()
			} else {
				require.NoError(t, s.Commit(ctx))
			}
		}
		require.NoError(t, s.Close())
		readers.Wait()
		require.Zero(t, s.OpenScans())
	}
}

func readOnce(view *kv.View[string, string], keys int, reverse bool) error {
	rows := view.All()
	if reverse {
		rows = view.ReverseAll()
	}
	count, first := 0, ""
	for row, err := range rows {
		if err != nil {
			return err
		}
		h, _ := row.Headers.Last("n")
		if string(h.Value) != row.Data || fmt.Sprint(row.Timestamp) != row.Data || count > 0 && row.Data != first {
			return fmt.Errorf("torn read: %v beside %s", row, first)
		}
		first = row.Data
		count++
	}
	if count != keys {
		return fmt.Errorf("%d rows", count)
	}
	_, ok, err := view.Get("3")
	if err == nil && !ok {
		err = fmt.Errorf("a key is missing")
	}
	return err
}
