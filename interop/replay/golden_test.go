package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

const goldenDir = "../testdata/golden"

// golden is a recorded case.
type golden struct {
	name    string
	options options
	// before is the case that this one went on from, in place or from its changelog.
	before           string
	upgrade, restore bool
}

func readGolden(t *testing.T, name string) golden {
	text, err := os.ReadFile(filepath.Join(goldenDir, name, "case"))
	require.NoError(t, err)
	app, err := os.ReadFile(filepath.Join(goldenDir, name, "app"))
	require.NoError(t, err)
	words := strings.Fields(string(text))
	g := golden{name: name}
	args := []string{"--ops", "-", "--results", "-", "--store", words[0], "--format", words[1], "--app", strings.TrimSpace(string(app))}
	for _, word := range words[2:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "seed", "count", "late", "queries", "base", "expired": // of the script's making
		case "upgrade":
			g.before, g.upgrade = value, true
		case "restore":
			g.before, g.restore = value, true
		default:
			args = append(args, "--"+key, value)
		}
	}
	g.options, err = parseOptions(args)
	require.NoError(t, err)
	return g
}

func unzip(t *testing.T, name, file string) []byte {
	f, err := os.Open(filepath.Join(goldenDir, name, file))
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	b, err := io.ReadAll(z)
	require.NoError(t, err)
	return b
}

// lines splits a file, whose last line ends as all others do.
func lines(b []byte) []string {
	if len(b) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

// unpackState lays the recorded state directory under state/<app>.
func unpackState(t *testing.T, name, app, state string) {
	in := tar.NewReader(bytes.NewReader(unzip(t, name, "state.tar.gz")))
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		require.True(t, filepath.IsLocal(h.Name), h.Name)
		path := filepath.Join(state, app, h.Name)
		if h.Typeflag == tar.TypeDir {
			require.NoError(t, os.MkdirAll(path, 0o755))
			continue
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		b, err := io.ReadAll(in)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, b, 0o644))
	}
}

// dump is every column family of a database, keys and values in hex.
type dump map[string]map[string]string

func dumpStore(t *testing.T, state, app string) dump {
	return dumpDir(t, filepath.Join(state, app, taskName, "rocksdb", storeName))
}

func dumpDir(t *testing.T, dir string) dump {
	d, err := readDump(dir, t.TempDir())
	require.NoError(t, err)
	require.NotEmpty(t, d, dir)
	return d
}

// readDump dumps a database. RocksDB logs to the other directory.
func readDump(dir, logs string) (dump, error) {
	listed, err := rocks.List(dir)
	if err != nil {
		return nil, err
	}
	db, err := rocks.OpenReadOnly(dir, listed, logs)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	d := dump{}
	for _, name := range listed {
		d[name] = map[string]string{}
		scan := db.Scan(db.Family(name), base.Span{})
		for scan.Next() {
			d[name][hex.EncodeToString(scan.Key())] = hex.EncodeToString(scan.Value())
		}
		err := scan.Err()
		scan.Close()
		if err != nil {
			return nil, err
		}
	}
	return d, nil
}

// without leaves out a key of the offsets family.
func (d dump) without(key string) { delete(d[rocks.Offsets], hex.EncodeToString([]byte(key))) }

// logical gives the rows of the format that both families hold together: a row of the
// newer family counts, else the older one's is converted.
func (d dump) logical(t *testing.T, format string) map[string]string {
	formats, err := migration.KeyValueFormats(layouts[format])
	require.NoError(t, err)
	rows := map[string]string{}
	for _, f := range formats {
		for k, v := range d[f.Family] {
			b, err := hex.DecodeString(v)
			require.NoError(t, err)
			b, err = f.Layout.Convert(nil, layouts[format], b)
			require.NoError(t, err)
			rows[k] = hex.EncodeToString(b)
		}
	}
	return rows
}

func parseLog(t *testing.T, text []string) []logRecord {
	list := make([]logRecord, len(text))
	for i, l := range text {
		require.NoError(t, json.Unmarshal([]byte(l), &list[i]))
	}
	return list
}

// runLines runs in process.
func runLines(t *testing.T, o options, script []byte, restore io.Reader) (results, log []string) {
	var r, l bytes.Buffer
	require.NoError(t, run(o, streams{ops: bytes.NewReader(script), restore: restore, results: &r, changelog: &l}))
	return lines(r.Bytes()), lines(l.Bytes())
}

func TestGolden(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(goldenDir, "kv-*"))
	require.NoError(t, err)
	require.Len(t, dirs, 20)
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) { readGolden(t, filepath.Base(dir)).check(t) })
	}
	require.Zero(t, rocks.Live())
}

// goldenRun is a case, replayed.
type goldenRun struct {
	o       options
	script  []byte
	results []string
	log     []string
	wantLog []string // nil if Kafka Streams could not run the case
}

// replay runs the case, on what the case before it left, and compares the answers. Ready is
// called when that lies there, nil: never.
func (g golden) replay(t *testing.T, ready func(o options)) goldenRun {
	r := goldenRun{o: g.options, script: unzip(t, g.name, "ops.jsonl.gz")}
	if g.recorded("changelog.jsonl.gz") {
		r.wantLog = lines(unzip(t, g.name, "changelog.jsonl.gz"))
	}
	want := lines(unzip(t, g.name, "expected.jsonl.gz"))
	require.Len(t, want, len(lines(r.script)))
	r.o.state = t.TempDir()
	var from io.Reader
	if g.before != "" {
		first := lines(unzip(t, g.before, "changelog.jsonl.gz"))
		r.o.offset = int64(len(lines(unzip(t, g.before, "ops.jsonl.gz"))))
		if r.wantLog != nil {
			require.Equal(t, first, r.wantLog[:len(first)], "the changelog goes on")
			r.wantLog = r.wantLog[len(first):]
		}
		if g.restore {
			from = strings.NewReader(strings.Join(first, "\n") + "\n")
		} else {
			unpackState(t, g.before, r.o.app, r.o.state)
		}
	}
	if ready != nil {
		ready(r.o)
	}
	r.results, r.log = runLines(t, r.o, r.script, from)
	require.Len(t, r.results, len(want))
	for i := range want {
		if want[i] != r.results[i] { // perhaps only in the order of fields
			require.JSONEq(t, want[i], r.results[i], "line %d: %s", i, lines(r.script)[i])
		}
	}
	return r
}

// recorded tells whether Kafka Streams ran the case: it has no versioned store with headers
// and none in memory.
func (g golden) recorded(file string) bool {
	_, err := os.Stat(filepath.Join(goldenDir, g.name, file))
	return err == nil
}

func (g golden) check(t *testing.T) {
	var legacy dump
	r := g.replay(t, func(o options) {
		if g.upgrade {
			legacy = dumpStore(t, o.state, o.app)
		}
	})
	o, log := r.o, r.log
	g.checkLog(t, r.wantLog, log)
	if o.memory {
		require.NoDirExists(t, filepath.Join(o.state, o.app))
		return
	}

	kafka := t.TempDir()
	unpackState(t, g.name, o.app, kafka)
	wantDump, gotDump := dumpStore(t, kafka, o.app), dumpStore(t, o.state, o.app)
	if g.upgrade {
		g.checkMigration(t, legacy, gotDump, log)
		require.Equal(t, wantDump.logical(t, o.format), gotDump.logical(t, o.format))
		for _, d := range []dump{wantDump, gotDump} {
			for family := range d {
				if family != rocks.Offsets {
					delete(d, family) // compared above: forebay's reads move no rows
				}
			}
		}
	}
	wantDump.without("status") // forebay never writes it
	gotDump.without("status")  // Kafka's, in a directory that it wrote first
	if o.cache > 0 || o.guarantee == exactlyOnceV2 {
		wantDump.without(newFileLog(o.app, nil).topic + "-0")
		gotDump.without(newFileLog(o.app, nil).topic + "-0")
	}
	require.Equal(t, wantDump, gotDump)
}

// checkLog compares what was logged. Kafka flushed caches when it chose to, and put
// transaction markers between records.
func (g golden) checkLog(t *testing.T, want, got []string) {
	if g.options.cache == 0 && g.options.guarantee == atLeastOnce {
		require.Len(t, got, len(want))
		for i := range want {
			require.Equal(t, want[i], got[i])
		}
		return
	}
	wantRecords, gotRecords := parseLog(t, want), parseLog(t, got)
	for _, list := range [][]logRecord{wantRecords, gotRecords} {
		for i := range list {
			list[i].Offset = 0
		}
	}
	if g.options.cache == 0 {
		require.Equal(t, wantRecords, gotRecords)
		return
	}
	last := func(list []logRecord) map[string]logRecord {
		m := map[string]logRecord{}
		for _, r := range list {
			m[string(r.K)] = r
		}
		return m
	}
	wantLast, gotLast := last(wantRecords), last(gotRecords)
	for k, r := range gotLast {
		if _, ok := wantLast[k]; !ok {
			require.Nil(t, r.V, "key %x", k) // deleted before it was ever flushed
			delete(gotLast, k)
		}
	}
	for k, r := range wantLast {
		if _, ok := gotLast[k]; !ok {
			require.Nil(t, r.V, "key %x", k)
			delete(wantLast, k)
		}
	}
	require.Equal(t, wantLast, gotLast)
}

// checkMigration: a key that was written, and no other, has left the older family.
func (g golden) checkMigration(t *testing.T, before, after dump, log []string) {
	formats, err := migration.KeyValueFormats(layouts[g.options.format])
	require.NoError(t, err)
	written := map[string]bool{}
	for _, r := range parseLog(t, log) {
		written[hex.EncodeToString(r.K)] = true
	}
	moved := 0
	for _, f := range formats[:len(formats)-1] {
		want := map[string]string{}
		for k, v := range before[f.Family] {
			if written[k] {
				moved++
			} else {
				want[k] = v
			}
		}
		require.Len(t, after[f.Family], len(want), f.Family)
		for k, v := range want {
			require.Equal(t, v, after[f.Family][k])
		}
	}
	require.Positive(t, moved)
}

// TestCachedLog: when the budget holds everything, a flush logs each written key once,
// in order of the last writes.
func TestCachedLog(t *testing.T) {
	g := readGolden(t, "kv-headers-cache")
	script := unzip(t, g.name, "ops.jsonl.gz")
	m := newModel(store.WithHeaders)
	var want []string
	flush := func() {
		for _, r := range coalesce(m.writes) {
			r.Offset = int64(len(want))
			b, err := marshal(r)
			require.NoError(t, err)
			want = append(want, b)
		}
		m.writes = nil
	}
	flushes := 0
	require.NoError(t, eachLine(bytes.NewReader(script), func(n int64, text []byte) error {
		var op modelOp
		require.NoError(t, json.Unmarshal(text, &op))
		if op.Op == "commit" {
			flushes++
			flush()
		}
		m.do(op, n)
		return nil
	}))
	flush()
	require.Greater(t, flushes, 1)
	o := g.options
	o.state = t.TempDir()
	_, got := runLines(t, o, script, nil)
	require.Equal(t, want, got)
	offset, err := hex.DecodeString(dumpStore(t, o.state, o.app)[rocks.Offsets][hex.EncodeToString([]byte(o.app+"-store-changelog-0"))])
	require.NoError(t, err)
	require.Equal(t, uint64(len(want)-1), binary.BigEndian.Uint64(offset))
}

// coalesce leaves the last write of each key.
func coalesce(writes []logRecord) (out []logRecord) {
	seen := map[string]bool{}
	for _, w := range slices.Backward(writes) {
		if !seen[string(w.K)] {
			seen[string(w.K)] = true
			out = append(out, w)
		}
	}
	slices.Reverse(out)
	return out
}

func marshal(v any) (string, error) {
	var b bytes.Buffer
	err := encoder(&b).Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}
