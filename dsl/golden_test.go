package dsl_test

import (
	"cmp"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/dsl"
	"github.com/forebay-streams/forebay/dsl/dsltest"
	"github.com/forebay-streams/forebay/store"
)

// golden is a folder of what Kafka Streams answered: testdata/golden-dsl, or another one of
// the same form.
func golden() string {
	if dir := os.Getenv("GOLDEN_DSL"); dir != "" {
		return dir
	}
	return filepath.Join("testdata", "golden-dsl")
}

// input is a line of in.jsonl.
type input struct {
	Topic string
	K, V  *string
	TS    int64
	H     []header
}

// answer is what one input record led to.
type answer struct {
	I     int
	Out   []record
	Error string
}

// record is a produced record, bytes as hex. Without timestamp the producer gives it one.
type record struct {
	Topic string
	K, V  *string
	TS    *int64
	H     []header
}

type header [2]*string

func (h header) String() string { return fmt.Sprintf("%s=%s", shown(h[0]), shown(h[1])) }

func (r record) String() string {
	return fmt.Sprintf("%s %s=%s @%s %v", r.Topic, readable(r.K), readable(r.V), shownTime(r.TS), r.H)
}

func shownTime(t *int64) string {
	if t == nil {
		return "-"
	}
	return strconv.FormatInt(*t, 10)
}

func shown(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

// readable adds the text to hex that is one.
func readable(s *string) string {
	if s == nil {
		return "null"
	}
	b, _ := hex.DecodeString(*s)
	if strings.IndexFunc(string(b), func(r rune) bool { return r < ' ' || r > '~' }) < 0 {
		return fmt.Sprintf("%q", b)
	}
	return *s
}

func (r record) equal(o record) bool {
	return r.Topic == o.Topic && same(r.K, o.K) && same(r.V, o.V) && same(r.TS, o.TS) &&
		slices.EqualFunc(r.H, o.H, func(a, b header) bool { return same(a[0], b[0]) && same(a[1], b[1]) })
}

func same[T comparable](a, b *T) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

// setting is what one recording was made with.
type setting struct {
	format string
	cache  int64
}

func (s setting) String() string { return fmt.Sprintf("%s-cache%d", s.format, s.cache) }

var settings = []setting{{"default", 0}, {"default", 1000000}, {"headers", 0}, {"headers", 1000000}}

// TestGoldenDSL runs the recorded topologies under the policy Empty, record by record, and
// compares everything that is produced with what Kafka Streams 4.4 produced. Where forebay
// answers otherwise on purpose, a named rule says so and checks our answer.
func TestGoldenDSL(t *testing.T) { compareFolder(t, golden()) }

func compareFolder(t *testing.T, folder string) {
	for _, name := range slices.Sorted(maps.Keys(topologies)) {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(folder, name)
			t.Run("topology", func(t *testing.T) {
				want, err := os.ReadFile(filepath.Join(dir, "topology.txt"))
				require.NoError(t, err)
				require.Equal(t, string(want), built(t, name, setting{"default", 0}).Describe())
			})
			inputs := lines[input](t, filepath.Join(dir, "in.jsonl.gz"))
			for _, s := range settings {
				t.Run(s.String(), func(t *testing.T) {
					t.Parallel()
					r := &run{folder: folder, topology: name, setting: s, inputs: inputs, got: answers(t, name, s, inputs)}
					r.want = lines[answer](t, r.file(s))
					for _, rule := range rules {
						if rule.applies(r) {
							t.Logf("%s: %s", rule.name, rule.reason)
							rule.expect(t, r)
						}
					}
					compareAnswers(t, r)
				})
			}
		})
	}
}

// run is one topology under one setting.
type run struct {
	folder    string // of the recorded answers
	topology  string
	setting   setting
	inputs    []input
	want, got []answer
}

// file is that of the topology's answers under a setting.
func (r *run) file(s setting) string {
	return filepath.Join(r.folder, r.topology, s.String()+".jsonl.gz")
}

func built(t testing.TB, name string, s setting) *dsl.Topology {
	b := dsl.NewBuilder(dsl.StoreFormat(s.format), dsl.DefaultHeaderPolicy(dsl.Empty()))
	topologies[name](b)
	topology, err := b.Build()
	require.NoError(t, err)
	return topology
}

// answers pipes the inputs through a topology.
func answers(t testing.TB, name string, s setting, inputs []input) []answer {
	d, err := dsltest.New(built(t, name, s), dsltest.App("dsl"), dsltest.Cache(s.cache))
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	return piped(t, d, inputs)
}

// piped is what a driver produces of each input.
func piped(t testing.TB, d *dsltest.Driver, inputs []input) []answer {
	out := make([]answer, len(inputs))
	for i, in := range inputs {
		out[i].I = i
		require.NoError(t, d.Pipe(dsltest.Record{Topic: in.Topic, Key: plain(in.K), Value: plain(in.V), Timestamp: in.TS, Headers: headers(t, in.H)}))
		for _, topic := range d.Topics() {
			for _, r := range d.Read(topic) {
				out[i].Out = append(out[i].Out, recorded(r))
			}
		}
	}
	return out
}

func plain(s *string) []byte {
	if s == nil {
		return nil
	}
	return []byte(*s)
}

func headers(t testing.TB, list []header) store.Headers {
	var out store.Headers
	for _, h := range list {
		var value []byte
		if h[1] != nil {
			var err error
			value, err = hex.DecodeString(*h[1])
			require.NoError(t, err)
		}
		require.NoError(t, out.Add(*h[0], value))
	}
	return out
}

func recorded(r dsltest.Record) record {
	out := record{Topic: r.Topic, K: inHex(r.Key), V: inHex(r.Value)}
	if r.Timestamp != store.NoTimestamp {
		out.TS = &r.Timestamp
	}
	out.H = listed(r.Headers)
	return out
}

func listed(h store.Headers) (out []header) {
	for h := range h.All() {
		out = append(out, header{&h.Key, inHex(h.Value)})
	}
	return out
}

func inHex(b []byte) *string {
	if b == nil {
		return nil
	}
	s := hex.EncodeToString(b)
	return &s
}

// lines reads a file of JSON lines.
func lines[T any](t testing.TB, path string) (out []T) {
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	d := json.NewDecoder(z)
	for d.More() {
		var v T
		require.NoError(t, d.Decode(&v))
		out = append(out, v)
	}
	return out
}

// compareAnswers reports the first lines that differ.
func compareAnswers(t *testing.T, r *run) {
	require.Len(t, r.got, len(r.want))
	var report []string
	bad := 0
	for i := range r.want {
		want, got := r.want[i], r.got[i]
		if want.Error != "" {
			t.Fatalf("line %d: Kafka failed with %s", i, want.Error)
		}
		slices.SortStableFunc(want.Out, byTopic)
		if !slices.EqualFunc(want.Out, got.Out, record.equal) {
			if bad++; bad <= 3 {
				report = append(report, difference(i, r.inputs[i], want.Out, got.Out))
			}
		}
	}
	if bad > 0 {
		t.Errorf("%d of %d lines differ:\n%s", bad, len(r.want), strings.Join(report, "\n"))
	}
}

func byTopic(a, b record) int { return cmp.Compare(a.Topic, b.Topic) }

func difference(i int, in input, want, got []record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "line %d: %s %s=%s @%d %v\n", i, in.Topic, shown(in.K), shown(in.V), in.TS, in.H)
	for _, r := range want {
		fmt.Fprintf(&b, "  Kafka   %v\n", r)
	}
	for _, r := range got {
		fmt.Fprintf(&b, "  forebay %v\n", r)
	}
	return b.String()
}
