package dsl_test

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-streams/forebay/dsl"
)

// The topologies of the recorded runs, as their Java originals have them: keys and values
// are text that may be null, aggregations join values with '+'.

func read(b *dsl.Builder, topic string) *dsl.Stream[string, *string] {
	return dsl.ReadStream[string, *string](b, topic, nil, nil)
}

func table(b *dsl.Builder, topic, store string) *dsl.Table[string, *string] {
	return dsl.ReadTable[string, *string](b, topic, nil, nil, dsl.As(store))
}

func grouped(b *dsl.Builder) *dsl.GroupedStream[string, *string] {
	return read(b, "a").GroupByKey()
}

func text(s string) *string { return &s }

func empty() *string { return text("") }

func add(aggregate, value *string) *string {
	v := "null"
	if value != nil {
		v = *value
	}
	if aggregate == nil || *aggregate == "" {
		return &v
	}
	return text(*aggregate + "+" + v)
}

func addKeyed(_ string, value, aggregate *string) *string { return add(aggregate, value) }

func drop(aggregate, value *string) *string {
	parts := strings.Split(*aggregate, "+")
	for i, p := range parts {
		if p == *value {
			parts = append(parts[:i], parts[i+1:]...)
			break
		}
	}
	return text(strings.Join(parts, "+"))
}

func print[V any](v V) *string {
	switch v := any(v).(type) {
	case *string:
		return v
	case int64:
		return text(strconv.FormatInt(v, 10))
	case nil:
		return nil
	}
	panic("no text")
}

func out[V any](s *dsl.Stream[string, V]) {
	dsl.MapValues(s, print[V]).To("out")
}

// windowed writes a windowed table's changes, their keys as text.
func windowed[V any](s *dsl.Stream[dsl.Windowed[string], V]) {
	dsl.Map(s, func(k dsl.Windowed[string], v V) (string, *string) {
		return fmt.Sprintf("%s@%d/%d", k.Key, k.Start, k.End), print(v)
	}).To("out")
}

var (
	tumbling = dsl.Tumbling(10 * time.Second).Grace(5 * time.Second)
	hopping  = dsl.Hopping(10*time.Second, 4*time.Second).Grace(5 * time.Second)
	sliding  = dsl.Sliding(5 * time.Second).Grace(5 * time.Second)
	session  = dsl.Sessions(5 * time.Second).Grace(5 * time.Second)
)

func present(_ string, v *string) bool { return v != nil }

// keysByInitial groups a table's keys by the first letter of their values.
func keysByInitial(k string, v *string) (string, *string) { return initial(v), &k }

func initial(v *string) string { return (*v)[:1] }

var topologies = map[string]func(b *dsl.Builder){
	"count": func(b *dsl.Builder) {
		out(grouped(b).
			Count(dsl.As("s")).
			ToStream())
	},
	"reduce": func(b *dsl.Builder) {
		out(grouped(b).
			Reduce(add, dsl.As("s")).
			ToStream())
	},
	"aggregate": func(b *dsl.Builder) {
		out(dsl.Aggregate(grouped(b), empty, func(_ string, v, a *string) *string {
			if *v == "x" {
				return nil
			}
			return add(a, v)
		}, nil).ToStream())
	},
	"table": func(b *dsl.Builder) {
		out(table(b, "a", "s").ToStream())
	},
	"table-filter-map": func(b *dsl.Builder) {
		kept := table(b, "a", "s").Filter(func(_ string, v *string) bool { return *v >= "c" }, dsl.As("f"))
		out(dsl.MapTableValues(kept, func(v *string) *string { return text(*v + "!") }, nil, dsl.As("m")).ToStream())
	},
	"to-table": func(b *dsl.Builder) {
		marked := dsl.MapValues(read(b, "a"), func(v *string) *string {
			if v == nil {
				return nil
			}
			return text(*v + "?")
		})
		out(marked.ToTable(dsl.As("s")).ToStream())
	},
	"repartition-count": func(b *dsl.Builder) {
		byInitial := dsl.SelectKey(read(b, "a").Filter(present), func(_ string, v *string) string { return initial(v) })
		out(byInitial.
			Repartition(dsl.Named("p")).
			GroupByKey().
			Count(dsl.As("s")).
			ToStream())
	},
	"group-by-count": func(b *dsl.Builder) {
		byInitial := dsl.GroupBy(read(b, "a").Filter(present), func(_ string, v *string) string { return initial(v) }, nil, dsl.Named("by"))
		out(byInitial.Count(dsl.As("s")).ToStream())
	},
	"stateless": func(b *dsl.Builder) {
		twice := dsl.FlatMapValues(read(b, "a").Merge(read(b, "b")).Filter(present),
			func(v *string) []*string { return []*string{v, text(*v + *v)} })
		split := twice.Split(dsl.Named("split-"))
		as := split.Branch(func(_ string, v *string) bool { return strings.HasPrefix(*v, "a") }, dsl.Named("a"))
		rest := split.Default(dsl.Named("rest"))
		out(dsl.MapValues(as, func(v *string) *string { return text("A" + *v) }).
			Merge(rest.FilterNot(func(_ string, v *string) bool { return strings.HasPrefix(*v, "b") })))
	},

	"tumbling-count": func(b *dsl.Builder) {
		windowed(dsl.Count(grouped(b).WindowedBy(tumbling), dsl.As("s")).ToStream())
	},
	"hopping-reduce": func(b *dsl.Builder) {
		windowed(dsl.Reduce(grouped(b).WindowedBy(hopping), add, dsl.As("s")).ToStream())
	},
	"sliding-aggregate": func(b *dsl.Builder) {
		windowed(dsl.Aggregate(grouped(b).WindowedBy(sliding), empty, addKeyed, nil).ToStream())
	},
	"session-aggregate": func(b *dsl.Builder) {
		windowed(dsl.AggregateSessions(grouped(b).WindowedBySession(session), empty, addKeyed,
			func(_ string, x, y *string) *string { return add(x, y) }, nil).ToStream())
	},
	"tumbling-final": func(b *dsl.Builder) {
		windowed(dsl.Count(grouped(b).WindowedBy(tumbling).EmitOnClose(), dsl.As("s")).ToStream())
	},
	"sliding-final": func(b *dsl.Builder) {
		windowed(dsl.Reduce(grouped(b).WindowedBy(sliding).EmitOnClose(), add, dsl.As("s")).ToStream())
	},
	"session-final": func(b *dsl.Builder) {
		windowed(dsl.Count(grouped(b).WindowedBySession(session).EmitOnClose(), dsl.As("s")).ToStream())
	},

	"suppress-close": func(b *dsl.Builder) {
		windowed(dsl.Count(grouped(b).WindowedBy(tumbling), dsl.As("s")).
			Suppress(dsl.UntilWindowCloses(dsl.Unbounded())).
			ToStream())
	},
	"suppress-time": func(b *dsl.Builder) {
		out(grouped(b).
			Reduce(add, dsl.As("s")).
			Suppress(dsl.UntilTimeLimit(3*time.Second, dsl.MaxRecords(2))).
			ToStream())
	},
	"table-group-reduce": func(b *dsl.Builder) {
		out(dsl.GroupTableBy(table(b, "a", "s"), keysByInitial, nil, nil).
			Reduce(add, drop, dsl.As("g")).
			ToStream())
	},
	"table-group-count": func(b *dsl.Builder) {
		out(dsl.GroupTableBy(table(b, "a", "s"), keysByInitial, nil, nil).
			Count(dsl.As("g")).
			ToStream())
	},
	"cogroup": func(b *dsl.Builder) {
		prefixed := func(prefix string) func(string, *string, *string) *string {
			return func(_ string, v, a *string) *string { return add(a, text(prefix+*v)) }
		}
		both := dsl.Cogroup(grouped(b), prefixed("a"))
		both = dsl.AndCogroup(both, read(b, "b").GroupByKey(), prefixed("b"))
		out(both.Aggregate(empty, nil, dsl.As("s")).ToStream())
	},
}
