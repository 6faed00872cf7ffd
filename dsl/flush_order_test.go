package dsl_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/dsl"
	"github.com/forebay-streams/forebay/dsl/internal/engine"
	"github.com/forebay-streams/forebay/kv"
	"github.com/forebay-streams/forebay/store"
)

// logCounter counts what is logged.
type logCounter struct {
	topic string
	n     int64
}

func (c *logCounter) Topic() string                              { return c.topic }
func (c *logCounter) Partition() int32                           { return 0 }
func (c *logCounter) Append(store.Change) error                  { c.n++; return nil }
func (c *logCounter) Flush(context.Context) (int64, bool, error) { return c.n - 1, c.n > 0, nil }

// remembers puts each value into a store.
type remembers struct {
	in *dsl.KeyValueStore[string, int64]
	of *kv.Store[string, int64]
}

func (p *remembers) Init(c *dsl.Context[string, int64]) (err error) {
	p.of, err = p.in.In(c)
	return err
}

func (p *remembers) Process(r dsl.Record[string, int64]) error {
	return p.of.Put(r.Key, store.Value[int64]{Data: r.Value, Timestamp: r.Timestamp})
}

// A store that a processor above a cache uses, and one below: what the flush of the cache
// writes to it is logged before the input counts as read.
func TestFlushReachesStoresAbove(t *testing.T) {
	b := dsl.NewBuilder()
	in := dsl.ReadStream(b, "in", store.String(), store.Int64())
	seen := dsl.AddKeyValueStore(b, "seen", store.String(), store.Int64())
	make := func() dsl.Processor[string, int64, string, int64] { return &remembers{in: seen} }
	dsl.ProcessValues(in, make, dsl.WithStores(seen))
	dsl.ProcessValues(in.GroupByKey().Count(dsl.As("counts")).ToStream(), make, dsl.WithStores(seen))
	topology, err := b.Build()
	require.NoError(t, err)
	logged := map[string]*logCounter{}
	groups := topology.Graph().Groups()
	require.Len(t, groups, 1)
	task, err := engine.NewTask(groups[0], engine.Config{
		App: "app", Dir: t.TempDir(), InMemory: true, Budget: store.NewBudget(1 << 20), Cache: true, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
		Log: func(topic string, _ int32) (store.Changelog, error) {
			logged[topic] = &logCounter{topic: topic}
			return logged[topic], nil
		},
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, task.Close()) }()
	require.NoError(t, task.Process(engine.Input{Topic: "in", Key: []byte("k"), Value: []byte{0, 0, 0, 0, 0, 0, 0, 9}}))
	require.NoError(t, task.Flush(t.Context()))
	seenLog := logged["app-seen-changelog"]
	flushed := seenLog.n
	require.NoError(t, task.Commit(t.Context()))
	assert.EqualValues(t, 2, flushed, "the value, and the count that the flush forwarded")
	assert.Equal(t, flushed, seenLog.n, "nothing is logged at the commit")
}
