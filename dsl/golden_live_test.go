package dsl_test

import (
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// driverPath holds the classpath of the programs in interop/java, for the release of the
// recorded runs; scripts/interop.sh makes it.
const driverPath = "../.deps/interop/4.4.0/classpath"

// TestLiveDSL runs random records through all topologies, in Kafka Streams' test driver and
// in ours, and compares as TestGoldenDSL does. FOREBAY_SEED is the first seed (1), FOREBAY_SEEDS
// their number (1), FOREBAY_RECORDS that of records for each topology (100).
func TestLiveDSL(t *testing.T) {
	classpath, err := os.ReadFile(driverPath)
	if errors.Is(err, os.ErrNotExist) {
		if os.Getenv("FOREBAY_REQUIRE_BROKER") == "1" {
			t.Fatal("no driver of Kafka Streams; scripts/interop.sh makes it")
		}
		t.Skip("no driver of Kafka Streams (scripts/interop.sh makes it)")
	}
	require.NoError(t, err)
	first, count := number(t, "FOREBAY_SEED", 1), number(t, "FOREBAY_SEEDS", 1)
	for seed := first; seed < first+count; seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			folder := t.TempDir()
			for name := range maps.Keys(topologies) {
				writeInputs(t, filepath.Join(folder, name), randomInputs(name, uint64(seed), number(t, "FOREBAY_RECORDS", 100)))
			}
			java := exec.Command("java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
				"-Djava.io.tmpdir="+t.TempDir(), "-cp", strings.TrimSpace(string(classpath)), "Dsl", folder)
			out, err := java.CombinedOutput()
			require.NoError(t, err, "%s", out[max(0, len(out)-5000):])
			compareFolder(t, folder)
		})
	}
}

func number(t *testing.T, name string, otherwise int) int {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, name)
	return n
}

func writeInputs(t *testing.T, dir string, inputs []input) {
	require.NoError(t, os.Mkdir(dir, 0o755))
	f, err := os.Create(filepath.Join(dir, "in.jsonl.gz"))
	require.NoError(t, err)
	z := gzip.NewWriter(f)
	e := json.NewEncoder(z)
	for _, in := range inputs {
		require.NoError(t, e.Encode(map[string]any{"topic": in.Topic, "k": in.K, "v": in.V, "ts": in.TS, "h": slices.Concat([]header{}, in.H)}))
	}
	require.NoError(t, z.Close())
	require.NoError(t, f.Close())
}

// randomInputs are records of the topic a, and b where the topology reads it: four keys, a
// few values, some nulls, times that jump, and some that come late.
func randomInputs(topology string, seed uint64, count int) (out []input) {
	name := uint64(0)
	for _, c := range topology {
		name = 31*name + uint64(c)
	}
	r := rand.New(rand.NewPCG(seed, name))
	hasAny := func(prefixes ...string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(topology, p) })
	}
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	twoTopics, byLetter := hasAny("table-join", "foreign-key", "stream-", "cogroup", "stateless"), hasAny("foreign-key", "stream-global")
	now := int64(100_000)
	for range count {
		steps := []int64{0, 0, 1, 10, 700, 2000, 6000}
		if r.IntN(10) == 0 {
			steps = append(steps, 20_000, 20_000)
		}
		now += steps[r.IntN(len(steps))]
		in := input{Topic: "a", TS: now}
		if r.IntN(5) < 2 {
			in.TS -= []int64{1, 500, 3000, 8000, 25_000}[r.IntN(5)]
		}
		if twoTopics && r.IntN(20) < 9 {
			in.Topic = "b"
		}
		key := pick("k1", "k2", "k3", "k4")
		if in.Topic == "b" && byLetter {
			key = pick("a", "b", "c", "d", "e", "f")
		}
		if r.IntN(33) > 0 {
			in.K = &key
		}
		if r.IntN(8) > 0 {
			in.V = text(pick("a", "b", "c", "d", "e", "f", "x") + pick("", "", "1", "22"))
		}
		for range []int{0, 1, 1, 2, 3}[r.IntN(5)] {
			h := header{text(pick("traceparent", "tenant", "k", "k", "", "é€😀"))}
			switch r.IntN(3) {
			case 0:
				h[1] = text("")
			case 1:
				b := make([]byte, 1+r.IntN(12))
				for i := range b {
					b[i] = byte(r.Uint32())
				}
				h[1] = text(hex.EncodeToString(b))
			}
			in.H = append(in.H, h)
		}
		out = append(out, in)
	}
	return out
}
