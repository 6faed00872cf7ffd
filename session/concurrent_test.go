package session_test

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/session"
	"github.com/forebay-streams/forebay/store"
)

const (
	readKeys = 8
	readSpan = 3 // sessions of a key, each in another segment
)

// One writer commits, aborts and lets segments expire; readers on views see whole commits
// with their headers, over several segments; then the store is closed under them.
func TestReadersWhileTheOwnerWritesExpiresAndCloses(t *testing.T) {
	for name, options := range map[string][]session.Option{
		"disk": {}, "memory": {session.InMemory()}, "cache": {session.Cache(store.NewBudget(4000))},
		"index": {session.TimeOrdered(true)},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, taskDir(t), options...)
			// Ten rounds write the same sessions; then time goes on by a segment.
			round := func(n int) {
				now := int64(n/10+readSpan) * interval
				for i := range int64(readSpan) {
					for k := range readKeys {
						require.NoError(t, s.Put(fmt.Sprint(k), 1, now-i*interval+1, value(fmt.Sprint(n), "n", fmt.Sprint(n))))
					}
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
			for n := 1; n < 60 || reads.Load() < 200 && !t.Failed(); n++ {
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

// readOnce checks a point read and a scan: committed sessions of the newest segment, and
// of one key in all segments, are of one round.
func readOnce(view *session.View[string, string], committed, reverse bool) error {
	rows := view.FetchKeys()
	if reverse {
		rows = view.BackwardFetchKeys()
	}
	newest, data := int64(-1), map[int64]map[string]int{} // by end: how many rows of each round
	for row, err := range rows {
		if err != nil {
			return err
		}
		if h, _ := row.Headers.Last("n"); string(h.Value) != row.Data || row.Start != 1 {
			return fmt.Errorf("torn row: %v", row)
		}
		newest = max(newest, row.End)
		if data[row.End] == nil {
			data[row.End] = map[string]int{}
		}
		data[row.End][row.Data]++
	}
	if committed && newest >= 0 && (len(data[newest]) != 1 || sum(data[newest]) != readKeys) {
		return fmt.Errorf("part of a commit: %v", data[newest])
	}
	first := ""
	for row, err := range view.FindSessions("3", 0, math.MaxInt64) {
		if err != nil {
			return err
		}
		if committed && first != "" && row.Data != first {
			return fmt.Errorf("sessions of rounds %s and %s", first, row.Data)
		}
		first = row.Data
	}
	v, ok, err := view.FetchSession("3", 1, newest)
	if err == nil && ok {
		if h, _ := v.Headers.Last("n"); string(h.Value) != v.Data {
			err = fmt.Errorf("torn value: %v", v)
		}
	}
	return err
}

func sum(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

// A commit that writes a row and moves stream time behind its end never shows it.
func TestPointReadsShowNothingThatItsCommitGaveUp(t *testing.T) {
	for name, options := range map[string][]session.Option{
		"disk": {}, "memory": {session.InMemory()}, "index": {session.TimeOrdered(true)},
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
						_, ok, err := view.FetchSession("k", start.Load(), start.Load())
						assert.NoError(t, err)
						assert.False(t, ok)
					}
				})
			}
			for n := range 20 {
				v, first := value(fmt.Sprint(n)), int64(n)*3*interval+5
				start.Store(first)
				for _, at := range []int64{first, first + interval, first + retention + 1} {
					require.NoError(t, s.Put("k", at, at, v))
				}
				require.NoError(t, s.Commit(ctx))
			}
			end.Store(true)
			readers.Wait()
		})
	}
}
