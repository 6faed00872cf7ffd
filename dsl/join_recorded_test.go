package dsl_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/dsl"
	"github.com/forebay-streams/forebay/dsl/dsltest"
	"github.com/forebay-streams/forebay/store"
)

func unnamed(b *dsl.Builder, topic string) *dsl.Table[string, string] {
	return dsl.ReadTable(b, topic, store.String(), store.String())
}

func lineIn(b *dsl.Builder, topic string) *dsl.Stream[string, string] {
	return dsl.ReadStream(b, topic, store.String(), store.String())
}

// rekeyed is a stream whose keys may have changed.
func rekeyed(b *dsl.Builder, topic string) *dsl.Stream[string, string] {
	return dsl.SelectKey(lineIn(b, topic), func(_, v string) string { return v })
}

func mapped(b *dsl.Builder, topic string) *dsl.Stream[string, string] {
	return dsl.Map(lineIn(b, topic), func(k, v string) (string, string) { return k, v })
}

func concat(l, r string) string { return l + r }

func all(string, string) bool { return true }

func self(v string) (string, bool) { return v, true }

func byValue(_, v string) string { return v }

// described are the topologies of testdata/joins/names.txt.
var described = map[string]func(b *dsl.Builder){
	"fk": func(b *dsl.Builder) {
		dsl.JoinForeign(unnamed(b, "a"), unnamed(b, "b"), self, concat, nil).ToStream().To("out")
	},
	"fk left materialized": func(b *dsl.Builder) {
		dsl.LeftJoinForeign(unnamed(b, "a"), unnamed(b, "b"), self, concat, nil, dsl.Materialized()).ToStream().To("out")
	},
	"tt": func(b *dsl.Builder) {
		dsl.JoinTables(unnamed(b, "a"), unnamed(b, "b"), concat, nil).ToStream().To("out")
	},
	"tt left named": func(b *dsl.Builder) {
		dsl.LeftJoinTables(unnamed(b, "a"), unnamed(b, "b"), concat, nil, dsl.Named("n")).ToStream().To("out")
	},
	"tt outer mat": func(b *dsl.Builder) {
		dsl.OuterJoinTables(unnamed(b, "a"), unnamed(b, "b"), concat, nil, dsl.Materialized()).ToStream().To("out")
	},
	"tt over filter": func(b *dsl.Builder) {
		dsl.JoinTables(unnamed(b, "a").Filter(all), unnamed(b, "b"), concat, nil).Filter(all).ToStream().To("out")
	},
	"ttt": func(b *dsl.Builder) {
		dsl.LeftJoinTables(dsl.JoinTables(unnamed(b, "a"), unnamed(b, "b"), concat, nil), unnamed(b, "c"), concat, nil).ToStream().To("out")
	},
	"st": func(b *dsl.Builder) { dsl.JoinTable(rekeyed(b, "a"), unnamed(b, "b"), concat).To("out") },
	"st left named": func(b *dsl.Builder) {
		dsl.LeftJoinTable(rekeyed(b, "a"), unnamed(b, "b"), concat, dsl.Named("n")).To("out")
	},
	"sg": func(b *dsl.Builder) {
		dsl.JoinGlobal(rekeyed(b, "a"), dsl.ReadGlobalTable(b, "b", store.String(), store.String()), byValue, concat).To("out")
	},
	"sg left": func(b *dsl.Builder) {
		dsl.LeftJoinGlobal(lineIn(b, "a"), dsl.ReadGlobalTable(b, "b", store.String(), store.String()), byValue, concat, dsl.Named("n")).To("out")
	},
	"ss": func(b *dsl.Builder) {
		dsl.JoinStreams(rekeyed(b, "a"), mapped(b, "b"), concat, joinWindows).To("out")
	},
	"ss left": func(b *dsl.Builder) {
		dsl.LeftJoinStreams(rekeyed(b, "a"), mapped(b, "b"), concat, joinWindows, dsl.JoinStores("n")).To("out")
	},
	"ss outer named": func(b *dsl.Builder) {
		dsl.OuterJoinStreams(lineIn(b, "a"), lineIn(b, "b"), concat, joinWindows, dsl.Named("n")).To("out")
	},
	"ss outer": func(b *dsl.Builder) {
		dsl.OuterJoinStreams(lineIn(b, "a"), lineIn(b, "b"), concat, joinWindows).To("out")
	},
	"self none": func(b *dsl.Builder) {
		s := lineIn(b, "a")
		dsl.JoinStreams(s, s, concat, joinWindows).To("out")
	},
	"self all": func(b *dsl.Builder) {
		s := lineIn(b, "a")
		dsl.JoinStreams(s, s, concat, joinWindows).To("out")
	},
	"self outer all": func(b *dsl.Builder) {
		s := lineIn(b, "a")
		dsl.OuterJoinStreams(s, s, concat, joinWindows).To("out")
	},
	"self left all": func(b *dsl.Builder) {
		s := lineIn(b, "a")
		dsl.LeftJoinStreams(s, s, concat, joinWindows).To("out")
	},
}

func init() {
	maps.Copy(described, map[string]func(b *dsl.Builder){
		"stream twice": func(b *dsl.Builder) {
			lineIn(b, "a").To("x")
			lineIn(b, "a").To("y")
		},
		"joins of one rekeyed stream": func(b *dsl.Builder) {
			s := rekeyed(b, "a")
			dsl.JoinTable(s, unnamed(b, "b"), concat).To("x")
			dsl.LeftJoinTable(s, unnamed(b, "c"), concat).To("y")
		},
		"rekeyed self-join": func(b *dsl.Builder) {
			s := rekeyed(b, "a")
			dsl.JoinStreams(s, s, concat, joinWindows).To("x")
		},
		"rekeyed self-join named": func(b *dsl.Builder) {
			s := rekeyed(b, "a")
			dsl.JoinStreams(s, s, concat, joinWindows, dsl.Named("n")).To("x")
		},
		"stream joins of one rekeyed stream": func(b *dsl.Builder) {
			s := rekeyed(b, "a")
			dsl.JoinStreams(s, lineIn(b, "b"), concat, joinWindows).To("x")
			dsl.JoinStreams(s, lineIn(b, "c"), concat, joinWindows).To("y")
		},
		"join and group of one rekeyed stream": func(b *dsl.Builder) {
			s := rekeyed(b, "a")
			dsl.JoinTable(s, unnamed(b, "b"), concat).To("x")
			s.GroupByKey().Count(dsl.As("s")).ToStream().To("y")
		},
	})
}

// A topic has one source, except that a stream may be read again.
func TestTopicsReadTwice(t *testing.T) {
	for name, build := range map[string]func(b *dsl.Builder){
		"stream and table": func(b *dsl.Builder) { lineIn(b, "a"); unnamed(b, "a") },
		"table twice":      func(b *dsl.Builder) { unnamed(b, "a"); unnamed(b, "a") },
		"overlap": func(b *dsl.Builder) {
			lineIn(b, "a")
			dsl.ReadStreams(b, []string{"a", "b"}, store.String(), store.String())
		},
		"stream and global": func(b *dsl.Builder) { lineIn(b, "a"); dsl.ReadGlobalTable(b, "a", store.String(), store.String()) },
		"other types":       func(b *dsl.Builder) { lineIn(b, "a"); dsl.ReadStream(b, "a", store.String(), store.Int64()) },
	} {
		b := dsl.NewBuilder()
		build(b)
		_, err := b.Build()
		require.ErrorContains(t, err, `the topic "a" is read already, by KSTREAM-SOURCE-`, name)
	}
	d := started(t, func(b *dsl.Builder) {
		dsl.ReadStreams(b, []string{"a", "b"}, store.String(), store.String()).To("out")
		out(dsl.MapValues(dsl.ReadStreams(b, []string{"b", "a"}, store.String(), store.String()), func(v string) *string { return text(v + "!") }))
	})
	feed(t, d, event{"a", "k", "x", 1, ""}, event{"b", "k", "y", 2, ""})
	assert.Equal(t, []string{"k=x {} @1", "k=x! {} @1", "k=y {} @2", "k=y! {} @2"}, results(d))
}

// TestJoinNames compares names, numbers and stores with Kafka's descriptions.
func TestJoinNames(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "joins", "names.txt"))
	require.NoError(t, err)
	seen := 0
	for section := range strings.SplitSeq(string(text), "##### ") {
		name, want, _ := strings.Cut(section, "\n")
		build := described[name]
		if build == nil {
			continue
		}
		seen++
		t.Run(name, func(t *testing.T) {
			var options []dsl.BuilderOption
			if strings.HasSuffix(name, " all") {
				options = append(options, dsl.OptimizeSelfJoins())
			}
			b := dsl.NewBuilder(options...)
			build(b)
			topology, err := b.Build()
			require.NoError(t, err)
			assert.Equal(t, strings.TrimRight(want, "\n"), strings.TrimRight(topology.Describe(), "\n"))
		})
	}
	assert.Len(t, described, seen)
}

// TestSelfJoin compares a stream's join with itself, in one store, with Kafka's.
func TestSelfJoin(t *testing.T) {
	dir := filepath.Join("testdata", "joins", "stream-stream-self")
	inputs := lines[input](t, filepath.Join(dir, "in.jsonl.gz"))
	for _, s := range []setting{{"default", 0}, {"headers", 0}} {
		t.Run(s.format, func(t *testing.T) {
			b := dsl.NewBuilder(dsl.StoreFormat(s.format), dsl.DefaultHeaderPolicy(dsl.Empty()), dsl.OptimizeSelfJoins())
			in := read(b, "a")
			out(dsl.JoinStreams(in, in, join, joinWindows.Before(3*time.Second), dsl.Named("j"), dsl.JoinStores("w")))
			topology, err := b.Build()
			require.NoError(t, err)
			described, err := os.ReadFile(filepath.Join(dir, "topology.txt"))
			require.NoError(t, err)
			require.Equal(t, string(described), topology.Describe())
			d, err := dsltest.New(topology, dsltest.App("dsl"))
			require.NoError(t, err)
			defer func() { require.NoError(t, d.Close()) }()
			r := &run{folder: filepath.Join("testdata", "joins"), topology: "stream-stream-self", setting: s, inputs: inputs, got: piped(t, d, inputs)}
			r.want = lines[answer](t, r.file(s))
			for _, rule := range rules {
				if rule.applies(r) {
					rule.expect(t, r)
				}
			}
			compareAnswers(t, r)
			assert.True(t, slices.ContainsFunc(r.want, func(a answer) bool { return len(a.Out) > 3 }), "some records meet others")
		})
	}
}
