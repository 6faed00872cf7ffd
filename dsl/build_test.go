package dsl_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/dsl"
	"github.com/forebay-streams/forebay/store"
)

// What is wrong with a topology comes from Build, all of it, with the operators' names.
func TestBuildErrors(t *testing.T) {
	type order struct{ ID string }
	for _, c := range []struct {
		name, want string
		build      func(b *dsl.Builder)
	}{
		{"empty", "dsl: Build: the topology is empty", func(*dsl.Builder) {}},
		{"no topic", "dsl: KSTREAM-SOURCE-0000000000: a topic's name is empty", func(b *dsl.Builder) { read(b, "") }},
		{"topic twice", `dsl: all: the topic "a" is given twice`, func(b *dsl.Builder) {
			dsl.ReadStreams(b, []string{"a", "a"}, store.String(), store.String(), dsl.Named("all"))
		}},
		{"no serde", "dsl: KSTREAM-SOURCE-0000000000: a value of type dsl_test.order: no serde is known for this type; give one with WithKeySerde, WithValueSerde, or in the call", func(b *dsl.Builder) {
			dsl.ReadStream[string, order](b, "a", nil, nil)
		}},
		{"no serde at a sink", "dsl: KSTREAM-SINK-0000000002: a value of type dsl_test.order: no serde is known for this type; give one with WithKeySerde, WithValueSerde, or in the call", func(b *dsl.Builder) {
			dsl.MapValues(read(b, "a"), func(*string) order { return order{} }).To("out")
		}},
		{"name twice", "dsl: x: the name is taken by another operator", func(b *dsl.Builder) {
			read(b, "a").Peek(func(string, *string) {}, dsl.Named("x")).Peek(func(string, *string) {}, dsl.Named("x"))
		}},
		{"store twice", `dsl: KSTREAM-AGGREGATE-0000000002: the store "s" exists already`, func(b *dsl.Builder) {
			g := grouped(b)
			g.Count(dsl.As("s"))
			g.Count(dsl.As("s"))
		}},
		{"headers and none", "dsl: KSTREAM-AGGREGATE-0000000001: Headers and NoHeaders exclude each other", func(b *dsl.Builder) {
			grouped(b).Count(dsl.As("s"), dsl.NoHeaders(), dsl.Headers(dsl.Latest()))
		}},
		{"limits of a union", "dsl: KSTREAM-AGGREGATE-0000000001: bad configuration: Union keeps at most 0 headers of 8192 bytes; both must be at least 1", func(b *dsl.Builder) {
			grouped(b).Count(dsl.As("s"), dsl.Headers(dsl.Union(0, 8192)))
		}},
		{"another builder's store", `dsl: KSTREAM-PROCESSOR-0000000001: the store "s" was added to another builder`, func(b *dsl.Builder) {
			other := dsl.AddKeyValueStore(dsl.NewBuilder(), "s", store.String(), store.Int64())
			dsl.Process(read(b, "a"), func() dsl.Processor[string, *string, string, string] { return nil }, dsl.WithStores(other))
		}},
		{"no store", "dsl: KSTREAM-PROCESSOR-0000000001: a store of WithStores is nil", func(b *dsl.Builder) {
			dsl.Process(read(b, "a"), func() dsl.Processor[string, *string, string, string] { return nil }, dsl.WithStores(nil))
		}},
		{"no policy", "dsl: KSTREAM-AGGREGATE-0000000001: the header policy has no function; use one of Latest, Empty, First, Union and MergeHeaders", func(b *dsl.Builder) {
			grouped(b).Count(dsl.As("s"), dsl.Headers(dsl.HeaderPolicy{}))
		}},
		{"retention without windows", "dsl: KSTREAM-AGGREGATE-0000000001: Retention is for windows and sessions; this store has none", func(b *dsl.Builder) {
			grouped(b).Count(dsl.As("s"), dsl.Retention(time.Hour))
		}},
		{"retention too short", "dsl: KSTREAM-AGGREGATE-0000000001: the retention 10s is less than the 15s that its windows need", func(b *dsl.Builder) {
			dsl.Count(grouped(b).WindowedBy(tumbling), dsl.As("s"), dsl.Retention(10*time.Second))
		}},
		{"versioned windows", "dsl: KSTREAM-AGGREGATE-0000000001: Versioned is for tables; a windowed store keeps no versions", func(b *dsl.Builder) {
			dsl.Count(grouped(b).WindowedBy(tumbling), dsl.As("s"), dsl.Versioned(time.Hour))
		}},
		{"suppress without windows", "dsl: KTABLE-SUPPRESS-0000000002: UntilWindowCloses needs a table whose keys are windows", func(b *dsl.Builder) {
			grouped(b).Count(dsl.As("s")).Suppress(dsl.UntilWindowCloses(dsl.Unbounded()))
		}},
		{"final results cannot be early", "dsl: last: UntilWindowCloses cannot emit early: its buffer needs FailWhenFull", func(b *dsl.Builder) {
			dsl.Count(grouped(b).WindowedBy(tumbling), dsl.As("s")).Suppress(dsl.UntilWindowCloses(dsl.MaxRecords(3)), dsl.Named("last"))
		}},
		{"suppress a versioned table", "dsl: KTABLE-SUPPRESS-0000000002: not available downstream of a versioned table", func(b *dsl.Builder) {
			dsl.ReadTable[string, *string](b, "a", nil, nil, dsl.As("v"), dsl.Versioned(time.Hour)).Suppress(dsl.UntilTimeLimit(time.Second, dsl.Unbounded()))
		}},
		{"a branch after the default", "dsl: KSTREAM-BRANCH-00000000012: the default branch takes all that is left: it must be the last", func(b *dsl.Builder) {
			split := read(b, "a").Split()
			split.Default()
			split.Branch(present)
		}},
		{"a function of other types", "dsl: KSTREAM-SOURCE-0000000000: the function of Time is func(int64, string, int64, int64) int64, which does not take a key string and a value *string", func(b *dsl.Builder) {
			dsl.ReadStream[string, *string](b, "a", nil, nil, dsl.Time(func(int64, string, int64, int64) int64 { return 0 }))
		}},
		{"a partitioner of other types", "dsl: to: the function of Partitioner is func(string, string, string, int32) int32, which does not take a key string and a value *string", func(b *dsl.Builder) {
			read(b, "a").To("out", dsl.Named("to"), dsl.Partitioner(func(string, string, string, int32) int32 { return 0 }))
		}},
		{"two builders", "dsl: KSTREAM-MERGE-0000000001: its inputs are of different builders", func(b *dsl.Builder) {
			read(b, "a").Merge(read(dsl.NewBuilder(), "b"))
		}},
		{"a global table's policy", "dsl: KTABLE-SOURCE-0000000001: the header policy first needs a changelog of its own: use Latest or Empty", func(b *dsl.Builder) {
			dsl.ReadGlobalTable[string, *string](b, "a", nil, nil, dsl.As("g"), dsl.Headers(dsl.First()))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := dsl.NewBuilder()
			c.build(b)
			_, err := b.Build()
			assert.EqualError(t, err, c.want)
			var of *dsl.BuildError
			assert.ErrorAs(t, err, &of)
		})
	}
}

func TestBuildErrorsAreJoined(t *testing.T) {
	b := dsl.NewBuilder(dsl.StoreFormat("neither"))
	read(b, "")
	dsl.Count(grouped(b).WindowedBy(dsl.Tumbling(0)), dsl.As("s"))
	_, err := b.Build()
	require.ErrorContains(t, err, `dsl: NewBuilder: dsl.store.format is "neither"; it may be DEFAULT or HEADERS`)
	require.ErrorContains(t, err, "dsl: KSTREAM-SOURCE-0000000000: a topic's name is empty")
	require.ErrorContains(t, err, "dsl: KSTREAM-AGGREGATE-0000000002: ")
	require.ErrorIs(t, err, store.ErrConfig)
	require.Len(t, err.(interface{ Unwrap() []error }).Unwrap(), 3)
}

func TestDrawings(t *testing.T) {
	b := dsl.NewBuilder()
	topologies["group-by-count"](b)
	topology, err := b.Build()
	require.NoError(t, err)
	assert.Equal(t, `flowchart LR
  subgraph g0["Sub-topology 0"]
    node_KSTREAM_2d_SOURCE_2d_0000000000("KSTREAM-SOURCE-0000000000")
    node_KSTREAM_2d_FILTER_2d_0000000001("KSTREAM-FILTER-0000000001")
    node_by("by")
    node_by_2d_repartition_2d_filter("by-repartition-filter")
    node_by_2d_repartition_2d_sink("by-repartition-sink")
  end
`, before(topology.Mermaid(), "  subgraph g1"))
	assert.Contains(t, topology.Mermaid(), "  topic_a --> node_KSTREAM_2d_SOURCE_2d_0000000000\n")
	assert.Contains(t, topology.Mermaid(), "  topic_by_2d_repartition>\"by-repartition\"]\n")
	assert.Contains(t, topology.Dot(), "  \"node KSTREAM-AGGREGATE-0000000003\" -> \"store s\" [dir=none, style=dashed];\n")
}

// before is what precedes a mark.
func before(s, mark string) string {
	out, _, _ := strings.Cut(s, mark)
	return out
}

func TestNothingIsAddedAfterBuild(t *testing.T) {
	b := dsl.NewBuilder()
	in := dsl.ReadStream(b, "a", store.String(), store.String())
	in.To("out")
	topology, err := b.Build()
	require.NoError(t, err)
	before := topology.Describe()
	in.To("late")
	in.GroupByKey().Count(dsl.As("late"))
	require.Equal(t, before, topology.Describe())
	_, err = b.Build()
	require.ErrorContains(t, err, "added after Build")
	require.ErrorContains(t, err, "built before")
}
