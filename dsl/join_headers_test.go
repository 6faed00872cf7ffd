package dsl_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/dsl"
	"github.com/forebay-streams/forebay/dsl/dsltest"
	"github.com/forebay-streams/forebay/store"
)

// Results of table joins have a store if asked, and a policy governs its rows. What the
// policy merges are the headers of the side that changed.
func init() {
	maps.Copy(governed, map[string]func(b *dsl.Builder, options ...dsl.StoreOption){
		"table left join": func(b *dsl.Builder, o ...dsl.StoreOption) {
			out(dsl.LeftJoinTables(table(b, "a", "l"), table(b, "b", "r"), join, nil, o...).ToStream())
		},
		"foreign-key left join": func(b *dsl.Builder, o ...dsl.StoreOption) {
			out(dsl.LeftJoinForeign(table(b, "a", "l"), table(b, "b", "r"), firstLetter, join, nil, o...).ToStream())
		},
	})
}

// event is an input record.
type event struct {
	topic, key, value string // "-" is null
	at                int64
	headers           string
}

func (e event) record() dsltest.Record {
	bytes := func(s string) []byte {
		if s == "-" {
			return nil
		}
		return []byte(s)
	}
	return dsltest.Record{Topic: e.topic, Key: bytes(e.key), Value: bytes(e.value), Timestamp: e.at, Headers: list(e.headers)}
}

func feed(t testing.TB, d *dsltest.Driver, events ...event) {
	t.Helper()
	for _, e := range events {
		require.NoError(t, d.Pipe(e.record()), e)
	}
}

func versionedTable(b *dsl.Builder) *dsl.Table[string, *string] {
	return dsl.ReadTable[string, *string](b, "b", nil, nil, dsl.As("r"), dsl.Versioned(time.Minute))
}

func globalTable(b *dsl.Builder) *dsl.GlobalTable[string, *string] {
	return dsl.ReadGlobalTable[string, *string](b, "b", nil, nil, dsl.As("g"))
}

func sameKey(k string, _ *string) string { return k }

// bare is a table whose own changes no policy touches.
func bare(b *dsl.Builder, topic string) *dsl.Table[string, *string] {
	return dsl.ReadTable[string, *string](b, topic, nil, nil, dsl.NoHeaders())
}

// ungoverned are joins whose output no policy touches: whatever the stores keep, the headers
// are those of one record.
var ungoverned = []struct {
	name  string
	build func(b *dsl.Builder)
	in    []event
	want  []string
}{
	{
		"stream-table", func(b *dsl.Builder) { out(dsl.JoinTable(read(b, "a"), table(b, "b", "r"), join)) },
		[]event{{"a", "k", "early", 5, "a=0"}, {"b", "k", "row", 10, "r=1"}, {"a", "k", "v", 7, "a=1"}, {"a", "k", "-", 8, "a=2"}, {"a", "-", "v", 8, "a=2"}, {"b", "k", "-", 11, ""}, {"a", "k", "v", 12, ""}},
		[]string{"k=v|row {a=1} @7"},
	},
	{
		"stream-table left", func(b *dsl.Builder) { out(dsl.LeftJoinTable(read(b, "a"), table(b, "b", "r"), join)) },
		[]event{{"a", "k", "early", 5, "a=0"}, {"b", "k", "row", 10, "r=1"}, {"a", "k", "v", 7, "a=1"}, {"a", "k", "-", 8, "a=2"}, {"a", "-", "v", 8, "a=2"}},
		[]string{"k=early|null {a=0} @5", "k=v|row {a=1} @7", "=v|null {a=2} @8"},
	},
	{
		"stream-table versioned", func(b *dsl.Builder) { out(dsl.JoinTable(read(b, "a"), versionedTable(b), join)) },
		[]event{{"b", "k", "old", 10, "r=1"}, {"b", "k", "new", 20, "r=2"}, {"a", "k", "v", 15, "a=1"}, {"a", "k", "v", 25, "a=2"}, {"a", "k", "v", 5, "a=3"}},
		[]string{"k=v|old {a=1} @15", "k=v|new {a=2} @25"},
	},
	{
		"stream-table with grace", func(b *dsl.Builder) {
			out(dsl.LeftJoinTable(read(b, "a"), versionedTable(b), join, dsl.JoinGrace(10*time.Millisecond)))
		},
		[]event{
			{"a", "k", "v1", 100, "a=1"}, {"b", "k", "row", 90, "r=1"}, // the row comes late
			{"a", "k", "v2", 80, "a=2"},  // late: joined at once, before there was a row
			{"a", "-", "v3", 105, "a=3"}, // without key: at once
			{"a", "k", "v4", 110, "a=4"}, // now the first one has waited long enough
			{"a", "j", "v5", 120, "a=5"},
		},
		[]string{"k=v2|null {a=2} @80", "=v3|null {a=3} @105", "k=v1|row {a=1} @100", "k=v4|row {a=4} @110"},
	},
	{
		"stream-global", func(b *dsl.Builder) { out(dsl.JoinGlobal(read(b, "a"), globalTable(b), sameKey, join)) },
		[]event{{"b", "k", "row", 10, "r=1"}, {"a", "k", "v", 7, "a=1"}, {"a", "other", "v", 7, "a=2"}, {"a", "k", "-", 7, ""}},
		[]string{"k=v|row {a=1} @7"},
	},
	{
		"stream-global left, a key of the record's own", func(b *dsl.Builder) {
			out(dsl.LeftJoinGlobal(read(b, "a"), globalTable(b), func(_ string, v *string) string { return initial(v) }, join))
		},
		[]event{{"b", "v", "row", 10, "r=1"}, {"a", "k", "v", 7, "a=1"}, {"a", "-", "w", 7, "a=2"}},
		[]string{"k=v|row {a=1} @7", "=w|null {a=2} @7"},
	},
	{
		"table-table", func(b *dsl.Builder) {
			out(dsl.JoinTables(bare(b, "a"), bare(b, "b"), join, nil).ToStream())
		},
		[]event{{"a", "k", "x", 10, "a=1"}, {"b", "k", "y", 5, "b=1"}, {"a", "k", "z", 3, "a=2"}, {"b", "k", "-", 20, "b=2"}},
		[]string{"k=x|y {b=1} @10", "k=z|y {a=2} @5", "k=- {b=2} @20"},
	},
	{
		"foreign key", func(b *dsl.Builder) {
			out(dsl.JoinForeign(bare(b, "a"), bare(b, "b"), firstLetter, join, nil).ToStream())
		},
		[]event{{"b", "f", "row", 10, "b=1"}, {"a", "k", "f1", 5, "a=1"}, {"b", "f", "new", 3, "b=2"}, {"a", "k", "g", 30, "a=2"}, {"a", "k", "f2", 31, "a=3"}, {"a", "k", "-", 32, "a=4"}},
		[]string{"k=f1|row {a=1} @10", "k=f1|new {b=2} @3", "k=- {a=2} @30", "k=f2|new {a=3} @31", "k=- {a=4} @32"},
	},
	{
		"stream-stream", func(b *dsl.Builder) { out(dsl.JoinStreams(read(b, "a"), read(b, "b"), join, joinWindows)) },
		[]event{{"a", "k", "x", 10, "a=1"}, {"b", "k", "y", 9, "b=1"}, {"a", "k", "z", 11, "a=2"}, {"b", "k", "-", 12, ""}, {"b", "k", "late", 5011, "b=2"}},
		[]string{"k=x|y {b=1} @10", "k=z|y {a=2} @11", "k=z|late {b=2} @5011"},
	},
	{
		"stream-stream outer, without key", func(b *dsl.Builder) {
			out(dsl.OuterJoinStreams(read(b, "a"), read(b, "b"), join, joinWindows))
		},
		[]event{{"a", "-", "x", 10, "a=1"}, {"b", "-", "y", 9, "b=1"}, {"b", "-", "-", 9, "b=2"}},
		[]string{"=x|null {a=1} @10", "=null|y {b=1} @9"},
	},
	{
		"stream-stream left, eager", func(b *dsl.Builder) {
			out(dsl.LeftJoinStreams(read(b, "a"), read(b, "b"), join, dsl.JoinWithin(5*time.Millisecond).Eager()))
		},
		[]event{{"a", "k", "x", 10, "a=1"}, {"b", "k", "y", 12, "b=1"}, {"b", "j", "y", 12, "b=2"}},
		[]string{"k=x|null {a=1} @10", "k=x|y {b=1} @12"},
	},
	{
		"stream-stream left, too late to wait", func(b *dsl.Builder) {
			out(dsl.LeftJoinStreams(read(b, "a"), read(b, "b"), join, dsl.JoinWithin(5*time.Millisecond).Grace(time.Second)))
		},
		[]event{{"b", "other", "y", 100, ""}, {"a", "k", "x", 94, "a=1"}, {"a", "k", "w", 95, "a=2"}},
		[]string{"k=x|null {a=1} @94"},
	},
	{
		"self-join", func(b *dsl.Builder) {
			in := read(b, "a")
			out(dsl.JoinStreams(in, in, join, joinWindows))
		},
		[]event{{"a", "k", "x", 10, "a=1"}, {"a", "k", "y", 11, "a=2"}},
		[]string{"k=x|x {a=1} @10", "k=y|x {a=2} @11", "k=x|y {a=2} @11", "k=y|y {a=2} @11"},
	},
}

func TestUngovernedJoins(t *testing.T) {
	for _, c := range ungoverned {
		for _, application := range [][]dsl.BuilderOption{
			nil,
			{dsl.StoreFormat("HEADERS")},
			{dsl.StoreFormat("HEADERS"), dsl.DefaultHeaderPolicy(dsl.First())},
			{dsl.StoreFormat("HEADERS"), dsl.DefaultHeaderPolicy(dsl.Union(64, 8192)), dsl.StoresInMemory()},
			{dsl.StoreFormat("HEADERS"), dsl.DefaultHeaderPolicy(dsl.Empty()), dsl.OptimizeSelfJoins()},
		} {
			for _, cache := range []int64{0, 1 << 20} {
				t.Run(fmt.Sprintf("%s/%d options/cache%d", c.name, len(application), cache), func(t *testing.T) {
					t.Parallel()
					b := dsl.NewBuilder(application...)
					c.build(b)
					topology, err := b.Build()
					require.NoError(t, err)
					d, err := dsltest.New(topology, dsltest.App("app"), dsltest.Cache(cache))
					require.NoError(t, err)
					defer func() { require.NoError(t, d.Close()) }()
					var got []string
					for _, e := range c.in {
						feed(t, d, e)
						got = append(got, results(d)...)
					}
					assert.Equal(t, c.want, got)
				})
			}
		}
	}
}

func outer(b *dsl.Builder) {
	out(dsl.OuterJoinStreams(read(b, "a"), read(b, "b"), join, dsl.JoinWithin(5*time.Millisecond), dsl.JoinStores("w")))
}

// unmatched rows come out with their own headers where the application keeps headers, else
// with those of the record that had them emitted, as in Kafka Streams.
func TestUnmatchedHeaders(t *testing.T) {
	in := []event{
		{"a", "k", "x", 10, "a=1"}, {"a", "k", "y", 10, "a=2"}, {"a", "k", "x", 10, "a=3"}, {"a", "k", "x", 10, ""},
		{"b", "j", "z", 11, "b=1"}, {"a", "other", "-", 12, "drop=1"},
	}
	own := []string{"k=x|null {a=1} @10", "k=y|null {a=2} @10", "k=x|null {a=3} @10", "k=x|null {} @10", "j=null|z {b=1} @11"}
	flushing := []string{"k=x|null {f=1} @10", "k=y|null {f=1} @10", "k=x|null {f=1} @10", "k=x|null {f=1} @10", "j=null|z {f=1} @11"}
	for _, c := range []struct {
		name        string
		application []dsl.BuilderOption
		want        []string
	}{
		{"default", nil, flushing},
		{"empty", []dsl.BuilderOption{dsl.StoreFormat("HEADERS"), dsl.DefaultHeaderPolicy(dsl.Empty())}, flushing},
		{"latest", []dsl.BuilderOption{dsl.StoreFormat("HEADERS")}, own},
		{"first", []dsl.BuilderOption{dsl.StoreFormat("HEADERS"), dsl.DefaultHeaderPolicy(dsl.First())}, own},
		{"in memory", []dsl.BuilderOption{dsl.StoreFormat("HEADERS"), dsl.StoresInMemory()}, own},
	} {
		for _, restart := range []string{"no", "restart", "wiped"} {
			t.Run(c.name+"/"+restart, func(t *testing.T) {
				t.Parallel()
				b := dsl.NewBuilder(c.application...)
				outer(b)
				topology, err := b.Build()
				require.NoError(t, err)
				d, err := dsltest.New(topology, dsltest.App("app"))
				require.NoError(t, err)
				defer func() { require.NoError(t, d.Close()) }()
				feed(t, d, in...)
				assert.Empty(t, results(d))
				if restart != "no" {
					require.NoError(t, d.Restart(restart == "wiped"))
				}
				feed(t, d, event{"b", "new", "w", 100, "f=1"})
				assert.Equal(t, c.want, results(d))
				feed(t, d, event{"b", "new", "w", 200, "f=2"})
				assert.Len(t, results(d), 1, "nothing comes out twice")
			})
		}
	}
}

// Rows may come out after their window store has expired them: their headers are found as
// long as the segment is there.
func TestUnmatchedHeadersPastRetention(t *testing.T) {
	b := dsl.NewBuilder(dsl.StoreFormat("HEADERS"))
	outer(b)
	topology, err := b.Build()
	require.NoError(t, err)
	d, err := dsltest.New(topology, dsltest.App("app"), dsltest.EmitInterval(time.Hour))
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	feed(t, d, event{"a", "k", "first", 1, "a=0"}) // the look that the interval follows
	feed(t, d, event{"a", "k", "x", 10, "a=1"}, event{"a", "k", "y", 1000, "a=2"})
	assert.Empty(t, results(d), "the interval has not passed")
	require.NoError(t, d.Advance(time.Hour))
	feed(t, d, event{"a", "k", "z", 2000, "a=3"})
	assert.Equal(t, []string{"k=first|null {a=0} @1", "k=x|null {a=1} @10", "k=y|null {a=2} @1000"}, results(d))
	feed(t, d, event{"a", "k", "far", 1_000_000, "a=4"}, event{"a", "k", "farther", 2_000_000, "a=5"})
	require.NoError(t, d.Advance(time.Hour))
	feed(t, d, event{"a", "k", "farthest", 3_000_000, "a=6"})
	assert.Equal(t, []string{"k=z|null {} @2000", "k=far|null {} @1000000", "k=farther|null {a=5} @2000000"}, results(d),
		"of the first two the segments are gone, and so are their headers")
}

// The windows' changelogs have the records' headers with either format.
func TestJoinChangelogs(t *testing.T) {
	for _, format := range []string{"DEFAULT", "HEADERS"} {
		for _, memory := range []bool{false, true} {
			application := []dsl.BuilderOption{dsl.StoreFormat(format)}
			if memory {
				application = append(application, dsl.StoresInMemory())
			}
			b := dsl.NewBuilder(application...)
			outer(b)
			out(dsl.JoinForeign(table(b, "l", "l"), table(b, "r", "r"), firstLetter, join, nil, dsl.Named("fk")).ToStream())
			topology, err := b.Build()
			require.NoError(t, err)
			d, err := dsltest.New(topology, dsltest.App("app"))
			require.NoError(t, err)
			feed(t, d, event{"a", "k", "x", 10, "a=1"}, event{"l", "k", "f", 10, "l=1"})
			for topic, want := range map[string]string{
				"app-w-outer-this-join-store-changelog": "a=1", "app-w-outer-shared-join-store-changelog": "",
				"app-fk-subscription-store-changelog": "l=1", "app-fk-subscription-registration-topic": "l=1",
			} {
				assert.Equal(t, want, listOf(last(t, d.Read(topic)).Headers), topic)
			}
			feed(t, d, event{"l", "k", "-", 11, "l=2"})
			gone := last(t, d.Read("app-fk-subscription-store-changelog"))
			assert.Nil(t, gone.Value)
			assert.Equal(t, "l=2", listOf(gone.Headers))
			require.NoError(t, d.Close())
		}
	}
}

// Records that wait for a versioned table survive a restart, and the loss of the disk.
func TestGraceRestart(t *testing.T) {
	for _, wipe := range []bool{false, true} {
		d := started(t, func(b *dsl.Builder) {
			out(dsl.JoinTable(read(b, "a"), versionedTable(b), join, dsl.Named("j"), dsl.JoinGrace(10*time.Millisecond)))
		})
		feed(t, d, event{"a", "k", "x", 256_107, "a=1"}, event{"a", "k", "y", 256_110, "a=2"})
		require.NoError(t, d.Restart(wipe))
		feed(t, d, event{"b", "k", "row", 256_100, "r=1"}, event{"a", "j", "z", 256_200, ""})
		assert.Equal(t, []string{"k=x|row {a=1} @256107", "k=y|row {a=2} @256110"}, results(d), "wiped: %v", wipe)
	}
}

// A foreign-key join goes on after a restart: subscriptions are kept.
func TestForeignKeyRestart(t *testing.T) {
	for _, wipe := range []bool{false, true} {
		d := started(t, func(b *dsl.Builder) {
			out(dsl.LeftJoinForeign(table(b, "a", "l"), table(b, "b", "r"), firstLetter, join, nil).ToStream())
		})
		feed(t, d, event{"a", "k", "f1", 10, "a=1"}, event{"a", "j", "f2", 10, "a=2"}, event{"a", "gone", "f3", 10, ""}, event{"a", "gone", "-", 11, ""})
		results(d)
		require.NoError(t, d.Restart(wipe))
		feed(t, d, event{"b", "f", "row", 5, "b=1"})
		assert.Equal(t, []string{"j=f2|row {b=1} @5", "k=f1|row {b=1} @5"}, results(d), "wiped: %v", wipe)
	}
}

func TestJoinsRefused(t *testing.T) {
	plain := func(b *dsl.Builder) *dsl.Table[string, *string] { return table(b, "b", "r") }
	for name, c := range map[string]struct {
		build func(b *dsl.Builder)
		want  string
	}{
		"grace without history": {func(b *dsl.Builder) { out(dsl.JoinTable(read(b, "a"), plain(b), join, dsl.JoinGrace(time.Second))) }, "versioned table"},
		"history too short": {func(b *dsl.Builder) {
			out(dsl.JoinTable(read(b, "a"), versionedTable(b), join, dsl.JoinGrace(time.Hour)))
		}, "longer than the table's history of 1m0s"},
		"negative grace": {func(b *dsl.Builder) {
			out(dsl.JoinTable(read(b, "a"), versionedTable(b), join, dsl.JoinGrace(-time.Second)))
		}, "JoinGrace(-1s)"},
		"two builders":        {func(b *dsl.Builder) { out(dsl.JoinTable(read(b, "a"), plain(dsl.NewBuilder()), join)) }, "different builders"},
		"two builders, table": {func(b *dsl.Builder) { dsl.JoinTables(table(b, "a", "l"), plain(dsl.NewBuilder()), join, nil) }, "different builders"},
		"two builders, foreign": {func(b *dsl.Builder) {
			dsl.JoinForeign(table(b, "a", "l"), plain(dsl.NewBuilder()), firstLetter, join, nil)
		}, "different builders"},
		"two builders, global":  {func(b *dsl.Builder) { dsl.JoinGlobal(read(b, "a"), globalTable(dsl.NewBuilder()), sameKey, join) }, "different builders"},
		"two builders, streams": {func(b *dsl.Builder) { dsl.JoinStreams(read(b, "a"), read(dsl.NewBuilder(), "b"), join, joinWindows) }, "different builders"},
		"an empty window": {func(b *dsl.Builder) {
			dsl.JoinStreams(read(b, "a"), read(b, "b"), join, dsl.JoinWithin(time.Second).Before(-2*time.Second))
		}, "is empty"},
		"a window of microseconds": {func(b *dsl.Builder) {
			dsl.JoinStreams(read(b, "a"), read(b, "b"), join, dsl.JoinWithin(time.Microsecond))
		}, "whole milliseconds"},
		"a versioned global table": {func(b *dsl.Builder) {
			dsl.ReadGlobalTable[string, *string](b, "b", nil, nil, dsl.Versioned(time.Minute))
		}, "cannot be versioned"},
		"a policy that a global table cannot restore": {func(b *dsl.Builder) {
			dsl.ReadGlobalTable[string, *string](b, "b", nil, nil, dsl.Headers(dsl.First()))
		}, "use Latest or Empty"},
		"no serde": {func(b *dsl.Builder) {
			type row struct{ Name string }
			dsl.JoinTables(table(b, "a", "l"), plain(b), func(_, _ *string) row { return row{} }, nil, dsl.As("j"))
		}, "no serde"},
		"a name twice": {func(b *dsl.Builder) {
			t := plain(b)
			out(dsl.JoinTable(read(b, "a"), t, join, dsl.Named("j")))
			out(dsl.JoinTable(read(b, "c"), t, join, dsl.Named("j")))
		}, "taken"},
	} {
		b := dsl.NewBuilder()
		c.build(b)
		_, err := b.Build()
		require.Error(t, err, name)
		assert.Contains(t, err.Error(), c.want, name)
		var named *dsl.BuildError
		require.ErrorAs(t, err, &named, name)
		assert.NotEmpty(t, named.Operator, name)
	}
}

// An application-wide policy that a global table cannot restore is latest there.
func TestGlobalPolicy(t *testing.T) {
	for _, wipe := range []bool{false, true} {
		b := dsl.NewBuilder(dsl.StoreFormat("HEADERS"), dsl.DefaultHeaderPolicy(dsl.First()))
		out(dsl.JoinGlobal(read(b, "a"), globalTable(b), sameKey, join))
		topology, err := b.Build()
		require.NoError(t, err)
		d, err := dsltest.New(topology, dsltest.App("app"))
		require.NoError(t, err)
		feed(t, d, event{"b", "k", "x", 1, "b=1"}, event{"b", "k", "y", 2, "b=2"})
		require.NoError(t, d.Restart(wipe))
		rows, err := dsltest.Rows(d, "g", store.String(), store.String())
		require.NoError(t, err)
		require.Len(t, rows, 1)
		assert.Equal(t, "b=2", listOf(rows[0].Headers))
		require.NoError(t, d.Close())
	}
}

// Serdes that need what they add to a record's headers find it again, on every way that
// keys and values take.
func TestJoinsWithSerdesThatAddHeaders(t *testing.T) {
	number := 1
	key, value := store.Serde[string](stamped{store.String(), "key-schema", &number}), store.Serde[string](stamped{store.String(), "value-schema", &number})
	stream := func(b *dsl.Builder, topic string) *dsl.Stream[string, string] {
		return dsl.ReadStream(b, topic, key, value)
	}
	table := func(b *dsl.Builder, topic string, o ...dsl.TableOption) *dsl.Table[string, string] {
		return dsl.ReadTable(b, topic, key, value, o...)
	}
	first := func(v string) (string, bool) { return v[:1], true }
	for name, build := range map[string]func(b *dsl.Builder){
		"tables": func(b *dsl.Builder) {
			dsl.JoinTables(table(b, "a"), table(b, "b"), concat, value, dsl.As("j")).ToStream().To("out")
		},
		"foreign key": func(b *dsl.Builder) {
			dsl.JoinForeign(table(b, "a"), table(b, "b"), first, concat, value).ToStream().To("out")
		},
		"stream-table": func(b *dsl.Builder) { dsl.JoinTable(stream(b, "a"), table(b, "b"), concat).To("out") },
		"stream-table with grace": func(b *dsl.Builder) {
			t := table(b, "b", dsl.Versioned(time.Minute), dsl.Headers(dsl.Latest()))
			dsl.JoinTable(stream(b, "a"), t, concat, dsl.JoinGrace(time.Second)).To("out")
		},
		"stream-global": func(b *dsl.Builder) {
			dsl.JoinGlobal(stream(b, "a"), dsl.ReadGlobalTable(b, "b", key, value), byKey, concat).To("out")
		},
		"streams": func(b *dsl.Builder) {
			dsl.OuterJoinStreams(stream(b, "a"), stream(b, "b"), concat, joinWindows).To("out")
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := dsl.NewBuilder(dsl.StoreFormat("HEADERS"))
			build(b)
			topology, err := b.Build()
			require.NoError(t, err)
			d, err := dsltest.New(topology, dsltest.App("app"))
			require.NoError(t, err)
			defer func() { require.NoError(t, d.Close()) }()
			send := func(topic, k, v string, at int64) {
				require.NoError(t, dsltest.NewInput(d, topic, key, value).Pipe(k, v, at))
			}
			other := "k"
			if name == "foreign key" {
				other = "f"
			}
			send("b", other, "y", 1)
			send("a", "k", "fx", 2)
			send("b", other, "z", 3)
			send("a", "unmatched", "w", 4)
			send("a", "late", "w", 50_000)
			out, err := dsltest.NewOutput(d, "out", key, value).Read()
			require.NoError(t, err)
			require.NotEmpty(t, out)
			for _, m := range out {
				for _, schema := range []string{"key-schema", "value-schema"} {
					assert.LessOrEqual(t, len(m.Headers.ForKey(schema)), 3, "they do not pile up: the source's, the store's, the sink's")
				}
			}
		})
	}
}

func byKey(k, _ string) string { return k }
