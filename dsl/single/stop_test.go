package single_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-streams/forebay/dsl"
	"github.com/forebay-streams/forebay/dsl/single"
	"github.com/forebay-streams/forebay/store"
)

func (e env) committed(t *testing.T) int64 {
	offsets, err := e.admin.FetchOffsets(t.Context(), "words")
	require.NoError(t, err)
	in, ok := offsets.Lookup("in", 0)
	if !ok {
		return -1
	}
	return in.At
}

// failing has a processor that fails at its second record, once.
type failing struct{ n *int }

func (p failing) Init(*dsl.Context[string, string]) error { return nil }

func (p failing) Process(dsl.Record[string, string]) error {
	if *p.n++; *p.n == 2 {
		return errors.New("not now")
	}
	return nil
}

// After an error nothing runs or commits any more: the rest of the batch would be missed.
func TestErrorStays(t *testing.T) {
	e := start(t)
	n := 0
	b := dsl.NewBuilder()
	dsl.Process(dsl.ReadStream(b, "in", store.String(), store.String()), func() dsl.Processor[string, string, string, string] { return failing{&n} })
	topology, err := b.Build()
	require.NoError(t, err)
	app, err := single.Open(t.Context(), topology, single.Config{App: "words", Brokers: e.brokers, StateDir: e.dir})
	require.NoError(t, err)
	e.produce(t, 0, "a", "b", "c", "d")
	require.ErrorContains(t, app.Run(t.Context(), func(n int) bool { return n >= 4 }), "not now")
	require.ErrorContains(t, app.Run(t.Context(), func(int) bool { return true }), "not now")
	require.ErrorContains(t, app.Commit(t.Context()), "not now")
	require.NoError(t, app.Close())
	assert.Negative(t, e.committed(t))

	app = e.open(t, topology)
	require.NoError(t, app.Run(t.Context(), func(n int) bool { return n >= 4 }))
	require.NoError(t, app.Close())
	assert.EqualValues(t, 4, e.committed(t))
	assert.Equal(t, 6, n, "two before the error, and all four again")
}

// noting has a schedule that asks for a commit with every batch.
type noting struct{ seen map[string]bool }

func (p noting) Init(c *dsl.Context[string, string]) error {
	c.Schedule(time.Millisecond, dsl.WallClock, func(int64) error { return nil })
	return nil
}

func (p noting) Process(r dsl.Record[string, string]) error {
	p.seen[r.Value] = true
	return nil
}

// What was fetched is processed before anything commits that may fail: nothing is skipped.
func TestNoInputIsSkippedAfterAFailedCommit(t *testing.T) {
	e := start(t)
	seen := map[string]bool{}
	b := dsl.NewBuilder()
	dsl.ProcessValues(dsl.ReadStream(b, "in", store.String(), store.String()), func() dsl.Processor[string, string, string, string] { return noting{seen} }).To("out")
	topology, err := b.Build()
	require.NoError(t, err)
	app, err := single.Open(t.Context(), topology, single.Config{App: "words", Brokers: e.brokers, StateDir: e.dir})
	require.NoError(t, err)
	defer func() { require.NoError(t, app.Close()) }()
	e.cluster.ControlKey(int16(int16(kmsg.OffsetCommit)), func(r kmsg.Request) (kmsg.Response, error, bool) {
		request := r.(*kmsg.OffsetCommitRequest)
		response := request.ResponseKind().(*kmsg.OffsetCommitResponse)
		for _, asked := range request.Topics {
			topic := kmsg.NewOffsetCommitResponseTopic()
			topic.Topic, topic.TopicID = asked.Topic, asked.TopicID
			for _, one := range asked.Partitions {
				partition := kmsg.NewOffsetCommitResponseTopicPartition()
				partition.Partition, partition.ErrorCode = one.Partition, kerr.InvalidCommitOffsetSize.Code
				topic.Partitions = append(topic.Partitions, partition)
			}
			response.Topics = append(response.Topics, topic)
		}
		return response, nil, true // of the first request only
	})
	const n = 300
	var producer sync.WaitGroup
	producer.Go(func() {
		for i := range n {
			e.produce(t, i, strconv.Itoa(i)) // one by one, so that there are many batches
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	all := func(int) bool { return len(seen) == n }
	require.ErrorIs(t, app.Run(ctx, all), kerr.InvalidCommitOffsetSize)
	require.NoError(t, app.Run(ctx, all))
	producer.Wait()
	assert.EqualValues(t, n, e.committed(t))
}

// The end of the context is no reason to process again what was processed.
func TestEndOfContext(t *testing.T) {
	e := start(t)
	app, err := single.Open(t.Context(), words(t), single.Config{App: "words", Brokers: e.brokers, StateDir: e.dir})
	require.NoError(t, err)
	e.produce(t, 0, "a")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	err = app.Run(ctx, func(n int) bool {
		if n > 0 {
			cancel()
		}
		return false
	})
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, app.Close())
	assert.Positive(t, e.committed(t))
}
