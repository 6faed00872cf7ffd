package dsl_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/dsl"
	"github.com/forebay-streams/forebay/dsl/dsltest"
)

// Results on close wait for the emit interval, but not so long that the store would hide
// them: none is lost, and none comes twice.
func TestEmitInterval(t *testing.T) {
	for _, name := range []string{"tumbling-final", "sliding-final", "session-final"} {
		for _, memory := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				inputs := lines[input](t, filepath.Join(golden(), name, "in.jsonl.gz"))
				finals := func(interval time.Duration) map[string]string {
					options := []dsltest.Option{dsltest.App("dsl"), dsltest.EmitInterval(interval)}
					if memory {
						options = append(options, dsltest.InMemory())
					}
					d, err := dsltest.New(built(t, name, setting{"headers", 0}), options...)
					require.NoError(t, err)
					defer func() { require.NoError(t, d.Close()) }()
					out := map[string]string{}
					collect := func(answers []answer) {
						for _, a := range answers {
							for _, r := range a.Out {
								if r.Topic == "out" {
									require.NotContains(t, out, *r.K, "emitted twice")
									out[*r.K] = *r.V
								}
							}
						}
					}
					collect(piped(t, d, inputs))
					// Time passes, and a last record has everything emitted that is due.
					require.NoError(t, d.Advance(2*interval))
					collect(piped(t, d, []input{{Topic: "a", K: text("last"), V: text("x"), TS: 10_000_000}}))
					return out
				}
				at := finals(0)
				require.NotEmpty(t, at)
				assert.Equal(t, at, finals(time.Hour))
			})
		}
	}
}

// A window that closes is emitted with the headers of its row: those of its last record, not
// of the one that closes it.
func TestHeadersOnClose(t *testing.T) {
	for _, cache := range []int64{0, 1 << 20} {
		for _, memory := range []bool{false, true} {
			for name, build := range map[string]func(b *dsl.Builder){
				"k@0/10000=2 {b=2} @2": func(b *dsl.Builder) {
					windowed(dsl.Count(grouped(b).WindowedBy(tumbling).EmitOnClose(), dsl.As("s"), dsl.Headers(dsl.Latest())).ToStream())
				},
				"k@1/2=2 {b=2} @2": func(b *dsl.Builder) {
					windowed(dsl.Count(grouped(b).WindowedBySession(session).EmitOnClose(), dsl.As("s"), dsl.Headers(dsl.Latest())).ToStream())
				},
				"k@0/10000=2 {a=1,b=2} @2": func(b *dsl.Builder) {
					windowed(dsl.Count(grouped(b).WindowedBy(tumbling).EmitOnClose(), dsl.As("s"), dsl.Headers(dsl.Union(64, 8192))).ToStream())
				},
				"k@0/10000=2 {c=3} @2": func(b *dsl.Builder) { // as Kafka does
					windowed(dsl.Count(grouped(b).WindowedBy(tumbling).EmitOnClose(), dsl.As("s"), dsl.Headers(dsl.Empty())).ToStream())
				},
			} {
				options := []dsltest.Option{dsltest.Cache(cache)}
				if memory {
					options = append(options, dsltest.InMemory())
				}
				d := started(t, build, options...)
				pipe(t, d, 1, "x", "a=1")
				pipe(t, d, 2, "y", "b=2")
				assert.Empty(t, results(d))
				pipe(t, d, 100_000, "z", "c=3")
				assert.Equal(t, []string{name}, results(d))
			}
		}
	}
}
