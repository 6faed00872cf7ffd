package versioned

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

// The owner adds, supersedes, commits, aborts, drains and expires versions while readers on
// views check that each read is of one moment: versions follow each other without gap or
// overlap, a reader's time never goes back, and then the store is closed under them.
func TestReadersWhileTheOwnerWritesAndCloses(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) *strings{
		"headers":  func(t *testing.T) *strings { return open(t, taskDir(t)) },
		"memory":   func(t *testing.T) *strings { return open(t, taskDir(t), InMemory()) },
		"upgraded": upgraded,
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			now := int64(40)
			put(t, s, "k", fmt.Sprint(now), now, "at", fmt.Sprint(now))
			commit(t, s)
			var reads atomic.Int64
			var readers sync.WaitGroup
			for i := range 6 {
				readers.Go(func() {
					view := s.View(store.Isolation(i % 2))
					for last := int64(0); ; {
						latest, err := readOnce(view, i%3 == 0)
						if errors.Is(err, store.ErrClosed) {
							return
						}
						if err == nil && i%2 == 0 && latest < last {
							err = fmt.Errorf("%d after %d", latest, last)
						}
						if err != nil {
							t.Error(err)
							return
						}
						last = latest
						reads.Add(1)
					}
				})
			}
			for n := 0; n < 1500 || reads.Load() < 1500; n++ {
				before := now
				for range 3 {
					now += 1 + int64(n%4)
					put(t, s, "k", fmt.Sprint(now), now, "at", fmt.Sprint(now))
				}
				// Out of order: the version before it shrinks, and may move to another segment.
				put(t, s, "k", fmt.Sprint(now-1), now-1, "at", fmt.Sprint(now-1))
				switch {
				case n%7 == 3:
					s.Abort()
					now = before
				case n%2 == 0:
					commit(t, s)
				case n%5 == 0:
					commit(t, s)
					_, _, err := s.DrainSlice(1)
					require.NoError(t, err)
				}
			}
			require.NoError(t, s.Close())
			readers.Wait()
			require.Zero(t, s.OpenScans())
		})
	}
}

// upgraded is a store whose rows are partly plain.
func upgraded(t *testing.T) *strings {
	dir := taskDir(t)
	s := open(t, dir, Format(store.Plain))
	fill(t, s)
	require.NoError(t, s.Close())
	s = open(t, dir)
	var _ migration.Drainable = s
	return s
}

// readOnce reads in all ways, and returns the time of the latest version.
func readOnce(view *View[string, string], ascending bool) (latest int64, err error) {
	order := Descending
	if ascending {
		order = Ascending
	}
	var list []Version[string]
	for v, err := range view.History("k", 40, never, order) {
		if err != nil {
			return 0, err
		}
		list = append(list, v)
	}
	if len(list) == 0 {
		return 0, errors.New("no history")
	}
	for i, v := range list {
		if err := whole(v); err != nil {
			return 0, err
		}
		if i > 0 {
			older, newer := v, list[i-1]
			if ascending {
				older, newer = newer, older
			}
			if older.ValidTo != newer.Timestamp {
				return 0, fmt.Errorf("%v, then %v", older, newer)
			}
		}
	}
	newest := list[0]
	if ascending {
		newest = list[len(list)-1]
	}
	if !newest.Latest() {
		return 0, fmt.Errorf("%v is the newest", newest)
	}
	v, ok, err := view.Get("k")
	if err != nil || !ok {
		return 0, errors.Join(err, errors.New("no latest version"))
	}
	at := v.Timestamp - 3
	v, ok, err = view.GetAsOf("k", at)
	switch {
	case err != nil:
		return 0, err
	case ok && (v.Timestamp > at || !v.Latest() && v.ValidTo <= at):
		return 0, fmt.Errorf("as of %d: %v", at, v)
	case ok:
		return newest.Timestamp, whole(v)
	}
	return newest.Timestamp, nil
}

func whole(v Version[string]) error {
	h, _ := v.Headers.Last("at")
	if v.Timestamp > 40 && (v.Data != fmt.Sprint(v.Timestamp) || string(h.Value) != v.Data) {
		return fmt.Errorf("torn: %v", v)
	}
	return nil
}
