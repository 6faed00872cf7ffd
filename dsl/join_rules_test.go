package dsl_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/dsl"
	"github.com/forebay-streams/forebay/dsl/dsltest"
	"github.com/forebay-streams/forebay/dsl/internal/wire"
)

// fed runs events through a topology and returns what each led to.
func fed(t *testing.T, build func(b *dsl.Builder), events []event, options ...dsltest.Option) (steps [][]string) {
	d := started(t, build, options...)
	for _, e := range events {
		feed(t, d, e)
		steps = append(steps, results(d))
	}
	return steps
}

// TestTableJoinRules: which changes of which side lead to what, with a store of the result
// and without.
func TestTableJoinRules(t *testing.T) {
	type joinFunc = func(left, right *dsl.Table[string, *string], join func(l, r *string) *string, o ...dsl.StoreOption) *dsl.Table[string, *string]
	inner := func(l, r *dsl.Table[string, *string], join func(l, r *string) *string, o ...dsl.StoreOption) *dsl.Table[string, *string] {
		return dsl.JoinTables(l, r, join, nil, o...)
	}
	left := func(l, r *dsl.Table[string, *string], join func(l, r *string) *string, o ...dsl.StoreOption) *dsl.Table[string, *string] {
		return dsl.LeftJoinTables(l, r, join, nil, o...)
	}
	outer := func(l, r *dsl.Table[string, *string], join func(l, r *string) *string, o ...dsl.StoreOption) *dsl.Table[string, *string] {
		return dsl.OuterJoinTables(l, r, join, nil, o...)
	}
	for name, c := range map[string]struct {
		join   joinFunc
		events []event
		want   [][]string
	}{
		"inner": {inner,
			[]event{{"a", "k", "x", 10, ""}, {"a", "k", "-", 11, ""}, {"b", "k", "y", 20, ""}, {"a", "k", "x", 5, ""}, {"b", "k", "-", 3, ""}, {"b", "k", "-", 4, ""}, {"a", "-", "x", 5, ""}},
			[][]string{nil, nil, nil, {"k=x|y {} @20"}, {"k=- {} @5"}, {"k=- {} @5"}, nil}},
		"left, left side": {left,
			[]event{{"a", "k", "-", 10, ""}, {"a", "k", "x", 10, ""}, {"a", "k", "-", 11, ""}, {"a", "k", "-", 12, ""}, {"b", "k", "y", 20, ""}, {"a", "k", "-", 1, ""}},
			[][]string{nil, {"k=x|null {} @10"}, {"k=- {} @11"}, nil, nil, {"k=- {} @20"}}},
		"left, right side": {left,
			[]event{{"b", "k", "y", 20, ""}, {"a", "k", "x", 10, ""}, {"b", "k", "-", 5, ""}, {"b", "k", "-", 6, ""}, {"b", "k", "z", 7, ""}},
			[][]string{nil, {"k=x|y {} @20"}, {"k=x|null {} @10"}, {"k=x|null {} @10"}, {"k=x|z {} @10"}}},
		"outer": {outer,
			[]event{{"b", "k", "-", 1, ""}, {"b", "k", "y", 20, ""}, {"a", "k", "x", 10, ""}, {"b", "k", "-", 5, ""}, {"a", "k", "-", 6, ""}, {"a", "k", "-", 7, ""}},
			[][]string{nil, {"k=null|y {} @20"}, {"k=x|y {} @20"}, {"k=x|null {} @10"}, {"k=- {} @6"}, nil}},
	} {
		for _, stored := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stored=%v", name, stored), func(t *testing.T) {
				steps := fed(t, func(b *dsl.Builder) {
					var options []dsl.StoreOption
					if stored {
						options = append(options, dsl.As("j"))
					}
					out(c.join(table(b, "a", "l"), table(b, "b", "r"), join, options...).ToStream())
				}, c.events)
				assert.Equal(t, c.want, steps)
			})
		}
	}
}

// A join without a store is read through both of its sides, also as of a time, and by what
// joins it again.
func TestViewOfJoin(t *testing.T) {
	for _, headers := range []bool{false, true} {
		b := dsl.NewBuilder()
		if headers {
			b = dsl.NewBuilder(dsl.StoreFormat("HEADERS"))
		}
		joined := dsl.LeftJoinTables(table(b, "b", "l"), table(b, "c", "r"), join, nil)
		out(dsl.LeftJoinTable(read(b, "a"), joined.Filter(func(_ string, v *string) bool { return *v != "hidden|null" }), join))
		topology, err := b.Build()
		require.NoError(t, err)
		d, err := dsltest.New(topology, dsltest.App("app"))
		require.NoError(t, err)
		feed(t, d,
			event{"a", "k", "v1", 1, "a=1"},
			event{"b", "k", "hidden", 2, "b=1"}, event{"a", "k", "v2", 3, "a=2"},
			event{"c", "k", "y", 4, "c=1"}, event{"a", "k", "v3", 5, "a=3"},
			event{"b", "k", "-", 6, ""}, event{"a", "k", "v4", 7, "a=4"},
		)
		assert.Equal(t, []string{
			"k=v1|null {a=1} @1", "k=v2|null {a=2} @3", "k=v3|hidden|y {a=3} @5", "k=v4|null {a=4} @7",
		}, results(d))
		require.NoError(t, d.Close())
	}
}

// What is not the latest of its key in a versioned table changes no join.
func TestJoinsDropStale(t *testing.T) {
	events := []event{{"b", "k", "new", 20, ""}, {"a", "k", "fx", 30, ""}, {"b", "k", "old", 10, ""}, {"b", "k", "newer", 40, ""}}
	assert.Equal(t, [][]string{nil, {"k=fx|new {} @30"}, nil, {"k=fx|newer {} @40"}}, fed(t, func(b *dsl.Builder) {
		out(dsl.JoinTables(table(b, "a", "l"), versionedTable(b), join, nil).ToStream())
	}, events))
	for i := range events {
		if events[i].topic == "b" {
			events[i].key = "f"
		}
	}
	assert.Equal(t, [][]string{nil, {"k=fx|new {} @30"}, nil, {"k=fx|newer {} @40"}}, fed(t, func(b *dsl.Builder) {
		out(dsl.JoinForeign(table(b, "a", "l"), versionedTable(b), firstLetter, join, nil).ToStream())
	}, events))
	assert.Equal(t, [][]string{{"k=fx|null {} @20"}, nil}, fed(t, func(b *dsl.Builder) {
		left := dsl.ReadTable[string, *string](b, "a", nil, nil, dsl.As("l"), dsl.Versioned(time.Minute))
		out(dsl.LeftJoinForeign(left, table(b, "b", "r"), firstLetter, join, nil).ToStream())
	}, []event{{"a", "k", "fx", 20, ""}, {"a", "k", "fold", 10, ""}}))
}

// TestForeignKeyInstructions: what each change of the left table asks of which foreign key,
// and what is answered.
func TestForeignKeyInstructions(t *testing.T) {
	const topic = "app-fk-subscription-registration-topic"
	for _, c := range []struct {
		name          string
		before, after string // values: their first letter is the foreign key; "" has none, "-" is no row
		inner, left   []string
	}{
		{"nothing", "-", "-", nil, nil},
		{"insert", "-", "f1", []string{"f 3"}, []string{"f 2"}},
		{"foreign key unchanged", "f1", "f2", []string{"f 3"}, []string{"f 2"}},
		{"foreign key changed", "f1", "g1", []string{"f 0", "g 2"}, []string{"f 0", "g 2"}},
		{"no foreign key any more", "f1", "", []string{"f 1"}, []string{"f 0", "- 2"}},
		{"a foreign key at last", "", "f1", []string{"f 3"}, []string{"f 2"}},
		{"never one", "", "", nil, []string{"- 2"}},
		{"delete", "f1", "-", []string{"f 1"}, []string{"f 0", "- 2"}},
		{"delete without foreign key", "", "-", nil, []string{"- 2"}},
	} {
		for _, left := range []bool{false, true} {
			want := c.inner
			if left {
				want = c.left
			}
			t.Run(fmt.Sprintf("%s/left=%v", c.name, left), func(t *testing.T) {
				d := started(t, func(b *dsl.Builder) {
					joinForeign := dsl.JoinForeign[string, *string, string, *string, *string]
					if left {
						joinForeign = dsl.LeftJoinForeign[string, *string, string, *string, *string]
					}
					out(joinForeign(table(b, "a", "l"), table(b, "b", "r"), firstLetter, join, nil, dsl.Named("fk")).ToStream())
				})
				if c.before != "-" {
					feed(t, d, event{"a", "k", c.before, 1, ""})
				}
				d.Read(topic)
				results(d)
				feed(t, d, event{"a", "k", c.after, 2, ""})
				var got []string
				for _, r := range d.Read(topic) {
					s, err := wire.DecodeSubscription(r.Value)
					require.NoError(t, err)
					key := "-"
					if r.Key != nil {
						key = string(r.Key)
					}
					got = append(got, fmt.Sprintf("%s %d", key, s.Instruction))
					assert.Equal(t, "k", string(s.PrimaryKey))
					value := []byte(c.after)
					if c.after == "-" {
						value = nil
					}
					assert.Equal(t, wire.HashOf(value), s.Hash, "of the new value")
				}
				assert.Equal(t, want, got)
			})
		}
	}
}

// An answer to a row that has changed since is dropped: both updates of the row are under
// way before the first answer comes.
func TestForeignKeyStaleAnswer(t *testing.T) {
	d := started(t, func(b *dsl.Builder) {
		out(dsl.LeftJoinForeign(table(b, "a", "l"), table(b, "b", "r"), firstLetter, join, nil).ToStream())
	})
	require.NoError(t, d.PipeAll(event{"a", "k", "f1", 1, ""}.record(), event{"a", "k", "f2", 1, ""}.record()))
	assert.Equal(t, []string{"k=f2|null {} @1"}, results(d))
}

// Records of one side do not meet each other, nor what their own store has dropped.
func TestStreamJoinReach(t *testing.T) {
	within := func(w dsl.JoinWindows) func(b *dsl.Builder) {
		return func(b *dsl.Builder) { out(dsl.JoinStreams(read(b, "a"), read(b, "b"), join, w)) }
	}
	ms := time.Millisecond
	assert.Equal(t, [][]string{nil, {"k=x|y {} @15"}, nil, nil}, fed(t, within(dsl.JoinWithin(5*ms)),
		[]event{{"a", "k", "x", 10, ""}, {"b", "k", "y", 15, ""}, {"b", "k", "z", 16, ""}, {"b", "j", "y", 10, ""}}))
	assert.Equal(t, [][]string{nil, nil, {"k=w|y {} @20"}}, fed(t, within(dsl.JoinWithin(5*ms).Before(0)),
		[]event{{"b", "k", "y", 20, ""}, {"a", "k", "x", 21, ""}, {"a", "k", "w", 15, ""}}), "the right one not before the left")
	assert.Equal(t, [][]string{nil, nil, nil, {"k=x|v {} @15"}}, fed(t, within(dsl.JoinWithin(5*ms).Before(-5*ms)),
		[]event{{"a", "k", "x", 10, ""}, {"b", "k", "y", 14, ""}, {"b", "k", "z", 16, ""}, {"b", "k", "v", 15, ""}}), "exactly 5 ms after")
	assert.Equal(t, [][]string{nil, nil, nil, {"k=w|v {} @100"}}, fed(t, within(dsl.JoinWithin(5*ms)),
		[]event{{"a", "k", "x", 10, ""}, {"a", "k", "w", 100, ""}, {"b", "k", "y", 11, ""}, {"b", "k", "v", 98, ""}}), "the store has dropped x")
}

// A null value or key moves stream time on, but has nothing emitted.
func TestUnmatchedAreEmittedByRecordsOnly(t *testing.T) {
	steps := fed(t, outer, []event{{"a", "k", "x", 10, ""}, {"a", "k", "-", 100, ""}, {"b", "-", "-", 200, ""}, {"a", "k", "late", 150, ""}, {"b", "k", "y", 200, ""}})
	assert.Equal(t, [][]string{nil, nil, nil, {"k=late|null {} @150"}, {"k=x|null {} @10"}}, steps)
}

// In the buffer's order: by time, at one time the right side first, then by key.
func TestUnmatchedOrder(t *testing.T) {
	steps := fed(t, outer, []event{
		{"a", "b", "1", 10, ""}, {"b", "z", "2", 10, ""}, {"a", "a", "3", 10, ""}, {"b", "y", "4", 9, ""}, {"a", "c", "5", 11, ""},
		{"b", "far", "6", 16, ""}, {"b", "far", "7", 17, ""},
	})
	assert.Equal(t, []string{"y=null|4 {} @9", "z=null|2 {} @10", "a=3|null {} @10", "b=1|null {} @10"}, steps[5])
	assert.Equal(t, []string{"c=5|null {} @11"}, steps[6])
}
