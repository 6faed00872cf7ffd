package kv_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-streams/forebay/changelog"
	"github.com/forebay-streams/forebay/kv"
	"github.com/forebay-streams/forebay/store"
)

// broker is the address of a real broker, which make test starts.
func broker(t *testing.T) string {
	t.Helper()
	address := os.Getenv("FOREBAY_BROKER")
	if address == "" && os.Getenv("FOREBAY_REQUIRE_BROKER") != "" {
		t.Fatal("FOREBAY_BROKER is not set")
	}
	if address == "" {
		t.Skip("FOREBAY_BROKER is not set; make test starts a broker")
	}
	return address
}

// Everything a store logs comes back from a real changelog: values, timestamps, headers
// and tombstones, with the marker of a transaction as the last thing in the log and an
// aborted one before it.
func TestWriteWipeRestoreOnABroker(t *testing.T) {
	address := broker(t)
	client := func(options ...kgo.Opt) *kgo.Client {
		c, err := kgo.NewClient(append(options, kgo.SeedBrokers(address))...)
		require.NoError(t, err)
		t.Cleanup(c.Close)
		return c
	}
	app := fmt.Sprintf("kv-%d", time.Now().UnixNano())
	topic := changelog.Name(app, "store")
	plain := client()
	require.NoError(t, changelog.EnsureTopic(ctx, kadm.NewClient(plain), changelog.Spec{Topic: topic, Partitions: 1, Replication: 1, Kind: changelog.KeyValue}))
	producer := client(append(changelog.ProducerOpts(), kgo.TransactionalID(app))...)
	writer, err := changelog.NewWriter(producer, topic, 0)
	require.NoError(t, err)
	dir := store.TaskDir(t.TempDir(), app, 0, 0)
	s := open(t, dir, kv.Changelog(writer), kv.ExactlyOnce())

	// end ends a transaction as an app does: flush, end, then commit or abort the store.
	end := func(commit bool) {
		require.NoError(t, s.Flush(ctx))
		require.NoError(t, producer.EndTransaction(ctx, kgo.TransactionEndTry(commit)))
		if !commit {
			s.Abort()
			writer.Reset()
			return
		}
		require.NoError(t, s.Commit(ctx))
	}
	begin := func(offset int64) {
		require.NoError(t, producer.BeginTransaction())
		s.SetRecord(record(offset, 1000+offset, "traceparent", fmt.Sprint(offset)))
	}
	begin(0)
	for i := range 100 {
		require.NoError(t, s.Put(fmt.Sprint(i), value(fmt.Sprint("v", i), int64(i), "a", "1", "a", fmt.Sprint(i))))
	}
	end(true)
	begin(1)
	require.NoError(t, s.Put("5", value("aborted", 9)))
	require.NoError(t, s.Put("500", value("aborted", 9)))
	end(false)
	begin(2)
	require.NoError(t, s.Put("1", value("", 9)))
	require.NoError(t, s.Tombstone("2"))
	require.NoError(t, s.Tombstone("never there"))
	end(true)

	want := snapshot(t, s)
	require.Len(t, want, 99)
	require.NoError(t, s.Close())

	for _, bulk := range []int64{-1, 0} { // batch by batch, and in bulk
		require.NoError(t, os.RemoveAll(dir))
		s = open(t, dir, kv.Changelog(writer), kv.ExactlyOnce())
		result, err := changelog.Restore(ctx, plain, s, changelog.ReadCommitted(), changelog.Bulk(bulk))
		require.NoError(t, err)
		require.EqualValues(t, 103, result.Rows)
		require.Equal(t, want, snapshot(t, s))
		offset, ok := s.RestoredOffset()
		require.True(t, ok)
		require.Equal(t, result.End-1, offset, "the marker is the last thing in the log")
		if bulk < 0 {
			require.NoError(t, s.Close())
		}
	}

	// The restored store goes on from there.
	begin(3)
	require.NoError(t, s.Put("new", value("v", 9)))
	end(true)
	again, err := changelog.Restore(ctx, plain, s, changelog.ReadCommitted())
	require.NoError(t, err)
	require.Zero(t, again.Rows)
}

func snapshot(t *testing.T, s *kv.Store[string, string]) map[string]string {
	t.Helper()
	out := map[string]string{}
	for row, err := range s.All() {
		require.NoError(t, err)
		out[row.Key] = fmt.Sprintf("%q %d %q", row.Data, row.Timestamp, row.Headers.List())
	}
	return out
}
