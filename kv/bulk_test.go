package kv_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-streams/forebay/changelog"
	"github.com/forebay-streams/forebay/kv"
	"github.com/forebay-streams/forebay/store"
)

// What the owner reads between RestoreBatch and EndBulk does not stay in the cache.
func TestCacheAfterABulkRestore(t *testing.T) {
	s := open(t, taskDir(t), kv.Cache(store.NewBudget(1<<20)), kv.Changelog(&log{}))
	ok, err := s.BeginBulk()
	require.NoError(t, err)
	require.True(t, ok)
	require.NoError(t, s.RestoreBatch([]store.Change{change("a", "1", 1)}, 5))
	_, found, err := s.Get("a")
	require.NoError(t, err)
	require.False(t, found, "gathered")
	require.NoError(t, s.EndBulk())
	_, found, err = s.Get("a")
	require.NoError(t, err)
	assert.True(t, found, "restored, and Get does not see it")
	_, found, err = s.View(store.ReadCommitted).Get("a")
	require.NoError(t, err)
	assert.True(t, found, "committed view")
	_, found, err = s.View(store.ReadUncommitted).Get("a")
	require.NoError(t, err)
	assert.True(t, found, "uncommitted view")
}

func filledChangelog(t *testing.T, n int) (*kgo.Client, string) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(append(changelog.ProducerOpts(), kgo.SeedBrokers(c.ListenAddrs()...))...)
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	topic := "app-store-changelog"
	require.NoError(t, changelog.EnsureTopic(ctx, kadm.NewClient(cl), changelog.Spec{Topic: topic, Partitions: 1, Replication: 1, Kind: changelog.KeyValue}))
	w, err := changelog.NewWriter(cl, topic, 0)
	require.NoError(t, err)
	for i := range n {
		require.NoError(t, w.Append(change(fmt.Sprintf("k%06d", i), "v", int64(i))))
	}
	_, _, err = w.Flush(ctx)
	require.NoError(t, err)
	return cl, topic
}

// The same through changelog.Restore.
func TestBulkRestoreWithAListenerThatReads(t *testing.T) {
	cl, _ := filledChangelog(t, 100)
	s := open(t, taskDir(t), kv.Cache(store.NewBudget(1<<20)), kv.Changelog(&log{}))
	_, err := changelog.Restore(ctx, cl, s, changelog.Bulk(0), changelog.WithListener(changelog.Listener{Batch: func(changelog.Progress) {
		_, _, err := s.Get("k000001")
		require.NoError(t, err)
	}}))
	require.NoError(t, err)
	_, found, err := s.Get("k000001")
	require.NoError(t, err)
	assert.True(t, found)
}

// A listener's panic ends the load too.
func TestBulkRestoreAfterAPanic(t *testing.T) {
	cl, _ := filledChangelog(t, 100)
	s := open(t, taskDir(t), kv.Changelog(&log{}))
	func() {
		defer func() { require.Equal(t, "mine", recover()) }()
		_, _ = changelog.Restore(ctx, cl, s, changelog.Bulk(0), changelog.WithListener(changelog.Listener{Batch: func(changelog.Progress) { panic("mine") }}))
	}()
	r, err := changelog.Restore(ctx, cl, s, changelog.Bulk(0))
	require.NoError(t, err)
	offset, ok := s.RestoredOffset()
	assert.True(t, ok)
	assert.Equal(t, r.End-1, offset)
	assert.Len(t, collect(t, sequence(s.All())), 100)
	assert.NoError(t, s.Commit(ctx))
}

// A second BeginBulk ends the load that is under way.
func TestBeginBulkTwice(t *testing.T) {
	s := open(t, taskDir(t), kv.Changelog(&log{}))
	ok, err := s.BeginBulk()
	require.NoError(t, err)
	require.True(t, ok)
	require.NoError(t, s.RestoreBatch([]store.Change{change("a", "1", 1)}, 5))
	ok, err = s.BeginBulk()
	require.NoError(t, err)
	require.False(t, ok, "it has rows now")
	require.NoError(t, s.RestoreBatch([]store.Change{change("b", "2", 2)}, 6))
	offset, known := s.RestoredOffset()
	require.True(t, known)
	require.EqualValues(t, 6, offset)
	require.Len(t, collect(t, sequence(s.All())), 2)
}

// Views while a bulk load goes on, wiped in the middle, and closed.
func TestViewsDuringABulkRestore(t *testing.T) {
	for _, end := range []string{"end", "wipe", "close"} {
		t.Run(end, func(t *testing.T) {
			s, err := kv.Open(taskDir(t), "store", store.String(), store.String(), kv.Changelog(&log{}), kv.Cache(store.NewBudget(1<<20)))
			require.NoError(t, err)
			defer s.Close()
			stop := make(chan struct{})
			var wg sync.WaitGroup
			for i := range 4 {
				wg.Add(1)
				go func() {
					defer wg.Done()
					iso := store.ReadCommitted
					if i%2 == 1 {
						iso = store.ReadUncommitted
					}
					v := s.View(iso)
					last := 0
					for {
						select {
						case <-stop:
							return
						default:
						}
						n := 0
						for _, err := range v.All() {
							if err != nil {
								if !errors.Is(err, store.ErrClosed) {
									t.Error(err)
								}
								break
							}
							n++
						}
						if n < last && end == "end" {
							t.Errorf("%d rows after %d", n, last)
						}
						last = n
						_, _, err := v.Get("k000100")
						if err != nil && !errors.Is(err, store.ErrClosed) {
							t.Error(err)
						}
						_ = s.Position()
						_, _ = s.ApproximateCount()
					}
				}()
			}
			ok, err := s.BeginBulk()
			require.NoError(t, err)
			require.True(t, ok)
			for b := range 60 {
				var batch []store.Change
				for i := range 200 {
					batch = append(batch, change(fmt.Sprintf("k%06d", b*200+i), "0123456789012345678901234567890123456789", int64(i), "h", "v"))
				}
				require.NoError(t, s.RestoreBatch(batch, int64(b)))
			}
			switch end {
			case "end":
				require.NoError(t, s.EndBulk())
				require.NoError(t, s.EndBulk())
				require.Len(t, collect(t, sequence(s.All())), 12000)
			case "wipe":
				require.NoError(t, s.Wipe())
				require.NoError(t, s.EndBulk())
				require.Empty(t, collect(t, sequence(s.All())))
			case "close":
				require.NoError(t, s.Close())
				require.ErrorIs(t, s.EndBulk(), store.ErrClosed)
			}
			close(stop)
			wg.Wait()
		})
	}
}

func TestBulkRestoreCancelledGoesOnLater(t *testing.T) {
	cl, _ := filledChangelog(t, 5000)
	dir := taskDir(t)
	s := open(t, dir, kv.Changelog(&log{}))
	for round := 0; ; round++ {
		c, cancel := context.WithCancel(ctx)
		n := 0
		_, err := changelog.Restore(c, cl, s, changelog.Bulk(0), changelog.BatchSize(100, 1<<20), changelog.FetchSize(4096), changelog.WithListener(changelog.Listener{Batch: func(changelog.Progress) {
			if n++; n == 7 {
				cancel()
			}
		}}))
		cancel()
		offset, known := s.RestoredOffset()
		rows := collect(t, sequence(s.All()))
		require.True(t, known)
		require.Len(t, rows, int(offset)+1)
		if err == nil {
			require.Len(t, rows, 5000)
			break
		}
		require.ErrorIs(t, err, context.Canceled)
		require.Less(t, round, 20)
	}
}
