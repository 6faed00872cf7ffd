package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/internal/versions"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

func TestGoldenVersioned(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(goldenDir, "versioned-*"))
	require.NoError(t, err)
	require.Len(t, dirs, 16)
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) { readGolden(t, filepath.Base(dir)).checkVersioned(t) })
	}
	require.Zero(t, rocks.Live())
}

func (g golden) checkVersioned(t *testing.T) {
	r := g.replay(t, nil)
	o := r.o
	puts := acceptedPuts(t, r.script, r.results, o)
	got := parseLog(t, r.log)
	require.Len(t, got, countTrue(puts), "accepted puts and no others are logged")
	if r.wantLog != nil {
		// Kafka logs what it rejects, too.
		recorded := parseLog(t, r.wantLog)
		require.Len(t, recorded, len(puts))
		n := 0
		for i, accepted := range puts {
			if accepted {
				recorded[i].Offset, got[n].Offset = 0, 0
				require.Equal(t, recorded[i], got[n])
				n++
			}
		}
	}
	if o.memory {
		require.NoDirExists(t, filepath.Join(o.state, o.app))
		return
	}

	// What the directory holds, worked out row by row.
	live, kafka := newPhysical(o), newPhysical(o)
	kafka.forgets = true
	if g.before != "" {
		live.forgets = g.upgrade // Kafka wrote what it goes on from
		first := unzip(t, g.before, "ops.jsonl.gz")
		live.run(t, first)
		kafka.run(t, first)
		live.forgets = false
		if g.upgrade { // Kafka keeps in memory only which segments there are
			kafka.times.Segments, kafka.times.Stream = nil, versions.NoStream
		}
	}
	live.run(t, r.script)
	kafka.run(t, r.script)
	ours := dumpStore(t, o.state, o.app)
	require.Equal(t, live.rows, ours.versions(t, o.format))
	for _, note := range []string{"forebay.segment-interval", "forebay.stream-time"} {
		require.Contains(t, ours[rocks.Offsets], hex.EncodeToString([]byte(note)))
		ours.without(note)
	}
	if !g.recorded("state.tar.gz") {
		return
	}
	state := t.TempDir()
	unpackState(t, g.name, o.app, state)
	theirs := dumpStore(t, state, o.app)
	if g.upgrade {
		theirs[rocks.Default], kafka.rows = repaired(t, theirs[rocks.Default], kafka.times), repaired(t, kafka.rows, kafka.times)
	}
	require.Equal(t, kafka.rows, theirs[rocks.Default])
	if kafka.marks == 0 && !g.upgrade {
		require.Equal(t, theirs[rocks.Default], ours[rocks.Default])
	}
	for _, d := range []dump{theirs, ours} {
		delete(d, rocks.Default)
		d.without("status")
		d.without("position") // Kafka never stores it
		d.without(newFileLog(o.app, nil).topic + "-0")
	}
	require.Equal(t, theirs, ours)
}

// repaired puts rows in order and leaves out dead segments: after a restart Kafka does not
// know its segments, so it never drops them, and puts versions behind rows that it has not seen.
func repaired(t *testing.T, rows map[string]string, times versions.Times) map[string]string {
	out := map[string]string{}
	for k, v := range rows {
		key, err := hex.DecodeString(k)
		require.NoError(t, err)
		b, err := hex.DecodeString(v)
		require.NoError(t, err)
		switch id, _, _ := versions.SplitKey(key, times.Interval); {
		case id == versions.Latest:
			out[k] = v
		case id >= times.FirstLive():
			r, _, err := versions.Decode(b, nil)
			require.NoError(t, err)
			b, err = r.Encode()
			require.NoError(t, err)
			out[k] = hex.EncodeToString(b)
		}
	}
	return out
}

func countTrue(list []bool) (n int) {
	for _, b := range list {
		if b {
			n++
		}
	}
	return n
}

type versionedLine struct {
	Op string     `json:"op"`
	K  hexBytes   `json:"k"`
	V  hexBytes   `json:"v"`
	TS int64      `json:"ts"`
	H  headerList `json:"h"`
}

func parseVersioned(t *testing.T, script []byte) (list []versionedLine) {
	require.NoError(t, eachLine(bytes.NewReader(script), func(_ int64, text []byte) error {
		var l versionedLine
		if err := json.Unmarshal(text, &l); err != nil {
			return err
		}
		list = append(list, l)
		return nil
	}))
	return list
}

// acceptedPuts tells of each put and delete whether it came in time.
func acceptedPuts(t *testing.T, script []byte, want []string, o options) (accepted []bool) {
	stream := int64(-1)
	for i, l := range parseVersioned(t, script) {
		if l.Op != "put" && l.Op != "delete" {
			continue
		}
		ok := l.TS >= stream-o.retention
		if stream = max(stream, l.TS); l.Op == "put" {
			require.Equal(t, !ok, strings.Contains(want[i], "-9223372036854775808"))
		}
		accepted = append(accepted, ok)
	}
	return accepted
}

// physical holds the rows that the puts of a script make.
type physical struct {
	times   versions.Times
	layout  store.Layout
	editor  versions.Editor
	rows    map[string]string
	forgets bool // tombstones at the latest timestamp, as Kafka does
	marks   int
}

func newPhysical(o options) *physical {
	p := &physical{times: versions.Times{Retention: o.retention, Interval: o.segment, Stream: -1}, layout: store.Plain, rows: map[string]string{}}
	if p.times.Interval == 0 {
		p.times.Interval = versions.DefaultInterval(o.retention)
	}
	if o.format == "headers" {
		p.layout = store.Aggregation
	}
	p.editor.Damaged = func() {}
	return p
}

func (p *physical) Get(key []byte, _ *[]byte) (store.Row, bool, error) {
	v, ok := p.rows[hex.EncodeToString(key)]
	b, err := hex.DecodeString(v)
	return store.Row{Value: b}, ok, err
}

func (p *physical) run(t *testing.T, script []byte) {
	for _, l := range parseVersioned(t, script) {
		if l.Op != "put" && l.Op != "delete" || p.times.Late(l.TS) {
			continue
		}
		var value []byte
		if l.Op == "put" && l.V != nil {
			h, err := l.H.headers()
			require.NoError(t, err)
			value, err = p.layout.Encode(store.Row{Value: l.V, Headers: h})
			require.NoError(t, err)
		}
		p.put(t, l.K, value, l.TS)
	}
}

func (p *physical) put(t *testing.T, key, value []byte, ts int64) {
	p.times.Advance(ts)
	latest := hex.EncodeToString(versions.AppendKey(nil, versions.Latest, key))
	if value == nil && strings.HasPrefix(p.rows[latest], hex.EncodeToString(versions.AppendKey(nil, ts, nil))) {
		if p.marks++; p.forgets {
			delete(p.rows, latest)
			return
		}
	}
	changes, _, err := p.editor.Put(p, &p.times, key, value, ts)
	require.NoError(t, err)
	for _, c := range changes {
		if c.Tombstone() {
			delete(p.rows, hex.EncodeToString(c.Key))
			continue
		}
		p.rows[hex.EncodeToString(c.Key)] = hex.EncodeToString(c.Value)
	}
	for k := range p.rows {
		b, err := hex.DecodeString(k)
		require.NoError(t, err)
		if id, _, _ := versions.SplitKey(b, p.times.Interval); id != versions.Latest && id < p.times.FirstLive() {
			delete(p.rows, k)
		}
	}
}

// versions gives the rows of the format that both families hold together.
func (d dump) versions(t *testing.T, format string) map[string]string {
	formats, err := migration.VersionedFormats(layouts[format])
	require.NoError(t, err)
	target := formats[len(formats)-1]
	rows := map[string]string{}
	for _, f := range formats {
		for k, v := range d[f.Family] {
			key, err := hex.DecodeString(k)
			require.NoError(t, err)
			b, err := hex.DecodeString(v)
			require.NoError(t, err)
			b, err = versions.Convert(nil, f.Layout, target.Layout, key, b)
			require.NoError(t, err)
			rows[k] = hex.EncodeToString(b)
		}
	}
	return rows
}
