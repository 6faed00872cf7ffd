package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/store"
)

func TestVersionedAnswers(t *testing.T) {
	o := testOptions(t)
	o.store, o.retention, o.segment, o.guarantee = "versioned", 30, 10, exactlyOnceV2
	results, log := replayScript(t, o, "",
		`{"op":"put","k":"61","v":"01","ts":5,"h":[["x","00"]]}`,
		`{"op":"put","k":"61","v":"","ts":9}`,
		`{"op":"put","k":"61","v":"03","ts":-1}`,
		`{"op":"delete","k":"61","ts":12,"rh":[["d",null]]}`,
		`{"op":"getAsOf","k":"61","asOf":8}`,
		`{"op":"get","k":"61"}`,
		`{"op":"history","k":"61","from":0,"to":20,"order":"desc"}`,
		`{"op":"put","k":"62","v":"04","ts":50}`,
		`{"op":"put","k":"61","v":"05","ts":19}`,
		`{"op":"history","k":"61","from":3,"to":2,"order":"asc"}`)
	require.Equal(t, []string{
		`{"i":0,"r":-1}`,
		`{"i":1,"r":-1}`,
		`{"i":2,"r":{"error":"store \"store\": put: negative timestamp: a version cannot begin at -1"}}`,
		`{"i":3,"r":{"v":"","ts":9,"h":[]}}`,
		`{"i":4,"r":{"v":"01","ts":5,"to":9,"h":[["x","00"]]}}`,
		`{"i":5,"r":null}`,
		`{"i":6,"r":[{"v":"","ts":9,"to":12,"h":[]},{"v":"01","ts":5,"to":9,"h":[["x","00"]]}]}`,
		`{"i":7,"r":-1}`,
		`{"i":8,"r":-9223372036854775808}`,
	}, results[:9])
	require.Contains(t, results[9], "ends before it begins")
	require.Equal(t, []string{
		`{"offset":0,"k":"61","v":"01","ts":5,"h":[["x","00"]]}`,
		`{"offset":1,"k":"61","v":"","ts":9,"h":[]}`,
		`{"offset":2,"k":"61","v":null,"ts":12,"h":[["d",null]]}`,
		`{"offset":3,"k":"62","v":"04","ts":50,"h":[]}`,
	}, log)

	for _, bad := range []string{`{"op":"fetch","k":"61"}`, `{"op":"put","k":"6"}`, `{"op":"put","k":"61","v":"00","h":[[null,"00"]]}`} {
		err := run(o, streams{ops: bytes.NewReader(script(bad)), results: &bytes.Buffer{}})
		require.ErrorIs(t, err, errScript, bad)
	}
	o.format = "timestamped"
	require.ErrorIs(t, run(o, streams{ops: bytes.NewReader(nil), results: &bytes.Buffer{}}), store.ErrConfig)
}
