package single_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-streams/forebay/changelog"
	"github.com/forebay-streams/forebay/dsl"
	"github.com/forebay-streams/forebay/dsl/single"
	"github.com/forebay-streams/forebay/store"
)

// words counts words by their first letter, through a repartition topic, and sends final
// counts of what a second saw.
func words(t *testing.T) *dsl.Topology {
	b := dsl.NewBuilder(dsl.StoreFormat("HEADERS"))
	in := dsl.ReadStream(b, "in", store.String(), store.String())
	letters := dsl.GroupBy(in, func(_, word string) string { return word[:1] }, nil, dsl.Named("letters"))
	letters.Count(dsl.As("counts")).
		Suppress(dsl.UntilTimeLimit(time.Second, dsl.Unbounded()), dsl.Named("calm")).
		ToStream().
		To("out")
	topology, err := b.Build()
	require.NoError(t, err)
	return topology
}

type env struct {
	cluster *kfake.Cluster
	brokers []string
	admin   *kadm.Client
	client  *kgo.Client
	dir     string
}

func start(t *testing.T) env {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "in", "out"), kfake.SeedTopics(2, "wide"))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return env{cluster, cluster.ListenAddrs(), kadm.NewClient(client), client, t.TempDir()}
}

func (e env) open(t *testing.T, topology *dsl.Topology) *single.App {
	app, err := single.Open(t.Context(), topology, single.Config{App: "words", Brokers: e.brokers, StateDir: e.dir, CacheBytes: 1 << 20, CommitEvery: 3})
	require.NoError(t, err)
	return app
}

func (e env) produce(t *testing.T, from int, list ...string) {
	for i, word := range list {
		r := &kgo.Record{Topic: "in", Value: []byte(word), Timestamp: time.UnixMilli(int64(from+i) * 100),
			Headers: []kgo.RecordHeader{{Key: "word", Value: []byte(word)}}}
		require.NoError(t, e.client.ProduceSync(t.Context(), r).FirstErr())
	}
}

// consumed reads n records of a topic.
func (e env) consumed(t *testing.T, topic string, n int) (out []string) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(e.brokers...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	require.NoError(t, err)
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for len(out) < n {
		fetches := cl.PollFetches(ctx)
		require.NoError(t, fetches.Err())
		for r := range fetches.RecordsAll() {
			var headers []string
			for h := range changelog.Headers(r).All() {
				headers = append(headers, h.Key+"="+string(h.Value))
			}
			out = append(out, fmt.Sprintf("%s=%x {%s} @%d", r.Key, r.Value, strings.Join(headers, ","), r.Timestamp.UnixMilli()))
		}
	}
	return out
}

func counts(t *testing.T, app *single.App) (out []string) {
	view, err := single.NewView(app, "counts", store.String(), store.Int64())
	require.NoError(t, err)
	for row, err := range view.All() {
		require.NoError(t, err)
		word, _ := row.Headers.Last("word")
		out = append(out, fmt.Sprintf("%s=%d %s", row.Key, row.Data, word.Value))
	}
	return out
}

// A topology with a repartition, a cache, a count and a suppress buffer is stopped, and
// started again with and without its state.
func TestRun(t *testing.T) {
	e := start(t)
	topology := words(t)
	app := e.open(t, topology)
	e.produce(t, 0, "apple", "bean", "almond", "beet", "anise")
	// Five words, and what they become in the repartition topic.
	require.NoError(t, app.Run(t.Context(), func(n int) bool { return n >= 10 }))
	assert.Equal(t, []string{"a=3 anise", "b=2 beet"}, counts(t, app))
	assert.Zero(t, app.Restored())
	require.NoError(t, app.Close())

	app = e.open(t, topology)
	assert.Equal(t, []string{"a=3 anise", "b=2 beet"}, counts(t, app))
	assert.Positive(t, app.Restored(), "the buffer is in memory only")
	e.produce(t, 5, "basil")
	require.NoError(t, app.Run(t.Context(), func(n int) bool { return n >= 2 }))
	require.NoError(t, app.Close())

	require.NoError(t, os.RemoveAll(filepath.Join(e.dir, "words")))
	app = e.open(t, topology)
	assert.Equal(t, []string{"a=3 anise", "b=3 basil"}, counts(t, app))
	assert.Greater(t, app.Restored(), int64(3))
	e.produce(t, 30, "cumin") // a second later: what was held back goes out
	require.NoError(t, app.Run(t.Context(), func(n int) bool { return n >= 2 }))
	view, err := single.NewView(app, "counts", store.String(), store.Int64())
	require.NoError(t, err)
	row, ok, err := view.Get("c")
	require.NoError(t, err)
	assert.True(t, ok)
	assert.EqualValues(t, 1, row.Data)
	for row, err := range view.Range("b", "b") {
		require.NoError(t, err)
		assert.EqualValues(t, 3, row.Data)
	}
	require.NoError(t, app.Close())
	out := e.consumed(t, "out", 2)
	slices.Sort(out)
	assert.Equal(t, []string{
		"a=0000000000000003 {word=anise} @400",
		"b=0000000000000003 {word=basil} @500",
	}, out)
}

// A window that was emitted is not emitted again after a restart, and one that closes in
// between is: how far it has come lies with the committed offset.
func TestResults(t *testing.T) {
	e := start(t)
	b := dsl.NewBuilder()
	seconds := dsl.ReadStream(b, "in", store.String(), store.String()).
		Filter(func(string, string) bool { return true })
	final := dsl.GroupBy(seconds, func(string, string) string { return "all" }, nil).
		WindowedBy(dsl.Tumbling(time.Second)).EmitOnClose()
	dsl.Map(dsl.Count(final, dsl.As("counts")).ToStream(), func(w dsl.Windowed[string], n int64) (string, int64) {
		return fmt.Sprint(w.Start), n
	}).To("out")
	topology, err := b.Build()
	require.NoError(t, err)

	app := e.open(t, topology)
	e.produce(t, 0, "a", "b") // in window 0
	e.produce(t, 10, "c")     // ends it
	require.NoError(t, app.Run(t.Context(), func(n int) bool { return n >= 6 }))
	require.NoError(t, app.Close())
	assert.Equal(t, []string{"0=0000000000000002 {word=c} @100"}, e.consumed(t, "out", 1))

	app = e.open(t, topology)
	e.produce(t, 20, "d")
	require.NoError(t, app.Run(t.Context(), func(n int) bool { return n >= 2 }))
	require.NoError(t, app.Close())
	assert.Equal(t, []string{"0=0000000000000002 {word=c} @100", "1000=0000000000000001 {word=d} @1000"}, e.consumed(t, "out", 2))
	offsets, err := e.admin.FetchOffsets(t.Context(), "words")
	require.NoError(t, err)
	in, ok := offsets.Lookup("in", 0)
	require.True(t, ok)
	assert.Equal(t, "AgAAAAAAAAfQ", in.Metadata, "version 2, time 2000")
}

func TestInternalTopics(t *testing.T) {
	e := start(t)
	require.NoError(t, e.open(t, words(t)).Close())
	topics, err := e.admin.ListTopics(t.Context())
	require.NoError(t, err)
	var names []string
	for _, name := range topics.Names() {
		if strings.HasPrefix(name, "words-") {
			names = append(names, name)
		}
	}
	assert.Equal(t, []string{"words-calm-store-changelog", "words-counts-changelog", "words-letters-repartition"}, names)
	configs, err := e.admin.DescribeTopicConfigs(t.Context(), names...)
	require.NoError(t, err)
	policies := map[string]string{}
	for _, c := range configs {
		for _, s := range c.Configs {
			if s.Key == "cleanup.policy" {
				policies[c.Name] = s.MaybeValue()
			}
		}
	}
	assert.Equal(t, map[string]string{names[0]: "compact", names[1]: "compact", names[2]: "delete"}, policies)
}

func TestRefused(t *testing.T) {
	e := start(t)
	for want, build := range map[string]func(b *dsl.Builder){
		`the topic "wide" has 2 partitions`: func(b *dsl.Builder) {
			dsl.ReadStream(b, "wide", store.String(), store.String()).To("out")
		},
		`the topic "wide" has 2`: func(b *dsl.Builder) {
			dsl.ReadStream(b, "in", store.String(), store.String()).To("wide")
		},
		`the topic "missing"`: func(b *dsl.Builder) { dsl.ReadStream(b, "missing", store.String(), store.String()).To("out") },
		"has a global table":  func(b *dsl.Builder) { dsl.ReadGlobalTable(b, "in", store.String(), store.String()) },
	} {
		b := dsl.NewBuilder()
		build(b)
		topology, err := b.Build()
		require.NoError(t, err)
		_, err = single.Open(t.Context(), topology, single.Config{App: "x", Brokers: e.brokers, StateDir: e.dir})
		require.ErrorContains(t, err, want)
	}
	_, err := single.Open(t.Context(), words(t), single.Config{})
	require.ErrorIs(t, err, store.ErrConfig)
}

// ticking forwards a record each few milliseconds of the time of day.
type ticking struct{}

func (ticking) Init(c *dsl.Context[string, string]) error {
	c.Schedule(5*time.Millisecond, dsl.WallClock, func(now int64) error {
		return c.Forward(dsl.Record[string, string]{Key: "tick", Value: "tock", Timestamp: now})
	})
	return nil
}

func (ticking) Process(dsl.Record[string, string]) error { return nil }

// Schedules by the time of day need no input, and what they forward is committed.
func TestWallClockWithoutInput(t *testing.T) {
	e := start(t)
	b := dsl.NewBuilder()
	in := dsl.ReadStream(b, "in", store.String(), store.String())
	dsl.ProcessValues(in, func() dsl.Processor[string, string, string, string] { return ticking{} }).To("out")
	topology, err := b.Build()
	require.NoError(t, err)
	app := e.open(t, topology)
	defer func() { require.NoError(t, app.Close()) }()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx, func(int) bool { return false }) }()
	out := e.consumed(t, "out", 2)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.Regexp(t, "^tick=", out[1])
}
