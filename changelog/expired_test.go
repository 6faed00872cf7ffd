package changelog

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-streams/forebay/store"
)

// minutely writes n records, one a minute.
func minutely(t *testing.T, w *Writer, n int) {
	t.Helper()
	for i := range n {
		write(t, w, change(fmt.Sprintf("k%d", i), fmt.Sprint(i), int64(i)*60_000))
	}
}

func TestSkipExpired(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs())
	minutely(t, newWriter(t, cl), 20)
	for _, x := range []struct {
		kept  time.Duration
		start int64
	}{{0, 0}, {5 * time.Minute, 14}, {5*time.Minute + 1, 14}, {5*time.Minute - time.Millisecond, 15}, {19 * time.Minute, 0}, {time.Hour, 0}} {
		s := newTarget()
		res, err := Restore(testContext(t), cl, s, SkipExpired(x.kept))
		require.NoError(t, err)
		require.Equal(t, x.start, res.Start, x.kept)
		require.Equal(t, numbered(int(x.start), 20-int(x.start)), s.values())
		require.EqualValues(t, 19, s.offset)
	}
	s := newTarget().at(3)
	res, err := Restore(testContext(t), cl, s, SkipExpired(5*time.Minute))
	require.NoError(t, err)
	require.EqualValues(t, 4, res.Start, "a stored offset counts")
	res, err = Restore(testContext(t), cl, newTarget().at(500), SkipExpired(5*time.Minute))
	require.NoError(t, err)
	require.Len(t, res.Rebuilds, 1)
	require.EqualValues(t, 14, res.Start, "a rebuild too")
}

// AK #23087: the last thing in the log is a marker, behind more aborted records than the
// first look-back covers.
func TestSkipExpiredLooksPastMarkers(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs(), kgo.TransactionalID("tx"))
	w := newWriter(t, cl)
	transaction := func(end kgo.TransactionEndTry, changes ...store.Change) {
		require.NoError(t, cl.BeginTransaction())
		write(t, w, changes...)
		require.NoError(t, cl.EndTransaction(testContext(t), end))
	}
	for i := range 20 {
		transaction(kgo.TryCommit, change(fmt.Sprintf("k%d", i), fmt.Sprint(i), int64(i)*60_000))
	}
	var aborted []store.Change
	for i := range 200 {
		aborted = append(aborted, change("gone", fmt.Sprint(i), 99*60_000))
	}
	transaction(kgo.TryAbort, aborted...)
	s := newTarget()
	res, err := Restore(testContext(t), cl, s, SkipExpired(5*time.Minute), ReadCommitted())
	require.NoError(t, err)
	// A marker has the time at which it was written, here that of the test: the answer is
	// earlier than need be, never later.
	require.Positive(t, res.Start)
	require.LessOrEqual(t, res.Start, int64(28))
	require.Subset(t, s.values(), numbered(14, 6))
}

func TestSkipExpiredFallsBackToTheStart(t *testing.T) {
	c := newCluster(t)
	cl := newProducer(t, c.ListenAddrs())
	res, err := Restore(testContext(t), cl, newTarget(), SkipExpired(time.Minute))
	require.NoError(t, err)
	require.Zero(t, res.Start)
	minutely(t, newWriter(t, cl), 5)
	require.NoError(t, c.DeleteRecords(topic, 0, 5))
	res, err = Restore(testContext(t), cl, newTarget(), SkipExpired(time.Minute))
	require.NoError(t, err)
	require.EqualValues(t, 5, res.Start)

	minutely(t, newWriter(t, cl), 5)
	c.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		r := req.(*kmsg.ListOffsetsRequest)
		if r.Topics[0].Partitions[0].Timestamp < 0 {
			return nil, nil, false
		}
		out := r.ResponseKind().(*kmsg.ListOffsetsResponse)
		topicOut := kmsg.NewListOffsetsResponseTopic()
		topicOut.Topic = r.Topics[0].Topic
		p := kmsg.NewListOffsetsResponseTopicPartition()
		p.Offset = -1
		topicOut.Partitions = append(topicOut.Partitions, p)
		out.Topics = append(out.Topics, topicOut)
		return out, nil, true
	})
	res, err = Restore(testContext(t), cl, newTarget(), SkipExpired(time.Minute))
	require.NoError(t, err)
	require.EqualValues(t, 5, res.Start)
	ctx, cancel := context.WithCancel(testContext(t))
	cancel()
	_, err = Restore(ctx, cl, newTarget(), SkipExpired(time.Minute))
	require.ErrorIs(t, err, context.Canceled)
}
