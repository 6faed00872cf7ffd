package dsl_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/dsl"
	"github.com/forebay-streams/forebay/dsl/dsltest"
	"github.com/forebay-streams/forebay/kv"
	"github.com/forebay-streams/forebay/store"
)

// benchmarked are topologies of which a benchmark measures records per second: records of
// topic "a", and before them one of each key of topic "b".
var benchmarked = map[string]func(b *dsl.Builder){
	"stateless": func(b *dsl.Builder) {
		dsl.ReadStream(b, "a", store.String(), store.String()).Filter(func(string, string) bool { return true }).To("out")
	},
	"count": func(b *dsl.Builder) {
		dsl.ReadStream(b, "a", store.String(), store.String()).GroupByKey().Count(dsl.As("s")).ToStream().To("out")
	},
	"windowed-count": func(b *dsl.Builder) {
		dsl.Count(dsl.ReadStream(b, "a", store.String(), store.String()).GroupByKey().WindowedBy(tumbling), dsl.As("s")).ToStream().To("out")
	},
	"table-join": func(b *dsl.Builder) {
		left := dsl.ReadTable(b, "a", store.String(), store.String(), dsl.As("l"))
		right := dsl.ReadTable(b, "b", store.String(), store.String(), dsl.As("r"))
		dsl.JoinTables(left, right, func(l, r string) string { return l + r }, nil, dsl.As("j")).ToStream().To("out")
	},
}

const benchKeys = 1000

var benchHeaders = list("traceparent=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01,tenant=acme")

func benchRecord(topic string, i int) dsltest.Record {
	return dsltest.Record{Topic: topic, Key: fmt.Appendf(nil, "key-%06d", i%benchKeys), Value: []byte("some value of an ordinary size"), Timestamp: int64(i), Headers: benchHeaders}
}

// BenchmarkDriver is one record through the driver, which commits after each, and in rounds
// of 1000 records, as an application has them. Stores are on disk, with headers.
func BenchmarkDriver(b *testing.B) {
	for name, build := range benchmarked {
		for _, round := range []int{1, 1000} {
			b.Run(fmt.Sprintf("%s/round=%d", name, round), func(b *testing.B) {
				builder := dsl.NewBuilder(dsl.StoreFormat("HEADERS"))
				build(builder)
				topology, err := builder.Build()
				require.NoError(b, err)
				d, err := dsltest.New(topology)
				require.NoError(b, err)
				defer d.Close()
				if name == "table-join" {
					for i := range benchKeys {
						require.NoError(b, d.Pipe(benchRecord("b", i)))
					}
				}
				records := make([]dsltest.Record, round)
				b.ReportAllocs()
				b.ResetTimer()
				for i := 0; i < b.N; i += round {
					n := min(round, b.N-i)
					for j := range n {
						records[j] = benchRecord("a", i+j)
					}
					if err := d.PipeAll(records[:n]...); err != nil {
						b.Fatal(err)
					}
					for _, topic := range d.Topics() {
						d.Read(topic)
					}
				}
			})
		}
	}
}

// BenchmarkBareStore is what the count of BenchmarkDriver does to its store: a read and a
// write for each record, a commit each round.
func BenchmarkBareStore(b *testing.B) {
	for _, round := range []int{1, 1000} {
		b.Run(fmt.Sprintf("count/round=%d", round), func(b *testing.B) {
			s, err := kv.Open(b.TempDir()+"/app/0_0", "s", store.String(), store.Int64(), kv.Changelog(nowhere{}))
			require.NoError(b, err)
			defer s.Close()
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				r := benchRecord("a", i)
				s.SetRecord(store.Record{Topic: "a", Offset: int64(i), Timestamp: r.Timestamp, Headers: r.Headers})
				key := string(r.Key)
				v, _, err := s.Get(key)
				if err == nil {
					err = s.Put(key, store.Value[int64]{Data: v.Data + 1, Timestamp: r.Timestamp, Headers: r.Headers})
				}
				if err == nil && i%round == round-1 {
					err = s.Commit(context.Background())
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkKafkaDriver is BenchmarkDriver with rounds of one record, on the topology test
// driver of Kafka Streams, which is warmed up first. make interop-deps fetches it.
func BenchmarkKafkaDriver(b *testing.B) {
	file, err := exec.Command("../scripts/interop.sh").Output()
	require.NoError(b, err)
	classpath, err := os.ReadFile(strings.TrimSpace(string(file)))
	require.NoError(b, err)
	for name := range benchmarked {
		b.Run(name, func(b *testing.B) {
			out, err := exec.Command("java", "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
				"-cp", strings.TrimSpace(string(classpath)), "DslBench", name, strconv.Itoa(b.N), b.TempDir()).Output()
			require.NoError(b, err)
			ns, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
			require.NoError(b, err)
			b.ReportMetric(ns, "ns/op") // without the start of the JVM
		})
	}
}

// nowhere is a changelog that forgets.
type nowhere struct{}

func (nowhere) Topic() string                              { return "app-s-changelog" }
func (nowhere) Partition() int32                           { return 0 }
func (nowhere) Append(store.Change) error                  { return nil }
func (nowhere) Flush(context.Context) (int64, bool, error) { return 0, true, nil }
