package changelog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-streams/forebay/store"
)

// realBroker is the address of a broker to test against, in FOREBAY_BROKER. Without it the
// test is skipped, or fails if FOREBAY_REQUIRE_BROKER is 1.
func realBroker(t testing.TB) []string {
	t.Helper()
	address := os.Getenv("FOREBAY_BROKER")
	if address == "" {
		if os.Getenv("FOREBAY_REQUIRE_BROKER") == "1" {
			t.Fatal("FOREBAY_REQUIRE_BROKER is 1, but FOREBAY_BROKER is empty")
		}
		t.Skip("set FOREBAY_BROKER=host:port to test against a real broker (scripts/broker.sh starts one)")
	}
	return []string{address}
}

// ofTopic is an empty target for another topic than the one of the fake cluster.
func ofTopic(name string) *target {
	s := newTarget()
	s.topic = name
	return s
}

// brokerTopic makes a changelog for one test and deletes it afterwards.
func brokerTopic(t testing.TB, seeds []string, settings map[string]string) (string, *kadm.Client) {
	t.Helper()
	adm := kadm.NewClient(newClient(t, seeds))
	name := fmt.Sprintf("forebay-test-%d-changelog", time.Now().UnixNano())
	require.NoError(t, EnsureTopic(testContext(t), adm, Spec{Topic: name, Partitions: 1, Settings: settings}))
	t.Cleanup(func() {
		_, err := adm.DeleteTopic(context.Background(), name)
		require.NoError(t, err)
	})
	return name, adm
}

func brokerWriter(t testing.TB, cl *kgo.Client, name string) *Writer {
	t.Helper()
	w, err := NewWriter(cl, name, 0)
	require.NoError(t, err)
	return w
}

// settle waits until the markers of all transactions are in the log: the broker answers the
// end of a transaction before it writes them.
func settle(t testing.TB, adm *kadm.Client, name string) {
	t.Helper()
	poll(t, func() bool {
		ends, err := adm.ListEndOffsets(testContext(t), name)
		require.NoError(t, err)
		stable, err := adm.ListCommittedOffsets(testContext(t), name)
		require.NoError(t, err)
		end, _ := ends.Lookup(name, 0)
		last, _ := stable.Lookup(name, 0)
		return end.Offset == last.Offset
	})
}

// poll asks until the answer is yes.
func poll(t testing.TB, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for !done() {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("waited in vain for 30 seconds")
		}
	}
}

func TestBrokerRoundTrip(t *testing.T) {
	seeds := realBroker(t)
	name, adm := brokerTopic(t, seeds, nil)
	ctx := testContext(t)
	cl := newProducer(t, seeds, kgo.TransactionalID(name))
	w := brokerWriter(t, cl, name)
	want := []store.Change{
		change("headers", "v", 1700000000123, store.Header{Key: "a", Value: []byte("1")}, store.Header{Key: "b"},
			store.Header{Key: "a", Value: []byte{}}, store.Header{Key: "", Value: []byte{0, 255}}),
		change("empty value", "", 7),
		change("none", "v", 0),
		change("", "empty key", 3),
	}
	transact(t, cl, w, kgo.TryCommit, change("gone", "x", 1), change("none", "older", 99))
	transact(t, cl, w, kgo.TryAbort, change("aborted", "x", 1), tombstone("gone", 1))
	transact(t, cl, w, kgo.TryCommit, append(want, tombstone("gone", 5, store.Header{Key: "why", Value: []byte("deleted")}))...)
	settle(t, adm, name)

	s := ofTopic(name)
	var deleted []store.Header
	res, err := Restore(ctx, newClient(t, seeds), &spy{s, func(c store.Change) {
		if c.Tombstone() {
			deleted = c.Headers.List()
		}
	}}, ReadCommitted())
	require.NoError(t, err)
	require.Len(t, s.rows, len(want))
	for _, c := range want {
		requireRow(t, c, s.rows[string(c.Key)])
	}
	require.Equal(t, []store.Header{{Key: "why", Value: []byte("deleted")}}, deleted)
	// 2 records, marker, 2 aborted, marker, 5 records, marker.
	require.EqualValues(t, 12, res.End)
	require.EqualValues(t, 7, res.Rows)
	require.EqualValues(t, 11, s.offset, "the last thing in the log is a marker")
	require.NotZero(t, res.TopicID)

	// Wiped and restored again, in the smallest pieces, the store is the same.
	again := ofTopic(name)
	_, err = Restore(ctx, newClient(t, seeds), again, ReadCommitted(), FetchSize(1), BatchSize(1, 0), ExpectTopicID(res.TopicID))
	require.NoError(t, err)
	require.Equal(t, s.values(), again.values())
	require.EqualValues(t, 11, again.offset)

	// There is nothing behind the marker.
	n := len(again.batches)
	_, err = Restore(ctx, newClient(t, seeds), again, ReadCommitted())
	require.NoError(t, err)
	require.Len(t, again.batches, n)
}

func TestBrokerOpenTransaction(t *testing.T) {
	seeds := realBroker(t)
	name, _ := brokerTopic(t, seeds, nil)
	cl := newProducer(t, seeds, kgo.TransactionalID(name))
	w := brokerWriter(t, cl, name)
	transact(t, cl, w, kgo.TryCommit, change("a", "1", 1))
	require.NoError(t, cl.BeginTransaction())
	write(t, w, change("a", "2", 2))
	const waits = "restore waits for an open transaction to end"
	s := ofTopic(name)
	log, lines := onMessage(waits, func() { require.NoError(t, cl.EndTransaction(testContext(t), kgo.TryCommit)) })
	_, err := Restore(testContext(t), newClient(t, seeds), s, ReadCommitted(), WithLogger(log))
	require.NoError(t, err)
	require.Equal(t, 1, lines.count(waits))
	require.Equal(t, map[string]string{"a": "2"}, s.values())
	require.EqualValues(t, 2, s.offset)
}

func TestBrokerOutOfRange(t *testing.T) {
	seeds := realBroker(t)
	// Records can be deleted only where the policy allows to.
	name, adm := brokerTopic(t, seeds, nil)
	policy := "compact,delete"
	_, err := adm.AlterTopicConfigs(testContext(t), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "cleanup.policy", Value: &policy},
		{Op: kadm.SetConfig, Name: "retention.ms", Value: kadm.StringPtr("-1")}}, name)
	require.NoError(t, err)
	cl := newProducer(t, seeds)
	singles(t, brokerWriter(t, cl, name), 0, 10)
	_, err = adm.DeleteRecords(testContext(t), kadm.Offsets{name: {0: kadm.Offset{Topic: name, At: 6}}})
	require.NoError(t, err)

	for _, stored := range []int64{4, 1000} {
		s := ofTopic(name).at(stored)
		s.rows["stale"] = store.Row{Value: []byte("x")}
		res, err := Restore(testContext(t), cl, s)
		require.NoError(t, err)
		require.Equal(t, 1, s.wipes)
		require.Len(t, res.Rebuilds, 1)
		require.ErrorIs(t, res.Rebuilds[0], ErrOutOfRange)
		require.Equal(t, numbered(6, 4), s.values())
		require.EqualValues(t, 9, s.offset)
	}
	s := ofTopic(name).at(5)
	_, err = Restore(testContext(t), cl, s)
	require.NoError(t, err)
	require.Zero(t, s.wipes)
	require.Equal(t, numbered(6, 4), s.values())

	// In the middle of a restore.
	s = ofTopic(name)
	_, err = Restore(testContext(t), cl, s, FetchSize(1), BatchSize(1, 0), WithListener(Listener{Start: func(Progress) {
		if s.wipes == 0 {
			_, err := adm.DeleteRecords(testContext(t), kadm.Offsets{name: {0: kadm.Offset{Topic: name, At: 8}}})
			require.NoError(t, err)
		}
	}}))
	require.NoError(t, err)
	require.Equal(t, 1, s.wipes)
	require.Equal(t, numbered(8, 2), s.values())

	// Everything deleted.
	_, err = adm.DeleteRecords(testContext(t), kadm.Offsets{name: {0: kadm.Offset{Topic: name, At: -1}}})
	require.NoError(t, err)
	s = ofTopic(name)
	_, err = Restore(testContext(t), cl, s)
	require.NoError(t, err)
	require.Equal(t, []batch{{0, 9}}, s.batches)
}

func TestBrokerCompaction(t *testing.T) {
	seeds := realBroker(t)
	name, adm := brokerTopic(t, seeds, map[string]string{"min.cleanable.dirty.ratio": "0.001", "segment.ms": "1000"})
	cl := newProducer(t, seeds)
	w := brokerWriter(t, cl, name)
	// Segments are rolled by the records' timestamps, so that no test has to wait for it.
	for i := range 20 {
		ts := int64(i+1) * 10_000
		write(t, w, change("hot", fmt.Sprint(i), ts), change(fmt.Sprintf("k%d", i%10), fmt.Sprint(i%10), ts))
	}
	tx := newProducer(t, seeds, kgo.TransactionalID(name))
	transact(t, tx, brokerWriter(t, tx, name), kgo.TryAbort, change("hot", "aborted", 1))
	settle(t, adm, name)
	want := numbered(0, 10)
	want["hot"] = "19"
	// Left of the 40 are the last of each of the ten keys and of the hot one; the last of the
	// segments is never compacted.
	poll(t, func() bool {
		s := ofTopic(name)
		res, err := Restore(testContext(t), cl, s, ReadCommitted())
		require.NoError(t, err)
		require.Equal(t, want, s.values())
		require.EqualValues(t, 42, res.End)
		require.EqualValues(t, 41, s.offset)
		return res.Rows == 11
	})

	// Start in a hole.
	s := ofTopic(name).at(10)
	_, err := Restore(testContext(t), cl, s, ReadCommitted(), FetchSize(1), BatchSize(1, 0))
	require.NoError(t, err)
	require.Zero(t, s.wipes)
	require.Equal(t, want, s.values())
	require.EqualValues(t, 41, s.offset)
}

func TestBrokerCancelAndGoOn(t *testing.T) {
	seeds := realBroker(t)
	name, _ := brokerTopic(t, seeds, nil)
	cl := newProducer(t, seeds)
	singles(t, brokerWriter(t, cl, name), 0, 20)
	s := ofTopic(name)
	ctx, cancel := context.WithCancel(testContext(t))
	_, err := Restore(ctx, cl, s, FetchSize(1), BatchSize(1, 0), WithListener(Listener{Batch: func(p Progress) {
		if p.Rows == 5 {
			cancel()
		}
	}}))
	require.ErrorIs(t, err, context.Canceled)
	require.EqualValues(t, 4, s.offset)
	res, err := Restore(testContext(t), cl, s)
	require.NoError(t, err)
	require.EqualValues(t, 5, res.Start)
	require.Equal(t, numbered(0, 20), s.values())
}

func TestBrokerTopicDeletedAndMadeAgain(t *testing.T) {
	seeds := realBroker(t)
	name, adm := brokerTopic(t, seeds, nil)
	cl := newProducer(t, seeds)
	singles(t, brokerWriter(t, cl, name), 0, 20)
	s := ofTopic(name)
	remade := false
	res, err := Restore(testContext(t), newClient(t, seeds), s, FetchSize(1), BatchSize(1, 0), WithListener(Listener{Batch: func(Progress) {
		if remade {
			return
		}
		remade = true
		_, err := adm.DeleteTopic(testContext(t), name)
		require.NoError(t, err)
		poll(t, func() bool { // a broker hears of it after the controller has answered
			_, err := describe(testContext(t), adm, name)
			return errors.Is(err, kerr.UnknownTopicOrPartition)
		})
		require.NoError(t, EnsureTopic(testContext(t), adm, Spec{Topic: name, Partitions: 1}))
	}}))
	require.ErrorIs(t, err, ErrTopicMissing)
	require.Zero(t, s.wipes)

	_, err = Restore(testContext(t), newClient(t, seeds), s, ExpectTopicID(res.TopicID))
	require.ErrorIs(t, err, ErrTopicMissing)
	s = ofTopic("no-" + name)
	_, err = Restore(testContext(t), newClient(t, seeds), s)
	require.ErrorIs(t, err, ErrTopicMissing)
}

func TestBrokerEnsureTopic(t *testing.T) {
	seeds := realBroker(t)
	prefix := fmt.Sprintf("forebay-test-%d", time.Now().UnixNano())
	testEnsureTopic(t, seeds, 1, prefix)
	adm := kadm.NewClient(newClient(t, seeds))
	for name := range specs() {
		_, err := adm.DeleteTopic(testContext(t), Name(prefix, name))
		require.NoError(t, err)
	}

	name, adm := brokerTopic(t, seeds, nil)
	err := EnsureTopic(testContext(t), adm, Spec{Topic: name, Partitions: 2, Kind: Window, Retention: 30 * 24 * hour})
	var m *MismatchError
	require.ErrorAs(t, err, &m)
	for i := range m.Differences {
		m.Differences[i].Remedy = ""
	}
	require.Equal(t, []Difference{
		{Setting: "cleanup.policy", Want: "compact,delete", Have: "compact"},
		{Setting: "partitions", Want: "2", Have: "1"},
		{Setting: "retention.ms", Want: "2678400000", Have: "604800000"},
	}, m.Differences)
	require.NoError(t, EnsureTopic(testContext(t), adm, Spec{Topic: name, Partitions: 2}, TolerateMismatch(slog.New(&recorder{}))))
}

func BenchmarkBrokerRestore(b *testing.B) {
	seeds := realBroker(b)
	name, _ := brokerTopic(b, seeds, nil)
	fill(b, brokerWriter(b, newProducer(b, seeds), name), benchRows, 2)
	restoreRows(b, seeds, name)
}
