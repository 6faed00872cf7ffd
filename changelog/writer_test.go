package changelog

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-streams/forebay/store"
)

func TestWriterReturnsTheLastOffset(t *testing.T) {
	c := newCluster(t)
	w := newWriter(t, newProducer(t, c.ListenAddrs()))
	require.Equal(t, topic, w.Topic())
	require.Zero(t, w.Partition())

	_, ok, err := w.Flush(testContext(t))
	require.NoError(t, err)
	require.False(t, ok, "nothing was ever written")

	require.EqualValues(t, 0, write(t, w, change("a", "1", 1)))
	require.EqualValues(t, 3, write(t, w, change("b", "1", 2), change("a", "2", 3), tombstone("b", 4)))
	last, ok, err := w.Flush(testContext(t))
	require.NoError(t, err)
	require.True(t, ok)
	require.EqualValues(t, 3, last, "still, when nothing was queued since")
}

func TestWriterSendsRecordsAsTheyAre(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	w := newWriter(t, cl)
	write(t, w,
		change("k", "v", 0, store.Header{Key: "a", Value: []byte("1")}, store.Header{Key: "", Value: nil}, store.Header{Key: "a", Value: []byte{}}),
		change("k", "", 1700000000123),
		tombstone("k", 5, store.Header{Key: "why", Value: []byte("gone")}),
	)
	var got []*kgo.Record
	for len(got) < 3 {
		f := cl.PollFetches(testContext(t))
		require.NoError(t, f.Err())
		got = append(got, f.Records()...)
	}
	require.Equal(t, []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: ""}, {Key: "a", Value: []byte{}}}, got[0].Headers)
	require.EqualValues(t, 0, got[0].Timestamp.UnixMilli())
	require.Equal(t, []byte("v"), got[0].Value)
	require.Equal(t, []byte{}, got[1].Value)
	require.Empty(t, got[1].Headers)
	require.EqualValues(t, 1700000000123, got[1].Timestamp.UnixMilli())
	require.Nil(t, got[2].Value)
	require.Equal(t, []kgo.RecordHeader{{Key: "why", Value: []byte("gone")}}, got[2].Headers)
}

// AK #21639: changes of the input's header list after a delete must not reach its record.
func TestWriterTakesASnapshotOfTheHeaders(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs(), kgo.ProducerLinger(time.Minute))
	w := newWriter(t, cl)
	list := []store.Header{{Key: "k", Value: []byte("before")}}
	d := tombstone("k", 1)
	d.Headers = store.NewHeaders(list...)
	require.NoError(t, w.Append(d))
	require.NoError(t, d.Headers.Add("later", []byte("x")))
	require.NoError(t, d.Headers.Remove("k"))
	list[0].Key = "changed"
	require.NoError(t, w.Append(change("end", "", 1)))
	_, _, err := w.Flush(testContext(t))
	require.NoError(t, err)

	var headers []store.Header
	s := newTarget()
	seen := &spy{target: s, see: func(c store.Change) {
		if c.Tombstone() {
			headers = c.Headers.List()
		}
	}}
	_, err = Restore(testContext(t), cl, seen)
	require.NoError(t, err)
	require.Equal(t, []store.Header{{Key: "k", Value: []byte("before")}}, headers)
}

// spy shows every change to a function.
type spy struct {
	*target
	see func(store.Change)
}

func (s *spy) RestoreBatch(changes []store.Change, offset int64) error {
	for _, c := range changes {
		s.see(c)
	}
	return s.target.RestoreBatch(changes, offset)
}

func TestWriterRefusesBeforeQueueing(t *testing.T) {
	c := newCluster(t)
	w := newWriter(t, newProducer(t, c.ListenAddrs()))
	corrupt := change("k", "v", 1)
	corrupt.Headers = store.HeadersFromBlock([]byte{2, 9})
	for name, tc := range map[string]struct {
		change store.Change
		want   error
	}{
		"negative timestamp":    {change("k", "v", -1), store.ErrNegativeTimestamp},
		"timestamp of year 292": {change("k", "v", maxTimestamp+1), store.ErrUnencodable},
		"nil key":               {store.Change{Row: store.Row{Value: []byte("v")}}, store.ErrNilKey},
		"corrupt headers":       {corrupt, store.ErrCorrupt},
	} {
		err := w.Append(tc.change)
		require.ErrorIs(t, err, tc.want, name)
		var e *Error
		require.ErrorAs(t, err, &e, name)
		require.Equal(t, topic, e.Topic, name)
	}
	require.EqualValues(t, 0, write(t, w, change("k", "v", maxTimestamp)), "nothing else was written, and no error stuck")
	require.EqualValues(t, 1, c.PartitionInfo(topic, 0).HighWatermark)
}

func TestWriterErrorStaysUntilReset(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs())
	w := newWriter(t, cl)
	write(t, w, change("a", "1", 1))
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.MessageTooLarge})
	require.NoError(t, w.Append(change("b", "1", 2)))
	_, ok, err := w.Flush(testContext(t))
	require.ErrorIs(t, err, ErrNotWritten)
	require.ErrorIs(t, err, kerr.MessageTooLarge)
	require.ErrorContains(t, err, "Reset")
	require.False(t, ok)

	require.ErrorIs(t, w.Append(change("c", "1", 3)), kerr.MessageTooLarge)
	_, _, err = w.Flush(testContext(t))
	require.ErrorIs(t, err, kerr.MessageTooLarge)

	w.Reset()
	last, ok, err := w.Flush(testContext(t))
	require.NoError(t, err)
	require.True(t, ok)
	require.EqualValues(t, 0, last, "what the last successful Flush said")
	require.EqualValues(t, 1, write(t, w, change("c", "1", 3)))
}

func TestWriterKeepsTheFirstError(t *testing.T) {
	c := newCluster(t)
	w := newWriter(t, newProducer(t, c.ListenAddrs()))
	w.now.pending = 3
	w.now.done(&kgo.Record{Offset: 4}, nil)
	w.now.done(&kgo.Record{}, kerr.MessageTooLarge)
	w.now.done(&kgo.Record{}, kerr.InvalidRecord)
	_, _, err := w.Flush(testContext(t))
	require.ErrorIs(t, err, kerr.MessageTooLarge)
	require.NotErrorIs(t, err, kerr.InvalidRecord)
}

func TestResetForgetsRecordsInFlight(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs(), kgo.ProducerLinger(time.Minute))
	w := newWriter(t, cl)
	require.NoError(t, w.Append(change("a", "1", 1)))
	w.Reset()
	_, ok, err := w.Flush(testContext(t))
	require.NoError(t, err, "does not wait for the forgotten record")
	require.False(t, ok)
	// Its late failure belongs to the round before.
	require.NoError(t, cl.AbortBufferedRecords(testContext(t)))
	require.EqualValues(t, 0, write(t, w, change("b", "1", 1)))
}

// The list of partitions that EndTransaction goes by can be behind the acknowledgement.
func TestFlushWaitsUntilTheClientListsThePartition(t *testing.T) {
	w := newWriter(t, newProducer(t, newCluster(t).ListenAddrs()))
	require.Nil(t, w.leader, "no transactions, nothing to wait for")
	asked := 0
	w.leader = func(name string, partition int32) (int32, int32, error) {
		require.Equal(t, topic, name)
		require.Zero(t, partition)
		if asked++; asked < 4 {
			return -1, -1, nil
		}
		return 1, 0, nil
	}
	require.EqualValues(t, 0, write(t, w, change("a", "1", 1)))
	require.Equal(t, 4, asked)

	w.leader = func(string, int32) (int32, int32, error) { return -1, -1, kerr.LeaderNotAvailable }
	require.EqualValues(t, 1, write(t, w, change("a", "2", 1)), "a partition without a leader is listed")

	ctx, cancel := context.WithCancel(testContext(t))
	w.leader = func(string, int32) (int32, int32, error) { cancel(); return -1, -1, nil }
	require.NoError(t, w.Append(change("a", "3", 1)))
	_, ok, err := w.Flush(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, ok)
	w.leader = w.cl.PartitionLeader
	last, ok, err := w.Flush(testContext(t))
	require.NoError(t, err, "it can be called again")
	require.True(t, ok)
	require.EqualValues(t, 2, last)
}

// holding is a manual partitioner that keeps the client from going on with the record "held".
type holding struct{ until chan struct{} }

func (h holding) ForTopic(name string) kgo.TopicPartitioner {
	return heldTopic{kgo.ManualPartitioner().ForTopic(name), h.until}
}

type heldTopic struct {
	kgo.TopicPartitioner
	until chan struct{}
}

func (h heldTopic) Partition(r *kgo.Record, n int) int {
	if string(r.Key) == "held" {
		<-h.until
	}
	return h.TopicPartitioner.Partition(r, n)
}

// The first transaction of a topic, committed while the client has sent the record and not
// yet listed the partition: what is between the two is made to last.
func TestTheFirstTransactionOfATopicIsCommitted(t *testing.T) {
	c := newCluster(t)
	until := make(chan struct{})
	release := sync.OnceFunc(func() { close(until) })
	cl := newProducer(t, c.ListenAddrs(), kgo.TransactionalID("tx"), kgo.RecordPartitioner(holding{until}))
	t.Cleanup(release)
	w := newWriter(t, cl)
	require.NoError(t, cl.BeginTransaction())
	both := make(chan struct{})
	c.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) { <-both; return nil, nil, false })
	require.NoError(t, w.Append(change("a", "1", 1)))
	cl.Produce(t.Context(), &kgo.Record{Topic: topic, Key: []byte("held")}, nil)
	close(both)

	require.NoError(t, w.now.wait(testContext(t)), "acknowledged")
	leader, _, err := cl.PartitionLeader(topic, 0)
	require.NoError(t, err)
	require.EqualValues(t, -1, leader, "and not listed")
	require.NotNil(t, w.leader)
	asked := 0
	w.leader = func(name string, partition int32) (int32, int32, error) {
		if asked++; asked == 3 {
			release()
		}
		return cl.PartitionLeader(name, partition)
	}
	_, ok, err := w.Flush(testContext(t))
	require.NoError(t, err)
	require.True(t, ok)
	require.GreaterOrEqual(t, asked, 3)
	require.NoError(t, cl.Flush(testContext(t)))
	require.NoError(t, cl.EndTransaction(testContext(t), kgo.TryCommit))
	transact(t, cl, w, kgo.TryCommit, change("a", "2", 2))

	s := newTarget()
	res, err := Restore(testContext(t), cl, s, ReadCommitted())
	require.NoError(t, err)
	require.Equal(t, "2", s.values()["a"])
	require.EqualValues(t, 3, res.Rows, "of both transactions")
}

func TestWriterInAnAbortedTransaction(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs(), kgo.TransactionalID("tx"))
	w := newWriter(t, cl)
	ctx := testContext(t)
	require.NoError(t, cl.BeginTransaction())
	require.EqualValues(t, 0, write(t, w, change("a", "1", 1)))
	require.NoError(t, cl.EndTransaction(ctx, kgo.TryCommit))

	require.NoError(t, cl.BeginTransaction())
	require.NoError(t, w.Append(change("a", "2", 2)))
	require.NoError(t, cl.AbortBufferedRecords(ctx))
	require.NoError(t, cl.EndTransaction(ctx, kgo.TryAbort))
	w.Reset()

	require.NoError(t, cl.BeginTransaction())
	last := write(t, w, change("b", "1", 3))
	require.NoError(t, cl.EndTransaction(ctx, kgo.TryCommit))
	require.GreaterOrEqual(t, last, int64(2), "behind the first marker")

	s := newTarget()
	_, err := Restore(ctx, cl, s, ReadCommitted())
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "1", "b": "1"}, s.values())
}

func TestFlushCanBeCalledAgainAfterItsContextEnds(t *testing.T) {
	c := newCluster(t)
	w := newWriter(t, newProducer(t, c.ListenAddrs()))
	release, held := make(chan struct{}), make(chan struct{})
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.SleepControl(func() { close(held); <-release })
		return nil, nil, false
	})
	require.NoError(t, w.Append(change("a", "1", 1)))
	<-held
	ctx, cancel := context.WithCancel(testContext(t))
	cancel()
	_, _, err := w.Flush(ctx)
	require.ErrorIs(t, err, context.Canceled)
	close(release)
	last, ok, err := w.Flush(testContext(t))
	require.NoError(t, err)
	require.True(t, ok)
	require.EqualValues(t, 0, last)
}

func TestRecordContext(t *testing.T) {
	c := newCluster(t)
	ctx, cancel := context.WithCancel(context.Background())
	w := newWriter(t, newProducer(t, c.ListenAddrs()), RecordContext(ctx))
	cancel()
	require.NoError(t, w.Append(change("a", "1", 1)))
	_, _, err := w.Flush(testContext(t))
	require.ErrorIs(t, err, ErrNotWritten)
	require.ErrorIs(t, err, context.Canceled)
}

func TestNewWriterDetectsAWrongClient(t *testing.T) {
	c := newCluster(t)
	for name, tc := range map[string]struct {
		opt  kgo.Opt
		want error
	}{
		"default":     {kgo.ClientID("x"), ErrWrongPartition},
		"sticky":      {kgo.RecordPartitioner(kgo.StickyPartitioner()), ErrWrongPartition},
		"round robin": {kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), ErrWrongPartition},
		"backup":      {kgo.RecordPartitioner(kgo.LeastBackupPartitioner()), ErrWrongPartition},
	} {
		_, err := NewWriter(newClient(t, c.ListenAddrs(), tc.opt), topic, 1)
		require.ErrorIs(t, err, tc.want, name)
		require.ErrorContains(t, err, "ProducerOpts", name)
	}
	cl := newProducer(t, c.ListenAddrs(), kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	_, err := NewWriter(cl, topic, 1)
	require.ErrorIs(t, err, store.ErrConfig)
	require.ErrorContains(t, err, "ProducerOpts")
}

// A partitioner that answers the questions of NewWriter and then does something else.
func TestAcknowledgementFromAnotherPartition(t *testing.T) {
	c := newCluster(t, kfake.SeedTopics(2, topic))
	cl := newProducer(t, c.ListenAddrs(), kgo.RecordPartitioner(kgo.BasicConsistentPartitioner(
		func(string) func(*kgo.Record, int) int {
			return func(r *kgo.Record, _ int) int {
				if string(r.Key) == "stray" {
					return 1
				}
				return int(r.Partition)
			}
		})))
	w := newWriter(t, cl)
	write(t, w, change("k", "v", 1))
	require.NoError(t, w.Append(change("stray", "v", 1)))
	_, _, err := w.Flush(testContext(t))
	require.ErrorIs(t, err, ErrWrongPartition)
	require.ErrorContains(t, err, "ProducerOpts")
	require.ErrorIs(t, w.Append(change("k", "v", 1)), ErrWrongPartition)
}

func TestErrorText(t *testing.T) {
	err := &Error{Topic: "t", Partition: 2, Op: "fetch", Err: errors.New("no"), Remedy: "do this"}
	require.EqualError(t, err, "changelog t-2: fetch: no; do this")
}
