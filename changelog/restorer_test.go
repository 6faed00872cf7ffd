package changelog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-streams/forebay/store"
)

// singles writes n records, key k<i> and value <i>, each in a batch of its own, so that a
// fetch size of 1 brings them one by one.
func singles(t testing.TB, w *Writer, from, n int) {
	t.Helper()
	for i := from; i < from+n; i++ {
		write(t, w, change(fmt.Sprintf("k%d", i), fmt.Sprint(i), int64(i)))
	}
}

func numbered(from, n int) map[string]string {
	out := map[string]string{}
	for i := from; i < from+n; i++ {
		out[fmt.Sprintf("k%d", i)] = fmt.Sprint(i)
	}
	return out
}

func TestRestoreRoundTrip(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs())
	want := []store.Change{
		change("headers", "v", 1700000000123, store.Header{Key: "a", Value: []byte("1")}, store.Header{Key: "b"},
			store.Header{Key: "a", Value: []byte{}}, store.Header{Key: "", Value: []byte{0, 255}}),
		change("empty value", "", 7),
		change("none", "v", 0),
		change("", "empty key", 3),
	}
	all := append([]store.Change{change("gone", "x", 1), change("none", "older", 99)}, want...)
	all = append(all, tombstone("gone", 5, store.Header{Key: "why", Value: []byte("deleted")}), tombstone("never there", 6))
	last := write(t, newWriter(t, cl), all...)

	s := newTarget()
	var seen []store.Change
	res, err := Restore(testContext(t), cl, &spy{s, func(c store.Change) { seen = append(seen, c) }})
	require.NoError(t, err)
	require.Len(t, s.rows, len(want))
	for _, w := range want {
		requireRow(t, w, s.rows[string(w.Key)])
	}
	require.Len(t, seen, len(all))
	for i, w := range all {
		require.Equal(t, string(w.Key), string(seen[i].Key))
		requireRow(t, w, seen[i].Row)
	}
	require.Equal(t, last, s.offset)
	require.EqualValues(t, len(all), res.Rows)
	require.Equal(t, topic, res.Topic)
	require.EqualValues(t, 0, res.Start)
	require.Equal(t, last+1, res.End)
	require.Equal(t, [16]byte(c.TopicInfo(topic).TopicID), res.TopicID)
	require.Empty(t, res.Rebuilds)
	require.Positive(t, res.Elapsed)

	// Again: there is nothing to do, and nothing is written.
	n := len(s.batches)
	res, err = Restore(testContext(t), cl, s)
	require.NoError(t, err)
	require.Zero(t, res.Rows)
	require.Len(t, s.batches, n)
}

func TestRestoreGoesOnBehindTheStoredOffset(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs())
	singles(t, newWriter(t, cl), 0, 10)
	s := newTarget().at(5)
	res, err := Restore(testContext(t), cl, s)
	require.NoError(t, err)
	require.EqualValues(t, 6, res.Start)
	require.Equal(t, numbered(6, 4), s.values())
	require.EqualValues(t, 9, s.offset)
}

// A stored offset in the middle of a record batch.
func TestRestoreGoesOnInsideARecordBatch(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs(), kgo.ProducerLinger(time.Minute))
	write(t, newWriter(t, cl), change("k0", "0", 0), change("k1", "1", 1), change("k2", "2", 2))
	s := newTarget().at(0)
	_, err := Restore(testContext(t), cl, s)
	require.NoError(t, err)
	require.Equal(t, numbered(1, 2), s.values())
}

func TestRestoreOfAnEmptyLog(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs())
	s := newTarget()
	res, err := Restore(testContext(t), cl, s)
	require.NoError(t, err)
	require.False(t, s.known, "a log that never held anything has no offset")
	require.Empty(t, s.batches)
	require.Zero(t, res.End)

	// KAFKA-14302: everything was deleted. The end is still stored.
	singles(t, newWriter(t, cl), 0, 3)
	require.NoError(t, c.DeleteRecords(topic, 0, 3))
	res, err = Restore(testContext(t), cl, s)
	require.NoError(t, err)
	require.Equal(t, []batch{{0, 2}}, s.batches)
	require.Zero(t, res.Rows)
	require.Zero(t, s.wipes)
}

// AK #23037: the last thing in the log is a marker, which no record shows.
func TestRestoreEndsAtAControlRecord(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs(), kgo.TransactionalID("tx"))
	w := newWriter(t, cl)
	for i := range 3 {
		require.NoError(t, cl.BeginTransaction())
		write(t, w, change(fmt.Sprintf("k%d", i), fmt.Sprint(i), 1))
		require.NoError(t, cl.EndTransaction(testContext(t), kgo.TryCommit))
	}
	require.EqualValues(t, 6, endOffset(t, cl))
	for _, opts := range [][]RestoreOption{nil, {ReadCommitted()}, {FetchSize(1), BatchSize(1, 0)}} {
		s := newTarget()
		res, err := Restore(testContext(t), cl, s, opts...)
		require.NoError(t, err)
		require.Equal(t, numbered(0, 3), s.values())
		require.EqualValues(t, 3, res.Rows)
		require.EqualValues(t, 5, s.offset)
	}
	// What comes after the stored offset is a marker and nothing else.
	s := newTarget().at(4)
	_, err := Restore(testContext(t), cl, s)
	require.NoError(t, err)
	require.Equal(t, []batch{{0, 5}}, s.batches)
}

func transact(t testing.TB, cl *kgo.Client, w *Writer, end kgo.TransactionEndTry, changes ...store.Change) {
	t.Helper()
	require.NoError(t, cl.BeginTransaction())
	write(t, w, changes...)
	require.NoError(t, cl.EndTransaction(testContext(t), end))
}

func TestRestoreReadCommittedLeavesOutAbortedRecords(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs(), kgo.TransactionalID("tx"))
	w := newWriter(t, cl)
	transact(t, cl, w, kgo.TryCommit, change("a", "1", 1), change("b", "1", 1))
	transact(t, cl, w, kgo.TryAbort, change("a", "aborted", 2), tombstone("b", 2))
	transact(t, cl, w, kgo.TryCommit, change("c", "1", 3))
	transact(t, cl, w, kgo.TryAbort, change("c", "aborted", 4))
	end := endOffset(t, cl)

	for _, size := range []int{1, 1 << 20} {
		s := newTarget()
		res, err := Restore(testContext(t), cl, s, ReadCommitted(), FetchSize(size))
		require.NoError(t, err)
		require.Equal(t, map[string]string{"a": "1", "b": "1", "c": "1"}, s.values())
		require.EqualValues(t, 3, res.Rows)
		require.Equal(t, end-1, s.offset)
	}
	s := newTarget()
	_, err := Restore(testContext(t), cl, s)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "aborted", "c": "aborted"}, s.values(), "read uncommitted takes all")
}

// onMessage runs a function when a line is logged.
func onMessage(message string, f func()) (*slog.Logger, *recorder) {
	r := &recorder{}
	return slog.New(&hook{r, message, f}), r
}

type hook struct {
	*recorder
	message string
	f       func()
}

func (h *hook) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h *hook) Handle(ctx context.Context, rec slog.Record) error {
	if rec.Message == h.message {
		h.f()
	}
	return h.recorder.Handle(ctx, rec)
}

// KAFKA-10167: the end is that of open transactions too, and the restore waits for them.
func TestRestoreWaitsForAnOpenTransaction(t *testing.T) {
	const waits = "restore waits for an open transaction to end"
	for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		c := newCluster(t)
		cl := newProducer(t, c.ListenAddrs(), kgo.TransactionalID("tx"))
		w := newWriter(t, cl)
		transact(t, cl, w, kgo.TryCommit, change("a", "1", 1))
		require.NoError(t, cl.BeginTransaction())
		write(t, w, change("a", "2", 2))
		s := newTarget()
		log, lines := onMessage(waits, func() {
			require.EqualValues(t, 1, s.offset, "what was read before the wait is in the store")
			require.NoError(t, cl.EndTransaction(testContext(t), end))
		})
		res, err := Restore(testContext(t), newClient(t, c.ListenAddrs()), s, ReadCommitted(), WithLogger(log))
		require.NoError(t, err)
		require.Equal(t, 1, lines.count(waits))
		require.EqualValues(t, 3, res.End, "the marker came later")
		want := "2"
		if end == kgo.TryAbort {
			want = "1"
		}
		require.Equal(t, map[string]string{"a": want}, s.values())
		require.EqualValues(t, 2, s.offset)
	}
}

func TestRestoreOverCompactionHoles(t *testing.T) {
	c := newCluster(t)
	require.NoError(t, c.DeleteTopic(topic))
	require.NoError(t, c.CreateTopic(topic, 1, map[string]string{"cleanup.policy": "compact", "retention.ms": "-1"}))
	cl := newProducer(t, c.ListenAddrs(), kgo.ProducerLinger(time.Minute))
	w := newWriter(t, cl)
	write(t, w, change("first", "1", 1))
	for i := range 10 {
		write(t, w, change("hot", fmt.Sprint(i), 1), change(fmt.Sprintf("k%d", i), fmt.Sprint(i), 1), change("hot2", fmt.Sprint(i), 1))
	}
	write(t, w, change("last", "1", 1))
	c.Compact()

	for _, size := range []int{1, 1 << 20} {
		s := newTarget()
		res, err := Restore(testContext(t), cl, s, FetchSize(size), BatchSize(3, 0))
		require.NoError(t, err)
		want := numbered(0, 10)
		want["first"], want["hot"], want["hot2"], want["last"] = "1", "9", "9", "1"
		require.Equal(t, want, s.values())
		require.EqualValues(t, 14, res.Rows)
		require.EqualValues(t, 31, s.offset)
	}
	// Start in a hole.
	s := newTarget().at(1)
	_, err := Restore(testContext(t), cl, s)
	require.NoError(t, err)
	require.Len(t, s.rows, 13)
	require.Zero(t, s.wipes)
}

func TestRestoreLeavesOutRecordsBehindTheEnd(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs(), kgo.ProducerLinger(time.Minute))
	w := newWriter(t, cl)
	singles(t, w, 0, 3)
	s := newTarget()
	res, err := Restore(testContext(t), cl, s, WithListener(Listener{Start: func(p Progress) {
		require.EqualValues(t, 3, p.End)
		singles(t, w, 3, 2)
	}}))
	require.NoError(t, err)
	require.Equal(t, numbered(0, 3), s.values())
	require.EqualValues(t, 3, res.Rows)
	require.EqualValues(t, 2, s.offset)
}

func TestRestoreOutOfRangeRebuilds(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs())
	singles(t, newWriter(t, cl), 0, 10)
	require.NoError(t, c.DeleteRecords(topic, 0, 6))
	for name, stored := range map[string]int64{"below the start": 4, "beyond the end": 10, "far beyond": 1000} {
		s := newTarget().at(stored)
		s.rows["stale"] = store.Row{Value: []byte("x")}
		lines := &recorder{}
		res, err := Restore(testContext(t), cl, s, WithLogger(slog.New(lines)))
		require.NoError(t, err, name)
		require.Equal(t, 1, s.wipes, name)
		require.Equal(t, numbered(6, 4), s.values(), name)
		require.EqualValues(t, 9, s.offset, name)
		require.Len(t, res.Rebuilds, 1, name)
		require.ErrorIs(t, res.Rebuilds[0], ErrOutOfRange, name)
		require.Equal(t, 1, lines.count("changelog does not hold what the store needs next: wiping and rebuilding the store"), name)
	}
	for name, stored := range map[string]int64{"the record before the start": 5, "the last record": 9} {
		s := newTarget().at(stored)
		_, err := Restore(testContext(t), cl, s)
		require.NoError(t, err, name)
		require.Zero(t, s.wipes, name)
	}
}

func TestRestoreRebuildsWhenTheLogIsCutMeanwhile(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs())
	singles(t, newWriter(t, cl), 0, 20)
	s := newTarget()
	var events []string
	res, err := Restore(testContext(t), cl, s, FetchSize(1), BatchSize(1, 0), WithListener(Listener{
		Start: func(p Progress) { events = append(events, fmt.Sprint("start ", p.Start)) },
		Batch: func(Progress) {
			if s.wipes == 0 {
				require.NoError(t, c.DeleteRecords(topic, 0, 15))
			}
		},
		Suspended: func(_ Progress, err error) {
			require.ErrorIs(t, err, ErrOutOfRange)
			events = append(events, "suspended")
		},
		End: func(Progress) { events = append(events, "end") },
	}))
	require.NoError(t, err)
	require.Equal(t, 1, s.wipes)
	require.Equal(t, numbered(15, 5), s.values())
	require.EqualValues(t, 5, res.Rows)
	require.Len(t, res.Rebuilds, 1)
	require.Equal(t, []string{"start 0", "suspended", "start 15", "end"}, events)
}

func TestRestoreGivesUpWhenDeletionIsFaster(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs())
	w := newWriter(t, cl)
	singles(t, w, 0, 10)
	s := newTarget()
	res, err := Restore(testContext(t), cl, s, FetchSize(1), BatchSize(1, 0), WithListener(Listener{Batch: func(p Progress) {
		singles(t, w, int(p.End), 10)
		require.NoError(t, c.DeleteRecords(topic, 0, p.End))
	}}))
	require.ErrorIs(t, err, ErrOutOfRange)
	require.ErrorContains(t, err, "keep the changelog longer")
	require.Len(t, res.Rebuilds, 3)
	require.Equal(t, 3, s.wipes)
}

// A broker that says out of range although the offset is there.
func TestRestoreDoubtsOutOfRange(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs())
	singles(t, newWriter(t, cl), 0, 3)
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.OffsetOutOfRange, Count: 2})
	s := newTarget()
	_, err := Restore(testContext(t), cl, s)
	require.NoError(t, err)
	require.Zero(t, s.wipes)
	require.Equal(t, numbered(0, 3), s.values())
}

func TestRestoreDropsNullKeys(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs())
	w := newWriter(t, cl)
	ctx := testContext(t)
	null := func() {
		require.NoError(t, cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr())
	}
	null()
	singles(t, w, 0, 2)
	null()
	lines := &recorder{}
	s := newTarget()
	res, err := Restore(ctx, cl, s, WithLogger(slog.New(lines)))
	require.NoError(t, err)
	require.Equal(t, numbered(0, 2), s.values())
	require.EqualValues(t, 2, res.NullKeys)
	require.EqualValues(t, 2, res.Rows)
	require.EqualValues(t, 3, s.offset)
	require.Equal(t, 1, lines.count("changelog record without a key left out; further ones are only counted"))
}

func TestRestorePositionHeaders(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs())
	var p0, p1 store.Position
	p0.Advance("orders", 0, 41)
	p1.Advance("orders", 1, 7)
	v := store.Header{Key: "v", Value: []byte{0}}
	user := store.Header{Key: "user", Value: []byte("u")}
	write(t, newWriter(t, cl),
		change("tracked", "1", 1, user, v, store.Header{Key: "c", Value: p0.Bytes()}),
		change("only tracked", "1", 1, v, store.Header{Key: "c", Value: p1.Bytes()}),
		change("users own", "1", 1, v, user),
	)
	s := newTarget()
	res, err := Restore(testContext(t), cl, s)
	require.NoError(t, err)
	requireRow(t, change("", "1", 1, user), s.rows["tracked"])
	requireRow(t, change("", "1", 1), s.rows["only tracked"])
	requireRow(t, change("", "1", 1, v, user), s.rows["users own"])
	require.EqualValues(t, 2, res.Positions)
	want := p0.Clone()
	want.Merge(p1)
	require.True(t, want.Equal(res.Position), "%v", res.Position)

	s = newTarget()
	res, err = Restore(testContext(t), cl, s, KeepPositionHeaders())
	require.NoError(t, err)
	require.Equal(t, 3, s.rows["tracked"].Headers.Len())
	require.Equal(t, 2, s.rows["only tracked"].Headers.Len())
	require.Zero(t, res.Positions)
}

func TestRestoreCancelledGoesOnLater(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs())
	singles(t, newWriter(t, cl), 0, 20)
	s := newTarget()
	ctx, cancel := context.WithCancel(testContext(t))
	var suspended []Progress
	res, err := Restore(ctx, cl, s, FetchSize(1), BatchSize(1, 0), WithListener(Listener{
		Batch: func(p Progress) {
			if p.Rows == 5 {
				cancel()
			}
		},
		Suspended: func(p Progress, err error) {
			require.ErrorIs(t, err, context.Canceled)
			suspended = append(suspended, p)
		},
		End: func(Progress) { t.Error("ended") },
	}))
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, suspended, 1)
	require.EqualValues(t, 5, suspended[0].Position)
	require.EqualValues(t, 15, suspended[0].Remaining())
	require.EqualValues(t, 5, res.Rows)
	require.EqualValues(t, 4, s.offset)
	require.Equal(t, numbered(0, 5), s.values())

	res, err = Restore(testContext(t), cl, s)
	require.NoError(t, err)
	require.EqualValues(t, 5, res.Start)
	require.EqualValues(t, 15, res.Rows)
	require.Equal(t, numbered(0, 20), s.values())
	require.Zero(t, s.wipes)
}

func TestRestoreCancelledBeforeItStarts(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs())
	ctx, cancel := context.WithCancel(testContext(t))
	cancel()
	_, err := Restore(ctx, cl, newTarget())
	require.ErrorIs(t, err, context.Canceled)
}

func TestRestoreCancelledWhileItWaits(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs(), kgo.TransactionalID("tx"))
	require.NoError(t, cl.BeginTransaction())
	write(t, newWriter(t, cl), change("a", "1", 1))
	ctx, cancel := context.WithCancel(testContext(t))
	log, _ := onMessage("restore waits for an open transaction to end", cancel)
	_, err := Restore(ctx, newClient(t, c.ListenAddrs()), newTarget(), ReadCommitted(), WithLogger(log))
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, cl.EndTransaction(testContext(t), kgo.TryAbort))
}

func TestRestoreFollowsTheLeader(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs())
	singles(t, newWriter(t, cl), 0, 20)
	leader := c.LeaderFor(topic, 0)
	moves := 0
	s := newTarget()
	_, err := Restore(testContext(t), cl, s, FetchSize(1), BatchSize(1, 0), WithListener(Listener{Batch: func(p Progress) {
		if p.Rows%5 == 0 && p.Rows < 20 {
			leader = (leader + 1) % 3
			moves++
			require.NoError(t, c.MoveTopicPartition(topic, 0, leader))
		}
	}}))
	require.NoError(t, err)
	require.Equal(t, 3, moves)
	require.Equal(t, numbered(0, 20), s.values())
	require.Zero(t, s.wipes)
}

func TestRestoreRetries(t *testing.T) {
	fault := func(key kmsg.Key, err *kerr.Error, n int) func(*kfake.Cluster) {
		return func(c *kfake.Cluster) { c.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Topic: topic, Err: err, Count: n}) }
	}
	for name, inject := range map[string]func(*kfake.Cluster){
		"fetch not leader":        fault(kmsg.Fetch, kerr.NotLeaderForPartition, 2),
		"fetch fenced epoch":      fault(kmsg.Fetch, kerr.FencedLeaderEpoch, 1),
		"fetch unknown epoch":     fault(kmsg.Fetch, kerr.UnknownLeaderEpoch, 1),
		"fetch unknown topic":     fault(kmsg.Fetch, kerr.UnknownTopicOrPartition, 1),
		"fetch unknown topic id":  fault(kmsg.Fetch, kerr.UnknownTopicID, 1),
		"fetch storage error":     fault(kmsg.Fetch, kerr.KafkaStorageError, 1),
		"list offset unavailable": fault(kmsg.ListOffsets, kerr.OffsetNotAvailable, 2),
		"list not leader":         fault(kmsg.ListOffsets, kerr.NotLeaderForPartition, 1),
		"metadata no leader":      fault(kmsg.Metadata, kerr.LeaderNotAvailable, 2),
		"connection cut": func(c *kfake.Cluster) {
			for range 2 {
				c.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) { return nil, errors.New("cut"), true })
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			cl := newProducer(t, c.ListenAddrs())
			singles(t, newWriter(t, cl), 0, 3)
			inject(c)
			lines := &recorder{}
			s := newTarget()
			_, err := Restore(testContext(t), cl, s, WithLogger(slog.New(lines)))
			require.NoError(t, err)
			require.Equal(t, numbered(0, 3), s.values())
			require.Positive(t, lines.count("changelog request failed, trying again"))
		})
	}
}

func TestRestoreReturnsLastingErrors(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs())
	singles(t, newWriter(t, cl), 0, 3)
	for _, key := range []kmsg.Key{kmsg.Fetch, kmsg.ListOffsets, kmsg.Metadata} {
		f := c.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Topic: topic, Err: kerr.TopicAuthorizationFailed, Count: -1})
		_, err := Restore(testContext(t), cl, newTarget())
		require.ErrorIs(t, err, kerr.TopicAuthorizationFailed)
		var e *Error
		require.ErrorAs(t, err, &e)
		f.Remove()
	}
}

func TestRestoreOfAMissingTopic(t *testing.T) {
	c := newCluster(t)
	cl := newClient(t, c.ListenAddrs())
	s := newTarget()
	s.topic = "no-such-changelog"
	_, err := Restore(testContext(t), cl, s)
	require.ErrorIs(t, err, ErrTopicMissing)
	require.ErrorIs(t, err, kerr.UnknownTopicOrPartition)
	require.ErrorContains(t, err, "EnsureTopic")

	s = newTarget()
	s.partition = 7
	_, err = Restore(testContext(t), cl, s)
	require.ErrorIs(t, err, ErrTopicMissing)
	require.ErrorContains(t, err, "the topic has 1 partitions")
}

func TestRestoreWhenTheTopicGoes(t *testing.T) {
	for _, again := range []bool{false, true} {
		c := newCluster(t)
		cl := newProducer(t, c.ListenAddrs())
		singles(t, newWriter(t, cl), 0, 20)
		s := newTarget()
		deleted := false
		_, err := Restore(testContext(t), newClient(t, c.ListenAddrs()), s, FetchSize(1), BatchSize(1, 0), WithListener(Listener{Batch: func(Progress) {
			if deleted {
				return
			}
			deleted = true
			require.NoError(t, c.DeleteTopic(topic))
			if again {
				require.NoError(t, c.CreateTopic(topic, 1, nil))
			}
		}}))
		require.ErrorIs(t, err, ErrTopicMissing)
		require.Zero(t, s.wipes, "the store is the only copy now")
		require.NotEmpty(t, s.rows)
		if again {
			require.ErrorContains(t, err, "bring the old topic back")
		}
	}
}

func TestExpectTopicID(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs())
	singles(t, newWriter(t, cl), 0, 2)
	s := newTarget()
	res, err := Restore(testContext(t), cl, s)
	require.NoError(t, err)
	_, err = Restore(testContext(t), cl, s, ExpectTopicID(res.TopicID))
	require.NoError(t, err)

	// A new log that is longer than the old one was: offsets alone cannot tell.
	require.NoError(t, c.DeleteTopic(topic))
	require.NoError(t, c.CreateTopic(topic, 1, nil))
	cl = newProducer(t, c.ListenAddrs())
	singles(t, newWriter(t, cl), 10, 5)
	_, err = Restore(testContext(t), cl, s, ExpectTopicID(res.TopicID))
	require.ErrorIs(t, err, ErrTopicMissing)
	require.Equal(t, numbered(0, 2), s.values())
}

func TestRestoreBatches(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs(), kgo.ProducerLinger(time.Minute))
	w := newWriter(t, cl)
	var changes []store.Change
	for i := range 10 {
		changes = append(changes, change(fmt.Sprintf("k%d", i), fmt.Sprint(i), 1, store.Header{Key: "n", Value: []byte("0123456789")}))
	}
	write(t, w, changes...)
	for name, tc := range map[string]struct {
		opt  RestoreOption
		want []batch
	}{
		"default":   {BatchSize(0, 0), []batch{{10, 9}}},
		"four rows": {BatchSize(4, 0), []batch{{4, 3}, {4, 7}, {2, 9}}},
		// A row is 2 + 1 bytes and its header 11.
		"forty bytes": {BatchSize(0, 40), []batch{{3, 2}, {3, 5}, {3, 8}, {1, 9}}},
		"exact end":   {BatchSize(5, 0), []batch{{5, 4}, {5, 9}}},
	} {
		s := newTarget()
		var progress []Progress
		_, err := Restore(testContext(t), cl, s, tc.opt, WithListener(Listener{Batch: func(p Progress) { progress = append(progress, p) }}))
		require.NoError(t, err, name)
		require.Equal(t, tc.want, s.batches, name)
		require.Equal(t, numbered(0, 10), s.values(), name)
		for i, b := range tc.want {
			require.EqualValues(t, b.rows, progress[i].Batch, name)
			require.Equal(t, b.offset+1, progress[i].Position, name)
			require.Equal(t, 9-b.offset, progress[i].Remaining(), name)
		}
		for i := range 10 {
			requireRow(t, changes[i], s.rows[fmt.Sprintf("k%d", i)])
		}
	}
}

// Small fetches are gathered into large batches, but not beyond the memory they keep.
func TestRestoreGathersFetches(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs())
	singles(t, newWriter(t, cl), 0, 20)
	s := newTarget()
	_, err := Restore(testContext(t), cl, s, FetchSize(1))
	require.NoError(t, err)
	require.Equal(t, []batch{{20, 19}}, s.batches)
	s = newTarget()
	_, err = Restore(testContext(t), cl, s, FetchSize(1), BatchSize(0, 60))
	require.NoError(t, err)
	require.Greater(t, len(s.batches), 3)
	require.Equal(t, numbered(0, 20), s.values())
}

func TestRestoreReturnsTheTargetsErrors(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs())
	singles(t, newWriter(t, cl), 0, 5)
	full := errors.New("disk full")
	s := newTarget()
	s.before = func(offset int64) error {
		if offset >= 2 {
			return full
		}
		return nil
	}
	var suspended error
	_, err := Restore(testContext(t), cl, s, BatchSize(1, 0), WithListener(Listener{Suspended: func(_ Progress, err error) { suspended = err }}))
	require.ErrorIs(t, err, full)
	require.ErrorIs(t, suspended, full)
	require.EqualValues(t, 1, s.offset)

	_, err = Restore(testContext(t), cl, &unwipable{newTarget().at(100)})
	require.ErrorIs(t, err, errUnwipable)
}

type unwipable struct{ *target }

var errUnwipable = errors.New("cannot wipe")

func (*unwipable) Wipe() error { return errUnwipable }

func TestRestoreRefusesBadSizes(t *testing.T) {
	c := newCluster(t)
	cl := newClient(t, c.ListenAddrs())
	for _, o := range []RestoreOption{BatchSize(-1, 0), BatchSize(0, -1), FetchSize(0), FetchSize(2 << 30)} {
		_, err := Restore(testContext(t), cl, newTarget(), o)
		require.ErrorIs(t, err, store.ErrConfig)
	}
}

func TestRestoreTells(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs())
	singles(t, newWriter(t, cl), 0, 4)
	var events []string
	note := func(name string) func(Progress) {
		return func(p Progress) {
			events = append(events, fmt.Sprintf("%s %s-%d %d..%d at %d, %d rows", name, p.Topic, p.Partition, p.Start, p.End, p.Position, p.Rows))
		}
	}
	lines := &recorder{}
	_, err := Restore(testContext(t), cl, newTarget().at(0), BatchSize(2, 0), WithLogger(slog.New(lines)),
		WithListener(Listener{Start: note("start"), Batch: note("batch"), End: note("end")}))
	require.NoError(t, err)
	require.Equal(t, []string{
		"start " + topic + "-0 1..4 at 1, 0 rows",
		"batch " + topic + "-0 1..4 at 3, 2 rows",
		"batch " + topic + "-0 1..4 at 4, 3 rows",
		"end " + topic + "-0 1..4 at 4, 3 rows",
	}, events)
	require.Equal(t, []string{"restoring from changelog", "restored from changelog"}, lines.messages)
}

func TestProgress(t *testing.T) {
	p := Progress{Start: 100, End: 500, Position: 200, Rows: 50, Elapsed: 2 * time.Second}
	require.EqualValues(t, 300, p.Remaining())
	require.InDelta(t, 25, p.RowsPerSecond(), 0.001)
	left, ok := p.ETA()
	require.True(t, ok)
	require.Equal(t, 6*time.Second, left)

	left, ok = Progress{Start: 5, End: 5, Position: 5}.ETA()
	require.True(t, ok)
	require.Zero(t, left)
	_, ok = Progress{End: 10}.ETA()
	require.False(t, ok)
	require.Zero(t, Progress{}.RowsPerSecond())
	require.Zero(t, Progress{End: 3, Position: 5}.Remaining())
}

// answerFetch makes the next fetch return the given bytes as records.
func answerFetch(c *kfake.Cluster, records []byte) {
	c.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		asked := req.(*kmsg.FetchRequest).Topics[0]
		p := kmsg.NewFetchResponseTopicPartition()
		p.RecordBatches = records
		answer := kmsg.NewFetchResponseTopic()
		answer.Topic, answer.TopicID = asked.Topic, asked.TopicID
		answer.Partitions = append(answer.Partitions, p)
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		resp.Topics = append(resp.Topics, answer)
		return resp, nil, true
	})
}

func TestRestoreOfBytesThatAreNotRecords(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs())
	singles(t, newWriter(t, cl), 0, 2)
	src := &source{cl: cl, topic: topic, isolation: kgo.ReadUncommitted(), maxBytes: 1 << 20, log: orSilent(nil), leader: -1}
	require.NoError(t, src.locate(testContext(t)))
	resp, err := src.fetchRequest(0).RequestWith(testContext(t), cl.Broker(int(src.leader)))
	require.NoError(t, err)
	good := resp.Topics[0].Partitions[0].RecordBatches
	one := len(good) / 2 // the two batches are equally long

	for name, tc := range map[string]struct {
		change func(b []byte)
		rows   int
	}{
		"first batch has a wrong checksum":    {func(b []byte) { b[one-1]++ }, 0},
		"second batch has a wrong checksum":   {func(b []byte) { b[2*one-1]++ }, 1},
		"first batch of an unknown version":   {func(b []byte) { b[16] = 9 }, 0},
		"second batch of an unknown version":  {func(b []byte) { b[one+16] = 9 }, 1},
		"first batch is longer than the rest": {func(b []byte) { b[9] = 1 }, 0},
	} {
		bytes := append([]byte(nil), good...)
		tc.change(bytes)
		answerFetch(c, bytes)
		if tc.rows > 0 {
			answerFetch(c, bytes[one:])
		}
		s := newTarget()
		_, err := Restore(testContext(t), cl, s, BatchSize(1, 0))
		require.ErrorIs(t, err, ErrUnreadable, name)
		require.Len(t, s.rows, tc.rows, name)
		require.Zero(t, s.wipes, name)
	}
	s := newTarget()
	_, err = Restore(testContext(t), cl, s)
	require.NoError(t, err)
	require.Equal(t, numbered(0, 2), s.values())
}

func TestRestoreEveryCompression(t *testing.T) {
	c := newCluster(t)
	for i, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
		cl := newProducer(t, c.ListenAddrs(), kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(time.Minute))
		w := newWriter(t, cl)
		for j := range 50 {
			require.NoError(t, w.Append(change(fmt.Sprintf("k%d", 50*i+j), fmt.Sprint(50*i+j), 1)))
		}
		_, _, err := w.Flush(testContext(t))
		require.NoError(t, err)
	}
	s := newTarget()
	_, err := Restore(testContext(t), newClient(t, c.ListenAddrs()), s)
	require.NoError(t, err)
	require.Equal(t, numbered(0, 250), s.values())
}

// Nothing may grow with the log: what is reachable while batches are applied stays within
// a few fetches and a batch.
func TestRestoreMemoryIsBounded(t *testing.T) {
	c := newCluster(t)
	fill(t, newWriter(t, newProducer(t, c.ListenAddrs())), 60_000, 2) // some 10 MB
	cl := newClient(t, c.ListenAddrs())
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	s := &null{topic: topic}
	var first, most int64
	batches := 0
	_, err := Restore(testContext(t), cl, s, FetchSize(64<<10), BatchSize(1000, 1<<20), WithListener(Listener{Batch: func(Progress) {
		if batches++; batches%10 == 0 {
			if first == 0 {
				first = heap()
			}
			most = max(most, heap())
		}
	}}))
	require.NoError(t, err)
	require.Equal(t, 60_000, s.rows)
	require.GreaterOrEqual(t, batches, 60)
	require.Less(t, most-first, int64(3<<20))
}

// bulkTarget gathers batches while a load is under way.
type bulkTarget struct {
	*target
	refuses        bool
	beginning, end error
	begun, ended   int
	gathering      bool
	changes        []store.Change
	offset         int64
	any            bool
}

func (s *bulkTarget) BeginBulk() (bool, error) {
	s.begun++
	s.gathering = !s.refuses && s.beginning == nil
	return s.gathering, s.beginning
}

func (s *bulkTarget) RestoreBatch(changes []store.Change, offset int64) error {
	if !s.gathering {
		return s.target.RestoreBatch(changes, offset)
	}
	if s.before != nil {
		if err := s.before(offset); err != nil {
			return err
		}
	}
	s.changes, s.offset, s.any = append(s.changes, changes...), offset, true
	return nil
}

func (s *bulkTarget) EndBulk() error {
	s.ended++
	s.gathering = false
	changes := s.changes
	s.changes = nil
	if s.end != nil || !s.any {
		return s.end
	}
	s.any = false
	return s.target.RestoreBatch(changes, s.offset)
}

func TestRestoreInBulk(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs())
	singles(t, newWriter(t, cl), 0, 20)
	small := []RestoreOption{FetchSize(1), BatchSize(3, 0)}
	restore := func(s *bulkTarget, opts ...RestoreOption) error {
		_, err := Restore(testContext(t), cl, s, append(small, opts...)...)
		return err
	}

	s := &bulkTarget{target: newTarget()}
	require.NoError(t, restore(s, Bulk(20)))
	require.Equal(t, []batch{{20, 19}}, s.batches)
	require.Equal(t, numbered(0, 20), s.values())
	require.Equal(t, []int{1, 1}, []int{s.begun, s.ended})

	for name, opts := range map[string][]RestoreOption{"too few": {Bulk(21)}, "never": {Bulk(-1)}, "the default": nil} {
		s = &bulkTarget{target: newTarget()}
		require.NoError(t, restore(s, opts...), name)
		require.Len(t, s.batches, 7, name)
		require.Zero(t, s.begun, name)
	}

	s = &bulkTarget{target: newTarget(), refuses: true}
	require.NoError(t, restore(s, Bulk(0)))
	require.Len(t, s.batches, 7)
	require.Equal(t, []int{1, 0}, []int{s.begun, s.ended})

	full := errors.New("disk full")
	s = &bulkTarget{target: newTarget(), beginning: full}
	require.ErrorIs(t, restore(s, Bulk(0)), full)
	require.Zero(t, s.ended)
	s = &bulkTarget{target: newTarget(), end: full}
	require.ErrorIs(t, restore(s, Bulk(0)), full)

	// What came before an error is kept.
	s = &bulkTarget{target: newTarget()}
	s.before = func(offset int64) error {
		if offset > 10 {
			return full
		}
		return nil
	}
	require.ErrorIs(t, restore(s, Bulk(0)), full)
	s.before = nil
	require.Equal(t, []batch{{9, 8}}, s.batches)
	require.Equal(t, numbered(0, 9), s.values())
	require.NoError(t, restore(s, Bulk(0)))
	require.Equal(t, []batch{{9, 8}, {11, 19}}, s.batches)
}
