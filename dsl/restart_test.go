package dsl_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/dsl/dsltest"
)

// Topologies whose answers do not depend on stream time, which begins anew with a restart:
// whatever is lost in between, every answer is that of the recorded run.
var timeless = []string{
	"count", "reduce", "aggregate", "cogroup", "table", "table-filter-map", "table-group-count", "table-group-reduce", "to-table",
	"table-join-inner", "table-join-left", "table-join-outer", "foreign-key-inner", "foreign-key-left",
	"stream-table-inner", "stream-table-left", "stream-global", "repartition-count", "group-by-count", "suppress-time",
}

// TestRestart stops and starts the recorded topologies again and again: with their state,
// and without, so that every store comes back from its changelog.
func TestRestart(t *testing.T) {
	for _, name := range timeless {
		for _, s := range []setting{{"headers", 0}, {"default", 1000000}} {
			for _, wipe := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%v/wipe=%v", name, s, wipe), func(t *testing.T) {
					t.Parallel()
					inputs := lines[input](t, filepath.Join(golden(), name, "in.jsonl.gz"))
					r := &run{folder: golden(), topology: name, setting: s, inputs: inputs}
					r.want = lines[answer](t, r.file(s))
					d, err := dsltest.New(built(t, name, s), dsltest.App("dsl"), dsltest.Cache(s.cache))
					require.NoError(t, err)
					defer func() { require.NoError(t, d.Close()) }()
					const every = 50
					for from := 0; from < len(inputs); from += every {
						r.got = append(r.got, piped(t, d, inputs[from:min(from+every, len(inputs))])...)
						require.NoError(t, d.Restart(wipe))
					}
					for _, rule := range rules {
						if rule.applies(r) {
							rule.expect(t, r)
						}
					}
					compareAnswers(t, r)
				})
			}
		}
	}
}
