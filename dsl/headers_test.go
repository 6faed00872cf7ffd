package dsl_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/dsl"
	"github.com/forebay-streams/forebay/dsl/dsltest"
	"github.com/forebay-streams/forebay/store"
)

// list makes headers of "a=1,b=9".
func list(s string) (out store.Headers) {
	for _, part := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' }) {
		key, value, _ := strings.Cut(part, "=")
		if err := out.Add(key, []byte(value)); err != nil {
			panic(err)
		}
	}
	return out
}

// listOf is the way back.
func listOf(h store.Headers) string {
	var parts []string
	for h := range h.All() {
		parts = append(parts, h.Key+"="+string(h.Value))
	}
	return strings.Join(parts, ",")
}

// kept are the headers of the row after each of three records with a=1, then a=2 and b=9,
// then a=1.
var kept = []struct {
	policy dsl.HeaderPolicy
	rows   []string
}{
	{dsl.Latest(), []string{"a=1", "a=2,b=9", "a=1"}},
	{dsl.First(), []string{"a=1", "a=1", "a=1"}},
	{dsl.Union(64, 8192), []string{"a=1", "a=1,a=2,b=9", "a=2,b=9,a=1"}},
	{dsl.Union(2, 8192), []string{"a=1", "a=2,b=9", "b=9,a=1"}},
	{dsl.MergeHeaders(func(stored *store.Headers, in store.Headers) store.Headers {
		if stored == nil {
			return list("new=" + listOf(in))
		}
		return list(fmt.Sprintf("was=%d", stored.Len()))
	}), []string{"new=a=1", "was=1", "was=1"}},
	{dsl.Empty(), []string{"", "", ""}},
}

var sent = []string{"a=1", "a=2,b=9", "a=1"}

// governed are the operators whose rows a policy governs, each with the store "s" and the
// result in "out".
var governed = map[string]func(b *dsl.Builder, options ...dsl.StoreOption){
	"count":  func(b *dsl.Builder, o ...dsl.StoreOption) { out(grouped(b).Count(o...).ToStream()) },
	"reduce": func(b *dsl.Builder, o ...dsl.StoreOption) { out(grouped(b).Reduce(add, o...).ToStream()) },
	"aggregate": func(b *dsl.Builder, o ...dsl.StoreOption) {
		out(dsl.Aggregate(grouped(b), empty, addKeyed, nil, o...).ToStream())
	},
	"cogroup": func(b *dsl.Builder, o ...dsl.StoreOption) {
		out(dsl.Cogroup(grouped(b), addKeyed).Aggregate(empty, nil, o...).ToStream())
	},
	"to table": func(b *dsl.Builder, o ...dsl.StoreOption) { out(read(b, "a").ToTable(o...).ToStream()) },
	"table": func(b *dsl.Builder, o ...dsl.StoreOption) {
		var options []dsl.TableOption
		for _, option := range o {
			options = append(options, option.(dsl.TableOption))
		}
		out(dsl.ReadTable[string, *string](b, "a", nil, nil, options...).ToStream())
	},
	"filter": func(b *dsl.Builder, o ...dsl.StoreOption) {
		out(dsl.ReadTable[string, *string](b, "a", nil, nil).Filter(present, o...).ToStream())
	},
	"map values": func(b *dsl.Builder, o ...dsl.StoreOption) {
		out(dsl.MapTableValues(dsl.ReadTable[string, *string](b, "a", nil, nil), func(v *string) *string { return v }, nil, o...).ToStream())
	},
	"table count": func(b *dsl.Builder, o ...dsl.StoreOption) {
		t := dsl.ReadTable[string, *string](b, "a", nil, nil)
		out(dsl.GroupTableBy(t, func(k string, v *string) (string, *string) { return k, v }, nil, nil).Count(o...).ToStream())
	},
	"tumbling": func(b *dsl.Builder, o ...dsl.StoreOption) {
		windowed(dsl.Count(grouped(b).WindowedBy(tumbling), o...).ToStream())
	},
	"session": func(b *dsl.Builder, o ...dsl.StoreOption) {
		windowed(dsl.Reduce(grouped(b).WindowedBySession(session), add, o...).ToStream())
	},
}

// TestHeaderPolicies runs every governed operator under every policy, with and without
// cache, on disk and in memory, and looks at row, changelog and result.
func TestHeaderPolicies(t *testing.T) {
	for name, build := range governed {
		for _, k := range kept {
			for _, cache := range []int64{0, 1 << 20} {
				for _, memory := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/%v/cache%d/memory=%v", name, k.policy, cache, memory), func(t *testing.T) {
						t.Parallel()
						b := dsl.NewBuilder()
						build(b, dsl.As("s"), dsl.Headers(k.policy))
						topology, err := b.Build()
						require.NoError(t, err)
						options := []dsltest.Option{dsltest.Cache(cache), dsltest.App("app")}
						if memory {
							options = append(options, dsltest.InMemory())
						}
						d, err := dsltest.New(topology, options...)
						require.NoError(t, err)
						defer func() { require.NoError(t, d.Close()) }()
						for i, at := range []int64{900, 1000, 1500} {
							require.NoError(t, d.Pipe(dsltest.Record{Topic: "a", Key: []byte("k"), Value: []byte("v"), Timestamp: at, Headers: list(sent[i])}))
							assert.Equal(t, k.rows[i], listOf(last(t, d.Read("app-s-changelog")).Headers), "changelog")
							assert.Equal(t, k.rows[i], rowHeaders(t, d, name), "row")
							want := k.rows[i]
							if k.policy.String() == "empty" && name != "session" {
								want = sent[i]
							}
							assert.Equal(t, want, listOf(last(t, d.Read("out")).Headers), "result")
						}
					})
				}
			}
		}
	}
}

func last(t *testing.T, list []dsltest.Record) dsltest.Record {
	require.NotEmpty(t, list)
	return list[len(list)-1]
}

// rowHeaders are those of the one row of the store "s".
func rowHeaders(t *testing.T, d *dsltest.Driver, operator string) string {
	var headers []store.Headers
	switch operator {
	case "tumbling":
		rows, err := dsltest.Windows(d, "s", store.String(), store.Bytes())
		require.NoError(t, err)
		for _, r := range rows {
			headers = append(headers, r.Headers)
		}
	case "session":
		rows, err := dsltest.Sessions(d, "s", store.String(), store.Bytes())
		require.NoError(t, err)
		for _, r := range rows {
			headers = append(headers, r.Headers)
		}
	default:
		rows, err := dsltest.Rows(d, "s", store.String(), store.Bytes())
		require.NoError(t, err)
		for _, r := range rows {
			headers = append(headers, r.Headers)
		}
	}
	require.Len(t, headers, 1)
	return listOf(headers[0])
}

// started builds and starts a topology.
func started(t testing.TB, build func(b *dsl.Builder), options ...dsltest.Option) *dsltest.Driver {
	b := dsl.NewBuilder()
	build(b)
	topology, err := b.Build()
	require.NoError(t, err)
	d, err := dsltest.New(topology, append([]dsltest.Option{dsltest.App("app")}, options...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func pipe(t testing.TB, d *dsltest.Driver, at int64, value, headers string) {
	require.NoError(t, d.Pipe(dsltest.Record{Topic: "a", Key: []byte("k"), Value: []byte(value), Timestamp: at, Headers: list(headers)}))
}

// results are the records of "out" since the last call: key, value, headers.
func results(d *dsltest.Driver) (out []string) {
	for _, r := range d.Read("out") {
		value := string(r.Value)
		if r.Value == nil {
			value = "-"
		}
		out = append(out, fmt.Sprintf("%s=%s {%s} @%d", r.Key, value, listOf(r.Headers), r.Timestamp))
	}
	return out
}

// Three updates, one flush: only intermediate results are missing.
func TestOneFlush(t *testing.T) {
	for _, k := range kept {
		t.Run(k.policy.String(), func(t *testing.T) {
			d := started(t, func(b *dsl.Builder) { governed["count"](b, dsl.As("s"), dsl.Headers(k.policy)) }, dsltest.Cache(1<<20))
			var all []dsltest.Record
			for i, at := range []int64{900, 1000, 1500} {
				all = append(all, dsltest.Record{Topic: "a", Key: []byte("k"), Value: []byte("v"), Timestamp: at, Headers: list(sent[i])})
			}
			require.NoError(t, d.PipeAll(all...))
			want := k.rows[2]
			if k.policy.String() == "empty" {
				want = sent[2]
			}
			assert.Equal(t, []string{"k=3 {" + want + "} @1500"}, results(d))
			assert.Len(t, d.Read("app-s-changelog"), 1)
		})
	}
}

func TestTrimmed(t *testing.T) {
	p := dsl.Union(2, 8192)
	d := started(t, func(b *dsl.Builder) { governed["count"](b, dsl.As("s"), dsl.Headers(p)) })
	pipe(t, d, 1, "v", "a=1,b=1")
	assert.Zero(t, p.Trimmed())
	pipe(t, d, 2, "v", "c=1,d=1,e=1")
	assert.EqualValues(t, 3, p.Trimmed())
}

// Sessions that grow together: deletions carry the headers of the record that absorbs them.
func TestSessionHeaders(t *testing.T) {
	for _, c := range []struct {
		policy       dsl.HeaderPolicy
		deleted, row string
	}{
		{dsl.Latest(), "c=3", "c=3"},
		{dsl.First(), "c=3", "a=1"},
		{dsl.Union(64, 8192), "c=3", "a=1,b=2,c=3"},
		{dsl.Empty(), "", ""},
	} {
		for _, cache := range []int64{0, 1 << 20} {
			t.Run(fmt.Sprintf("%v/cache%d", c.policy, cache), func(t *testing.T) {
				d := started(t, func(b *dsl.Builder) {
					counts := dsl.Count(grouped(b).WindowedBySession(dsl.Sessions(5*time.Millisecond).Grace(time.Second)), dsl.As("s"), dsl.Headers(c.policy))
					windowed(dsl.MapNullable(counts.ToStream(), func(n *int64) *string {
						if n == nil {
							return nil
						}
						return print(*n)
					}))
				}, dsltest.Cache(cache))
				pipe(t, d, 10, "x", "a=1")
				pipe(t, d, 20, "y", "b=2")
				results(d)
				d.Read("app-s-changelog")
				pipe(t, d, 15, "z", "c=3")
				assert.Equal(t, []string{
					"k@10/10=- {" + c.deleted + "} @10",
					"k@20/20=- {" + c.deleted + "} @20",
					"k@10/20=3 {" + c.row + "} @20",
				}, results(d))
				log := d.Read("app-s-changelog")
				require.Len(t, log, 3)
				assert.Equal(t, "c=3", listOf(log[0].Headers), "tombstones carry the record's headers under every policy")
				assert.Equal(t, "c=3", listOf(log[1].Headers))
				assert.Equal(t, c.row, listOf(log[2].Headers))
				assert.Equal(t, c.row, rowHeaders(t, d, "session"))
			})
		}
	}
}

// Sliding windows: each has headers of its own, and a copied one those of its source.
func TestSlidingHeaders(t *testing.T) {
	for _, c := range []struct {
		policy dsl.HeaderPolicy
		want   map[string]string
	}{
		{dsl.Latest(), map[string]string{"[5,15]": "a=1", "[10,20]": "c=3", "[16,26]": "c=3", "[8,18]": "c=3", "[19,29]": "b=2"}},
		{dsl.First(), map[string]string{"[5,15]": "a=1", "[10,20]": "a=1", "[16,26]": "b=2", "[8,18]": "a=1", "[19,29]": "b=2"}},
		{dsl.Union(64, 8192), map[string]string{"[5,15]": "a=1", "[10,20]": "a=1,b=2,c=3", "[16,26]": "b=2,c=3", "[8,18]": "a=1,c=3", "[19,29]": "b=2"}},
		{dsl.Empty(), map[string]string{"[5,15]": "", "[10,20]": "", "[16,26]": "", "[8,18]": "", "[19,29]": ""}},
	} {
		t.Run(c.policy.String(), func(t *testing.T) {
			d := started(t, func(b *dsl.Builder) {
				windowed(dsl.Reduce(grouped(b).WindowedBy(dsl.Sliding(10*time.Millisecond).Grace(time.Second)), add, dsl.As("s"), dsl.Headers(c.policy)).ToStream())
			})
			pipe(t, d, 15, "x", "a=1")
			pipe(t, d, 20, "y", "b=2")
			pipe(t, d, 18, "z", "c=3")
			rows, err := dsltest.Windows(d, "s", store.String(), store.String())
			require.NoError(t, err)
			got := map[string]string{}
			for _, r := range rows {
				got[fmt.Sprintf("[%d,%d]", r.Key.Start, r.Key.End)] = listOf(r.Headers)
			}
			assert.Equal(t, c.want, got)
		})
	}
}

// stamped is a serde that stamps what it writes with a schema's number, and wants to see it.
type stamped struct {
	store.Serde[string]
	name   string
	number *int
}

func (s stamped) Serialize(topic string, h *store.Headers, v string) ([]byte, error) {
	if err := h.Add(s.name, fmt.Appendf(nil, "%d", *s.number)); err != nil {
		return nil, err
	}
	return s.Serde.Serialize(topic, nil, v)
}

func (s stamped) Deserialize(topic string, h *store.Headers, b []byte) (string, error) {
	if _, ok := h.Last(s.name); !ok {
		return "", fmt.Errorf("no %s beside %q", s.name, b)
	}
	return s.Serde.Deserialize(topic, nil, b)
}

// Policies that keep old headers must not collect a schema number with each update, and
// what a serde adds is nobody else's business.
func TestSerdesThatAddHeaders(t *testing.T) {
	for _, c := range []struct {
		policy dsl.HeaderPolicy
		rows   []string // but for the serdes' own at the end
		out    []string
	}{
		{dsl.Latest(), []string{"a=1", "b=2", "a=1"}, []string{"a=1", "b=2", "a=1"}},
		{dsl.First(), []string{"a=1", "a=1", "a=1"}, nil},
		{dsl.Union(64, 8192), []string{"a=1", "a=1,b=2", "b=2,a=1"}, nil},
		{dsl.Empty(), []string{"", "", ""}, []string{"a=1", "b=2", "a=1"}},
	} {
		for _, cache := range []int64{0, 1 << 20} {
			t.Run(fmt.Sprintf("%v/cache%d", c.policy, cache), func(t *testing.T) {
				number := 0
				value := stamped{store.String(), "value-schema", &number}
				d := started(t, func(b *dsl.Builder) {
					in := dsl.ReadStream(b, "a", store.String(), store.String())
					t := dsl.Aggregate(in.GroupByKey(), func() string { return "" }, func(_, v, a string) string { return a + v },
						store.Serde[string](value), dsl.As("s"), dsl.Headers(c.policy))
					t.ToStream().WithValueSerde(store.String()).To("out")
				}, dsltest.Cache(cache))
				for i, h := range []string{"a=1", "b=2", "a=1"} {
					number = i
					pipe(t, d, int64(i), "v", h)
					row := strings.TrimPrefix(c.rows[i]+fmt.Sprintf(",value-schema=%d", i), ",")
					assert.Equal(t, row, rowHeaders(t, d, "aggregate"))
					assert.Equal(t, row, listOf(last(t, d.Read("app-s-changelog")).Headers))
					out := listOf(last(t, d.Read("out")).Headers)
					if c.out != nil {
						assert.Equal(t, c.out[i], out)
						continue
					}
					assert.NotContains(t, out, fmt.Sprintf("value-schema=%d", i), "what the serde adds now is nobody else's")
				}
			})
		}
	}
}

// A header policy is all that is said about headers: the operator's option, or the
// application's format and policy.
func TestWhereHeadersAreOn(t *testing.T) {
	for _, c := range []struct {
		name        string
		application []dsl.BuilderOption
		store       []dsl.StoreOption
		row         string
	}{
		{"off", nil, nil, ""},
		{"format", []dsl.BuilderOption{dsl.StoreFormat("headers")}, nil, "a=1"},
		{"format, empty", []dsl.BuilderOption{dsl.StoreFormat("HEADERS"), dsl.DefaultHeaderPolicy(dsl.Empty())}, nil, ""},
		{"option", nil, []dsl.StoreOption{dsl.Headers(dsl.Latest())}, "a=1"},
		{"option over policy", []dsl.BuilderOption{dsl.DefaultHeaderPolicy(dsl.Empty())}, []dsl.StoreOption{dsl.Headers(dsl.First())}, "a=1"},
		{"not this store", []dsl.BuilderOption{dsl.StoreFormat("Headers")}, []dsl.StoreOption{dsl.NoHeaders()}, ""},
		{"in memory", []dsl.BuilderOption{dsl.StoreFormat("Headers"), dsl.StoresInMemory()}, nil, "a=1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := dsl.NewBuilder(c.application...)
			governed["count"](b, append([]dsl.StoreOption{dsl.As("s")}, c.store...)...)
			topology, err := b.Build()
			require.NoError(t, err)
			d, err := dsltest.New(topology, dsltest.App("app"))
			require.NoError(t, err)
			defer func() { require.NoError(t, d.Close()) }()
			pipe(t, d, 5, "v", "a=1")
			assert.Equal(t, c.row, rowHeaders(t, d, "count"))
			assert.Equal(t, []string{"k=1 {a=1} @5"}, results(d))
		})
	}
}
