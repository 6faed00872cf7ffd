package contract

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/internal/subject"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

// One writer and eight readers on views, while rounds are committed, aborted and flushed,
// an older format is migrated, and the store is closed under the readers. Every round writes
// one number in all places, an aborted one a negative number, so a reader of commits must
// never see two numbers, a missing row or a negative one.
func TestReadersBesideAWriter(t *testing.T) {
	kinds(t, func(t *testing.T, k kind) {
		before := rocks.Live()
		migrates := !k.config.Memory && k.config.Layout == store.WithHeaders
		// Small enough to evict, and to flush in the middle of rounds.
		k.config.Budget = store.NewBudget(2000, store.BlockCache(1<<20))
		k.config.Log = &log{}
		dir := taskDir(t)
		// Two places of each key, for windows and sessions in two segments.
		keys := []string{"a", "b", "c", "d", "e"}
		var places []subject.Place
		for _, key := range keys {
			places = append(places, k.family.At(key, 1))
			if k.family != subject.KV {
				places = append(places, k.family.At(key, 3_000_000_000))
			}
		}
		write := func(s subject.Store, n int) {
			for _, p := range places {
				require.NoError(t, s.Put(p, value(fmt.Sprint(n))))
			}
		}
		if migrates {
			old := k
			if old.config.Layout = store.Plain; k.family == subject.Windowed && k.config.Ordered {
				old.config.Layout = store.Timestamped
			}
			s := old.open(t, dir)
			write(s, 0)
			require.NoError(t, s.Commit(ctx))
			require.NoError(t, s.Close())
		}
		s := k.open(t, dir)
		if !migrates {
			write(s, 0)
			require.NoError(t, s.Commit(ctx))
		}
		// How many reads may begin: readers that never pause would leave a writer on few
		// processors no time. Closed with the store, under whose end they read on.
		turns := make(chan struct{}, 32)
		give := func() {
			for range cap(turns) - len(turns) {
				turns <- struct{}{}
			}
		}
		var begun, readers sync.WaitGroup
		var reads atomic.Int64
		for i := range 8 {
			begun.Add(1)
			readers.Go(func() {
				committed := i%2 == 0
				view := s.View(map[bool]store.Isolation{true: store.ReadCommitted, false: store.ReadUncommitted}[committed])
				once := sync.OnceFunc(begun.Done)
				defer once()
				for {
					err := readRound(k, view, keys, places, committed, i/2%2 == 0)
					if errors.Is(err, store.ErrClosed) {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					reads.Add(1)
					once()
					<-turns
				}
			})
		}
		begun.Wait()
		drain := migration.NewDrain(s, migration.SliceRows(1))
		for n := 1; n <= 150; n++ {
			s.SetRecord(record(int64(n)))
			give()
			if n%5 == 0 {
				write(s, -n)
				if n%2 == 0 {
					require.NoError(t, s.Flush(ctx))
				}
				s.Abort()
				continue
			}
			write(s, n)
			if n%3 == 0 {
				require.NoError(t, s.Flush(ctx))
			}
			require.NoError(t, s.Commit(ctx))
			if migrates && n%7 == 0 {
				_, err := drain.Step()
				require.NoError(t, err)
			}
			runtime.Gosched()
		}
		close(turns)
		require.NoError(t, s.Close())
		readers.Wait()
		require.Zero(t, s.OpenScans())
		require.Equal(t, before, rocks.Live(), "snapshots, iterators and databases left")
		require.Greater(t, reads.Load(), int64(8))
	})
}

// readRound reads everything once, by scans or row by row.
func readRound(k kind, view subject.Reader, keys []string, places []subject.Place, committed, scans bool) error {
	number := func(v subject.Value) (int, error) {
		n, err := strconv.Atoi(string(v.Data))
		if err == nil && committed && n < 0 {
			err = fmt.Errorf("an aborted write shows: %d", n)
		}
		return n, err
	}
	if !scans {
		for _, p := range places {
			v, ok, err := view.Get(p)
			if err != nil {
				return err
			}
			if !ok {
				return fmt.Errorf("%s is missing", p)
			}
			if _, err := number(v); err != nil {
				return err
			}
		}
		return nil
	}
	together := [][]string{keys}
	if k.family == subject.Versioned { // a scan is one key's
		together = nil
		for _, key := range keys {
			together = append(together, []string{key})
		}
	}
	for _, keys := range together {
		rows, err := view.Rows(keys)
		if err != nil {
			return err
		}
		if want := len(places) * len(keys) / 5; len(rows) != want {
			return fmt.Errorf("a scan of %v shows %d rows of %d", keys, len(rows), want)
		}
		first, seen := 0, false
		for p, v := range rows {
			n, err := number(v)
			if err != nil {
				return err
			}
			if committed && seen && n != first {
				return fmt.Errorf("torn read: %d beside %d at %s", n, first, p)
			}
			first, seen = n, true
		}
	}
	return nil
}
