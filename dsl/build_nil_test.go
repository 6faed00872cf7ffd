package dsl_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/dsl"
)

type (
	stream = *dsl.Stream[string, *string]
	rows   = *dsl.Table[string, *string]
	global = *dsl.GlobalTable[string, *string]
)

var (
	within   = dsl.JoinWithin(time.Second)
	sessions = dsl.Sessions(time.Second)
)

func groupedTable(b *dsl.Builder) *dsl.GroupedTable[string, *string] {
	return dsl.GroupTableBy(table(b, "a", "a"), keysByInitial, nil, nil)
}

func cogrouped(b *dsl.Builder) *dsl.CogroupedStream[string, *string] {
	return dsl.Cogroup(grouped(b), addKeyed)
}

func merge(_ string, x, y *string) *string { return add(x, y) }

// Each function is nil in turn, and all else is right: nothing else is reported.
func TestNilFunctionsAreErrorsOfBuild(t *testing.T) {
	var (
		test    func(string, *string) bool
		key     func(string, *string) string
		to      func(*string) *string
		toKeyed func(string, *string) *string
		toMany  func(*string) []*string
		first   func() *string
		pair    func(x, y *string) *string
		fold    func(string, *string, *string) *string
		regroup func(string, *string) (string, *string)
		foreign func(*string) (string, bool)
	)
	for _, c := range []struct {
		operator, of string
		build        func(b *dsl.Builder)
	}{
		{"KSTREAM-FILTER-0000000001", "Filter", func(b *dsl.Builder) { read(b, "a").Filter(nil) }},
		{"mine", "Filter", func(b *dsl.Builder) { read(b, "a").Filter(nil, dsl.Named("mine")) }},
		{"KSTREAM-FILTER-0000000001", "FilterNot", func(b *dsl.Builder) { read(b, "a").FilterNot(nil) }},
		{"KSTREAM-PEEK-0000000001", "Peek", func(b *dsl.Builder) { read(b, "a").Peek(nil) }},
		{"KSTREAM-MAPVALUES-0000000001", "MapValues", func(b *dsl.Builder) { dsl.MapValues(read(b, "a"), to) }},
		{"KSTREAM-MAPVALUES-0000000001", "MapValuesWithKey", func(b *dsl.Builder) { dsl.MapValuesWithKey(read(b, "a"), toKeyed) }},
		{"KSTREAM-MAPVALUES-0000000001", "MapNullable", func(b *dsl.Builder) { dsl.MapNullable[string, *string, string](read(b, "a"), nil) }},
		{"KSTREAM-MAP-0000000001", "Map", func(b *dsl.Builder) { dsl.Map(read(b, "a"), regroup) }},
		{"KSTREAM-KEY-SELECT-0000000001", "SelectKey", func(b *dsl.Builder) { dsl.SelectKey(read(b, "a"), key) }},
		{"KSTREAM-FLATMAP-0000000001", "FlatMap", func(b *dsl.Builder) { dsl.FlatMap[string, *string, string, string](read(b, "a"), nil) }},
		{"KSTREAM-FLATMAPVALUES-0000000001", "FlatMapValues", func(b *dsl.Builder) { dsl.FlatMapValues(read(b, "a"), toMany) }},
		{"KSTREAM-FLATMAPVALUES-0000000001", "FlatMapValuesWithKey", func(b *dsl.Builder) {
			dsl.FlatMapValuesWithKey[string, *string, string](read(b, "a"), nil)
		}},
		{"KSTREAM-BRANCH-00000000011", "Branch", func(b *dsl.Builder) {
			split := read(b, "a").Split()
			split.Branch(test)
			split.Branch(present) // is not behind a default branch
		}},
		{"KSTREAM-PROCESSOR-0000000001", "Process", func(b *dsl.Builder) { dsl.Process[string, *string, string, string](read(b, "a"), nil) }},
		{"KSTREAM-PROCESSVALUES-0000000001", "ProcessValues", func(b *dsl.Builder) { dsl.ProcessValues[string, *string, string](read(b, "a"), nil) }},

		{"KSTREAM-SOURCE-0000000000", "Time", func(b *dsl.Builder) {
			dsl.ReadStream[string, *string](b, "a", nil, nil, dsl.Time[string, *string](nil))
		}},
		{"to", "Partitioner", func(b *dsl.Builder) {
			read(b, "a").To("out", dsl.Named("to"), dsl.Partitioner[string, *string](nil))
		}},
		{"mine-repartition-sink", "Partitioner", func(b *dsl.Builder) {
			read(b, "a").Repartition(dsl.Named("mine"), dsl.Partitioner[string, *string](nil))
		}},
		{"KSTREAM-SINK-0000000001", "ToTopics", func(b *dsl.Builder) { read(b, "a").ToTopics(nil) }},
		{"KSTREAM-AGGREGATE-0000000001", "MergeHeaders", func(b *dsl.Builder) {
			grouped(b).Count(dsl.As("s"), dsl.Headers(dsl.MergeHeaders(nil)))
		}},

		{"KSTREAM-KEY-SELECT-0000000001", "GroupBy", func(b *dsl.Builder) { dsl.GroupBy(read(b, "a"), key, nil) }},
		{"KSTREAM-REDUCE-0000000002", "Reduce", func(b *dsl.Builder) { grouped(b).Reduce(nil) }},
		{"KSTREAM-REDUCE-0000000002", "Reduce", func(b *dsl.Builder) { dsl.Reduce(grouped(b).WindowedBy(tumbling), nil) }},
		{"KSTREAM-AGGREGATE-0000000002", "initial of Aggregate", func(b *dsl.Builder) { dsl.Aggregate(grouped(b), first, addKeyed, nil) }},
		{"KSTREAM-AGGREGATE-0000000002", "add of Aggregate", func(b *dsl.Builder) { dsl.Aggregate(grouped(b), empty, fold, nil) }},
		{"KSTREAM-AGGREGATE-0000000002", "add of Aggregate", func(b *dsl.Builder) {
			dsl.Aggregate(grouped(b).WindowedBy(tumbling), empty, fold, nil)
		}},
		{"KSTREAM-AGGREGATE-0000000002", "initial of AggregateSessions", func(b *dsl.Builder) {
			dsl.AggregateSessions(grouped(b).WindowedBySession(sessions), first, addKeyed, merge, nil)
		}},
		{"KSTREAM-AGGREGATE-0000000002", "add of AggregateSessions", func(b *dsl.Builder) {
			dsl.AggregateSessions(grouped(b).WindowedBySession(sessions), empty, fold, merge, nil)
		}},
		{"KSTREAM-AGGREGATE-0000000002", "merge of AggregateSessions", func(b *dsl.Builder) {
			dsl.AggregateSessions(grouped(b).WindowedBySession(sessions), empty, addKeyed, fold, nil)
		}},
		{"COGROUPKSTREAM-AGGREGATE-0000000002", "add of Cogroup", func(b *dsl.Builder) { dsl.Cogroup(grouped(b), fold).Aggregate(empty, nil) }},
		{"COGROUPKSTREAM-AGGREGATE-0000000004", "add of Cogroup", func(b *dsl.Builder) {
			dsl.AndCogroup(cogrouped(b), read(b, "b").GroupByKey(), fold).Aggregate(empty, nil)
		}},
		{"COGROUPKSTREAM-MERGE-0000000003", "initial of Aggregate", func(b *dsl.Builder) { cogrouped(b).Aggregate(nil, nil) }},
		{"COGROUPKSTREAM-MERGE-0000000003", "initial of AggregateCogroup", func(b *dsl.Builder) {
			dsl.AggregateCogroup(cogrouped(b), tumbling, first, nil)
		}},
		{"COGROUPKSTREAM-MERGE-0000000003", "initial of AggregateCogroupSessions", func(b *dsl.Builder) {
			dsl.AggregateCogroupSessions(cogrouped(b), sessions, first, merge, nil)
		}},
		{"COGROUPKSTREAM-MERGE-0000000003", "merge of AggregateCogroupSessions", func(b *dsl.Builder) {
			dsl.AggregateCogroupSessions(cogrouped(b), sessions, empty, fold, nil)
		}},

		{"KSTREAM-JOIN-0000000003", "JoinTable", func(b *dsl.Builder) { dsl.JoinTable(read(b, "b"), table(b, "a", "a"), pair) }},
		{"KSTREAM-LEFTJOIN-0000000003", "LeftJoinTable", func(b *dsl.Builder) { dsl.LeftJoinTable(read(b, "b"), table(b, "a", "a"), pair) }},
		{"KSTREAM-LEFTJOIN-0000000003", "by of JoinGlobal", func(b *dsl.Builder) { dsl.JoinGlobal(read(b, "a"), globalTable(b), key, join) }},
		{"KSTREAM-LEFTJOIN-0000000003", "join of JoinGlobal", func(b *dsl.Builder) { dsl.JoinGlobal(read(b, "a"), globalTable(b), sameKey, pair) }},
		{"KSTREAM-LEFTJOIN-0000000003", "by of LeftJoinGlobal", func(b *dsl.Builder) { dsl.LeftJoinGlobal(read(b, "a"), globalTable(b), key, join) }},
		{"KSTREAM-LEFTJOIN-0000000003", "join of LeftJoinGlobal", func(b *dsl.Builder) {
			dsl.LeftJoinGlobal(read(b, "a"), globalTable(b), sameKey, pair)
		}},
		{"KSTREAM-MERGE-0000000006", "JoinStreams", func(b *dsl.Builder) { dsl.JoinStreams(read(b, "a"), read(b, "b"), pair, within) }},
		{"KSTREAM-MERGE-0000000006", "LeftJoinStreams", func(b *dsl.Builder) { dsl.LeftJoinStreams(read(b, "a"), read(b, "b"), pair, within) }},
		{"KSTREAM-MERGE-0000000006", "OuterJoinStreams", func(b *dsl.Builder) { dsl.OuterJoinStreams(read(b, "a"), read(b, "b"), pair, within) }},
		{"KTABLE-MERGE-0000000004", "JoinTables", func(b *dsl.Builder) { dsl.JoinTables(table(b, "a", "a"), table(b, "b", "b"), pair, nil) }},
		{"KTABLE-MERGE-0000000004", "LeftJoinTables", func(b *dsl.Builder) {
			dsl.LeftJoinTables(table(b, "a", "a"), table(b, "b", "b"), pair, nil)
		}},
		{"KTABLE-MERGE-0000000004", "OuterJoinTables", func(b *dsl.Builder) {
			dsl.OuterJoinTables(table(b, "a", "a"), table(b, "b", "b"), pair, nil)
		}},
		{"x-result", "foreign of JoinForeign", func(b *dsl.Builder) {
			dsl.JoinForeign(table(b, "a", "a"), table(b, "b", "b"), foreign, join, nil, dsl.Named("x"))
		}},
		{"x-result", "join of JoinForeign", func(b *dsl.Builder) {
			dsl.JoinForeign(table(b, "a", "a"), table(b, "b", "b"), firstLetter, pair, nil, dsl.Named("x"))
		}},
		{"x-result", "foreign of LeftJoinForeign", func(b *dsl.Builder) {
			dsl.LeftJoinForeign(table(b, "a", "a"), table(b, "b", "b"), foreign, join, nil, dsl.Named("x"))
		}},
		{"x-result", "join of LeftJoinForeign", func(b *dsl.Builder) {
			dsl.LeftJoinForeign(table(b, "a", "a"), table(b, "b", "b"), firstLetter, pair, nil, dsl.Named("x"))
		}},

		{"KTABLE-FILTER-0000000002", "Filter", func(b *dsl.Builder) { table(b, "a", "a").Filter(nil) }},
		{"KTABLE-FILTER-0000000002", "FilterNot", func(b *dsl.Builder) { table(b, "a", "a").FilterNot(nil) }},
		{"KTABLE-MAPVALUES-0000000002", "MapTableValues", func(b *dsl.Builder) { dsl.MapTableValues(table(b, "a", "a"), to, nil) }},
		{"KTABLE-MAPVALUES-0000000002", "MapTableValuesWithKey", func(b *dsl.Builder) {
			dsl.MapTableValuesWithKey(table(b, "a", "a"), toKeyed, nil)
		}},
		{"KTABLE-TRANSFORMVALUES-0000000002", "TransformTableValues", func(b *dsl.Builder) {
			dsl.TransformTableValues[string, *string, string](table(b, "a", "a"), nil, nil)
		}},
		{"KTABLE-SELECT-0000000002", "GroupTableBy", func(b *dsl.Builder) { dsl.GroupTableBy(table(b, "a", "a"), regroup, nil, nil) }},
		{"KTABLE-REDUCE-0000000006", "add of Reduce", func(b *dsl.Builder) { groupedTable(b).Reduce(nil, drop) }},
		{"KTABLE-REDUCE-0000000006", "subtract of Reduce", func(b *dsl.Builder) { groupedTable(b).Reduce(add, nil) }},
		{"KTABLE-AGGREGATE-0000000006", "initial of AggregateTable", func(b *dsl.Builder) {
			dsl.AggregateTable(groupedTable(b), first, addKeyed, addKeyed, nil)
		}},
		{"KTABLE-AGGREGATE-0000000006", "add of AggregateTable", func(b *dsl.Builder) {
			dsl.AggregateTable(groupedTable(b), empty, fold, addKeyed, nil)
		}},
		{"KTABLE-AGGREGATE-0000000006", "subtract of AggregateTable", func(b *dsl.Builder) {
			dsl.AggregateTable(groupedTable(b), empty, addKeyed, fold, nil)
		}},
	} {
		t.Run(c.of, func(t *testing.T) {
			b := dsl.NewBuilder()
			c.build(b)
			_, err := b.Build()
			require.ErrorIs(t, err, dsl.ErrNilFunction)
			assert.EqualError(t, err, "dsl: "+c.operator+": "+c.of+": the function is nil")
		})
	}
}

// An input that is nil is an error of the builder that the other one has.
func TestNilInputsAreErrorsOfBuild(t *testing.T) {
	for _, c := range []struct {
		name, operator string
		build          func(b *dsl.Builder)
	}{
		{"Merge", "KSTREAM-MERGE-0000000001", func(b *dsl.Builder) { read(b, "a").Merge(nil) }},
		{"JoinTable, stream", "KSTREAM-JOIN-0000000002", func(b *dsl.Builder) { dsl.JoinTable(stream(nil), table(b, "a", "a"), join) }},
		{"JoinTable, table", "KSTREAM-JOIN-0000000001", func(b *dsl.Builder) { dsl.JoinTable(read(b, "a"), rows(nil), join) }},
		{"LeftJoinTable, repartitioned", "x", func(b *dsl.Builder) {
			dsl.LeftJoinTable(dsl.SelectKey(read(b, "a"), sameKey), rows(nil), join, dsl.Named("x"))
		}},
		{"JoinGlobal, stream", "KSTREAM-LEFTJOIN-0000000002", func(b *dsl.Builder) { dsl.JoinGlobal(stream(nil), globalTable(b), sameKey, join) }},
		{"JoinGlobal, table", "KSTREAM-LEFTJOIN-0000000001", func(b *dsl.Builder) { dsl.JoinGlobal(read(b, "a"), global(nil), sameKey, join) }},
		{"JoinStreams, left", "KSTREAM-MERGE-0000000005", func(b *dsl.Builder) { dsl.JoinStreams(nil, read(b, "a"), join, within) }},
		{"JoinStreams, right", "KSTREAM-MERGE-0000000005", func(b *dsl.Builder) { dsl.JoinStreams(read(b, "a"), nil, join, within) }},
		{"JoinTables, left", "KTABLE-MERGE-0000000002", func(b *dsl.Builder) { dsl.JoinTables(nil, table(b, "a", "a"), join, nil) }},
		{"JoinTables, right", "KTABLE-MERGE-0000000002", func(b *dsl.Builder) { dsl.JoinTables(table(b, "a", "a"), nil, join, nil) }},
		{"OuterJoinTables with something downstream", "KTABLE-MERGE-0000000002", func(b *dsl.Builder) {
			joined := dsl.OuterJoinTables(table(b, "a", "a"), nil, join, nil)
			dsl.GroupTableBy(joined.Filter(present), keysByInitial, nil, nil).Count()
		}},
		{"JoinForeign, left", "x-subscription-registration-processor", func(b *dsl.Builder) {
			dsl.JoinForeign(rows(nil), table(b, "a", "a"), firstLetter, join, nil, dsl.Named("x"))
		}},
		{"JoinForeign, right", "x-subscription-registration-processor", func(b *dsl.Builder) {
			dsl.JoinForeign(table(b, "a", "a"), rows(nil), firstLetter, join, nil, dsl.Named("x"))
		}},
		{"AndCogroup, cogrouped", "Cogroup", func(b *dsl.Builder) { dsl.AndCogroup(nil, grouped(b), addKeyed).Aggregate(empty, nil) }},
		{"AndCogroup, grouped", "Cogroup", func(b *dsl.Builder) { dsl.AndCogroup(cogrouped(b), nil, addKeyed).Aggregate(empty, nil) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := dsl.NewBuilder()
			c.build(b)
			_, err := b.Build()
			require.ErrorIs(t, err, dsl.ErrNilInput)
			assert.EqualError(t, err, "dsl: "+c.operator+": one of its inputs is nil")
		})
	}
}

// A builder that has reported an error gives what follows the numbers that it would have had.
func TestErrorsTakeNoNumbers(t *testing.T) {
	b := dsl.NewBuilder()
	dsl.JoinStreams(read(b, "a").Filter(nil), nil, join, within).Peek(nil)
	_, err := b.Build()
	require.ErrorContains(t, err, "dsl: KSTREAM-FILTER-0000000001: ")
	require.ErrorContains(t, err, "dsl: KSTREAM-MERGE-0000000006: ")
	require.ErrorContains(t, err, "dsl: KSTREAM-PEEK-0000000007: ")
}
