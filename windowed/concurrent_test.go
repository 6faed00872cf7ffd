package windowed_test

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/store"
	"github.com/forebay-streams/forebay/windowed"
)

// One writer commits, aborts and lets segments expire; readers on views see whole commits
// with their headers, over several segments; then the store is closed under them.
func TestReadersWhileTheOwnerWritesExpiresAndCloses(t *testing.T) {
	for name, options := range map[string][]windowed.Option{
		"disk": {}, "memory": {windowed.InMemory()}, "cache": {windowed.Cache(store.NewBudget(4000))},
		"index": {windowed.TimeOrdered(true)},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, taskDir(t), options...)
			const windows = 3 // one in each of the live segments
			round := func(n int) {
				now := int64(n/10+2) * interval
				for i := range int64(windows) {
					v := value(fmt.Sprint(n), int64(n), "n", fmt.Sprint(n))
					require.NoError(t, s.Put("k", now-i*interval+1, v))
				}
			}
			round(0)
			require.NoError(t, s.Commit(ctx))
			var reads atomic.Int64
			var readers sync.WaitGroup
			for i := range 6 {
				readers.Go(func() {
					view := s.View(store.Isolation(i % 2))
					for {
						err := readOnce(view, i%2 == 0, i%3 == 0)
						if errors.Is(err, store.ErrClosed) {
							return
						}
						if err != nil {
							t.Error(err)
							return
						}
						reads.Add(1)
					}
				})
			}
			for n := 1; n < 120 || reads.Load() < 200 && !t.Failed(); n++ {
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
		})
	}
}

// readOnce checks one scan: committed rows are of one round in all segments.
func readOnce(view *windowed.View[string, string], committed, reverse bool) error {
	rows := view.FetchRange("k", 0, math.MaxInt64)
	if reverse {
		rows = view.BackwardAll()
	}
	first, last := "", int64(-1)
	for row, err := range rows {
		if err != nil {
			return err
		}
		h, _ := row.Headers.Last("n")
		if string(h.Value) != row.Data || fmt.Sprint(row.Timestamp) != row.Data {
			return fmt.Errorf("torn row: %v", row)
		}
		if last >= 0 && (row.Start > last) == reverse {
			return fmt.Errorf("out of order: %d after %d", row.Start, last)
		}
		last = row.Start
		if committed && first != "" && row.Data != first {
			return fmt.Errorf("rows of rounds %s and %s", first, row.Data)
		}
		first = row.Data
		if _, _, err := view.Fetch("k", row.Start); err != nil {
			return err
		}
	}
	return nil
}

// A commit that writes a row and moves stream time behind its end never shows it.
func TestPointReadsShowNothingThatItsCommitGaveUp(t *testing.T) {
	for name, options := range map[string][]windowed.Option{
		"disk": {}, "memory": {windowed.InMemory()}, "index": {windowed.TimeOrdered(true)},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, taskDir(t), options...)
			view := s.View(store.ReadCommitted)
			var end atomic.Bool
			var start atomic.Int64
			var readers sync.WaitGroup
			for range 2 {
				readers.Go(func() {
					for !end.Load() && !t.Failed() {
						_, ok, err := view.Fetch("k", start.Load())
						assert.NoError(t, err)
						assert.False(t, ok)
					}
				})
			}
			for n := range 20 {
				v, first := value(fmt.Sprint(n), int64(n)), int64(n)*3*interval+5
				start.Store(first)
				for _, at := range []int64{first, first + interval, first + retention + 1} {
					require.NoError(t, s.Put("k", at, v))
				}
				require.NoError(t, s.Commit(ctx))
			}
			end.Store(true)
			readers.Wait()
		})
	}
}
