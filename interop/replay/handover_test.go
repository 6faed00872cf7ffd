package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/changelog"
	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

// scenario is a state directory and a changelog topic that Kafka Streams and forebay hand
// to each other.
type scenario struct {
	name string
	// parts run one after the other. A part is K for Kafka Streams or F for forebay, the
	// format p(lain), t(imestamped) or h(eaders), and perhaps:
	//
	//	*  every row of an older format is written again
	//	-  few operations, which leave most rows of an older format where they are
	//	0  no operation at all
	//	s  afterwards forebay drains some rows of an older format
	//	d  afterwards forebay drains all of them
	//	~  memtables so small that they reach the disk in the middle of the part
	//	!  killed in the middle
	//
	// Other parts: "Dx" downgrades the closed directory to the format x, "stale" plants rows
	// in the older family beside newer ones, "Fx no" tries whether forebay refuses to open
	// the directory in the format x, and leaves it as it was.
	parts         string
	guarantee     string
	transactional bool // Kafka's stores
	cache         int64
}

var scenarios = []scenario{
	{name: "plain", parts: "Kp Fp Kp Fp Kp Fp Kp"},
	{name: "timestamped", parts: "Ft Kt Ft Kt Ft Kt Ft"},
	{name: "headers", parts: "Kh Fh Kh Fh Kh Fh Kh"},
	{name: "cached", parts: "Fh Kh Fh Kh Fh Kh Fh", cache: 1 << 20},
	{name: "exactly once", parts: "Fh0 Kh Fh Kh Fh~ Kh Fh Kh", guarantee: exactlyOnceV2},
	{name: "transactional", parts: "Kh Fh Kh Fh Kh Fh Kh", guarantee: exactlyOnceV2, transactional: true},

	{name: "plain to headers by forebay", parts: "Kp Fh- Kh- Fh Kh- Fh Kh"},
	{name: "plain to headers by Kafka", parts: "Fp Kh- Fh- Kh Fh- Kh Fh"},
	{name: "timestamped to headers by forebay", parts: "Kt Fh- Kh Fh- Kh Fh Kh"},
	{name: "timestamped to headers by Kafka", parts: "Kt Ft Kh- Fh- Kh- Fh Kh Fh"},
	{name: "plain to timestamped", parts: "Kp Ft- Fh no Kt- Ft- stale Kt- Ft Kt Fp no"},
	{name: "stale rows", parts: "Ft Kh- stale Fh- stale Kh- Fh- stale Kh Fh"},
	{name: "dropped by forebay", parts: "Kt Fh- Kh* Fh Kh Fh Kh Fp no Ft no"},
	{name: "dropped by Kafka", parts: "Kt Kh- Fh* Kh Fh Kh Fh Kh Ft no"},
	{name: "plain to timestamped to headers", parts: "Fp Kt* Fh- Kh* Fh Kh Fh"},
	{name: "drained", parts: "Kp Fh-s Kh- Fhd Kh Fh Kh"},
	{name: "drained, timestamped", parts: "Kt Fh-s Kh- Fh-d Kh Fh Kh"},
	{name: "drained step by step", parts: "Kp Kt- Fh no Ft-d Fh- Kh- Fh-d Kh Fh Kh"},
	{name: "downgraded", parts: "Fh Dt Kt Fh- Dt Kt- Fh- Kh- Dp Kp Fp Kp Fh"},

	{name: "forebay killed", parts: "Kh Fh! Kh Fh~! Kh Fh~! Fh Kh"},
	{name: "forebay killed while migrating", parts: "Kt Fh-! Kh- Fh~! Kh Fh~! Kh"},
	{name: "forebay killed under exactly once", parts: "Kh Fh~! Kh Fh! Kh Fh~! Kh", guarantee: exactlyOnceV2},
	{name: "Kafka killed", parts: "Fh Kh~! Fh Kh! Fh Kh Fh"},
	{name: "Kafka killed while migrating", parts: "Fp Kh-~! Fh- Kh~! Fh Kh Fh"},
	{name: "Kafka killed under exactly once", parts: "Fh Kh~! Fh Kh! Fh Kh Fh", guarantee: exactlyOnceV2},
	{name: "Kafka killed, transactional", parts: "Fh Kh~! Fh~! Kh Fh Kh Fh", guarantee: exactlyOnceV2, transactional: true},
}

// TestHandover hands state directories to and fro between forebay and real Kafka Streams.
// FOREBAY_SEED repeats a run, FOREBAY_HANDOVERS makes so many runs of each scenario, each
// with a seed of its own.
func TestHandover(t *testing.T) {
	address, classpath := needKafka(t)
	seed := envInt(t, "FOREBAY_SEED", time.Now().UnixNano())
	t.Logf("FOREBAY_SEED=%d", seed)
	// Not long ago: a transaction marker has the broker's time, and much older records before
	// it would be compacted at once.
	now := time.Now().Add(-24 * time.Hour).UnixMilli()
	shared := startDriver(t, address, classpath)
	for n := range envInt(t, "FOREBAY_HANDOVERS", 1) {
		for i, s := range scenarios {
			t.Run(fmt.Sprintf("%s/%d", s.name, n), func(t *testing.T) {
				t.Parallel()
				h := &handover{
					T: t, scenario: s, cluster: newCluster(t, address), shared: shared, classpath: classpath,
					gen:   &generator{rand.New(rand.NewPCG(uint64(seed+n), uint64(i))), now},
					app:   fmt.Sprintf("handover-%d-%d-%d", time.Now().UnixNano(), n, i),
					state: t.TempDir(),
				}
				if h.guarantee == "" {
					h.guarantee = atLeastOnce
				}
				h.run()
			})
		}
	}
}

var formatLetters = map[byte]string{'p': "plain", 't': "timestamped", 'h': "headers"}

// part of a scenario.
type part struct {
	text                            string
	kafka                           bool
	format                          string
	rewrite, few, none, small, kill bool
	drain                           int // slices, -1: all
}

func parsePart(t *testing.T, text string) part {
	p := part{text: text, kafka: text[0] == 'K', format: formatLetters[text[1]]}
	require.NotEmpty(t, p.format, text)
	for _, flag := range text[2:] {
		switch flag {
		case '*':
			p.rewrite = true
		case '-':
			p.few = true
		case '0':
			p.none = true
		case 's':
			p.drain = 1
		case 'd':
			p.drain = -1
		case '~':
			p.small = true
		case '!':
			p.kill = true
		default:
			require.Fail(t, text)
		}
	}
	return p
}

// handover is a scenario under way. Another kind of store needs a model and operations of
// its own, an opener in liveRun and in the driver; parts, kills, changelog and offsets are
// the same for all.
type handover struct {
	*testing.T
	scenario
	cluster   *cluster
	shared    *driver
	classpath string
	gen       *generator
	app       string
	state     string

	model   *model
	next    int64     // input offset that is due
	pending []modelOp // operations in the input from next on, left by a part that was killed
	logged  int64     // changelog offset up to which records were compared
	onDisk  dump      // after the last part; nil after a kill
	id      string    // of the database
	planted bool
}

func (h *handover) run() {
	h.cluster.makeInput(h.app)
	words := strings.Fields(h.parts)
	for i := 0; i < len(words); i++ {
		switch {
		case words[i] == "stale":
			h.plant()
		case words[i][0] == 'D':
			h.downgrade(formatLetters[words[i][1]])
		case i+1 < len(words) && words[i+1] == "no":
			h.refuse(formatLetters[words[i][1]])
			i++
		default:
			p := parsePart(h.T, words[i])
			p.text = fmt.Sprintf("part %d, %s", i, words[i])
			h.part(p)
		}
	}
}

func (h *handover) topic() string { return changelog.Name(h.app, storeName) }
func (h *handover) task() string  { return filepath.Join(h.state, h.app, taskName) }
func (h *handover) db() string    { return filepath.Join(h.task(), "rocksdb", storeName) }

func (h *handover) part(p part) {
	if h.model == nil {
		h.model = newModel(layouts[p.format])
	} else if layouts[p.format] != h.model.layout {
		h.model.upgrade(layouts[p.format])
	}
	ops := h.operations(p)
	switch {
	case p.kafka && p.kill:
		h.killKafka(p, ops)
	case p.kafka:
		h.finish(p, ops, h.kafka(p, ops))
	case p.kill:
		h.killForebay(p, ops)
	default:
		h.finish(p, ops, h.forebay(p, ops))
	}
}

// operations makes the input of a part.
func (h *handover) operations(p part) []modelOp {
	n := 120
	switch {
	case p.none:
		n = 0
	case p.kill && p.small:
		n = 3000 // enough to fill memtables several times
	case p.kill:
		n = 1500 // enough to be killed in time
	case p.few:
		n = 15
	}
	ops := slices.Clone(h.pending)
	for range n {
		op := h.gen.op()
		if h.gen.chance(0.03) {
			op = modelOp{line: line{Op: "commit", RTS: op.RTS, RH: op.RH}}
		}
		if p.small && op.V != nil {
			op.V = h.gen.bytes(300)
		}
		if p.kafka || p.kill { // what a kill leaves undone is for the other side
			h.avoid(p, &op)
		}
		ops = append(ops, op)
	}
	if p.rewrite {
		for _, k := range slices.Sorted(maps.Keys(h.model.legacy)) {
			op := h.gen.op()
			op.Op, op.kvRow = "put", h.gen.row(0)
			op.K = hexBytes(k)
			ops = append(ops, op)
		}
	}
	h.cluster.produce(h.app, ops[len(h.pending):], h.next+int64(len(h.pending)))
	h.pending = nil
	return ops
}

// avoid changes operations that Kafka Streams 4.4 gets wrong.
func (h *handover) avoid(p part, op *modelOp) {
	if h.cache > 0 {
		// A reverse scan over a cached tombstone fails, and so does a prefix without an upper end.
		switch {
		case op.Op == "reverseAll":
			op.Op = "all"
		case op.Op == "reverseRange":
			op.Op = "range"
		case op.Op == "prefix" && (len(op.P) == 0 || op.P[0] == 0xff):
			op.P = hexBytes("b")
		}
	}
	if h.transactional && (op.From == nil || op.To == nil) {
		op.From, op.To = nil, nil // scans with one open end are not bounded
	}
	if p.kill && len(h.model.legacy) > 0 && (op.Op == "get" || op.Op == "putIfAbsent") {
		// These move a row by two writes: a memtable that is full between them, and a kill, lose it.
		op.Op = "put"
	}
}

// compare holds answers against those of a model, which it advances.
func (h *handover) compare(p part, m *model, ops []modelOp, answers []json.RawMessage) {
	require.LessOrEqual(h, len(answers), len(ops), p.text)
	for i, got := range answers {
		want, err := marshal(m.do(ops[i], h.next+int64(i)))
		require.NoError(h, err)
		if want != string(got) {
			text, err := marshal(ops[i])
			require.NoError(h, err)
			require.Equal(h, want, string(got), "%s, operation %d of %d: %s", p.text, i, len(ops), text)
		}
	}
}

// forebay runs operations in this process.
func (h *handover) forebay(p part, ops []modelOp) []json.RawMessage {
	r := h.live(p)
	var out bytes.Buffer
	status := h.status()
	err := r.run(h.cluster.soon(), h.input(ops), &out)
	if status == 1 && h.guarantee == exactlyOnceV2 {
		// Kafka may have left uncommitted rows.
		require.ErrorIs(h, err, store.ErrTaskCorrupted, p.text)
		require.NoError(h, os.RemoveAll(h.db()))
		h.id = ""
		out.Reset()
		err = r.run(h.cluster.soon(), h.input(ops), &out)
		status = -1
	}
	require.NoError(h, err, p.text)
	require.Equal(h, status, h.status(), "%s: forebay never writes it", p.text)
	var answers []json.RawMessage
	for _, l := range lines(out.Bytes()) {
		answers = append(answers, h.answer(l))
	}
	return answers
}

func (h *handover) live(p part) liveRun {
	r := liveRun{
		Format: p.format, State: h.state, App: h.app, Guarantee: h.guarantee, Cache: h.cache,
		Offset: h.next, Address: h.cluster.address, Hang: p.kill, Drain: p.drain,
	}
	if p.small {
		r.Buffer = 64 << 10 // less than one allocation: every commit reaches the disk
	}
	return r
}

func (h *handover) input(ops []modelOp) io.Reader {
	var b bytes.Buffer
	for _, op := range ops {
		require.NoError(h, encoder(&b).Encode(op))
	}
	return &b
}

func (h *handover) answer(text string) json.RawMessage {
	var l struct {
		R json.RawMessage `json:"r"`
	}
	require.NoError(h, json.Unmarshal([]byte(text), &l), text)
	return l.R
}

// status is what Kafka stored of how it ended, -1 for nothing.
func (h *handover) status() int64 {
	listed, err := rocks.List(h.db())
	require.NoError(h, err)
	if !slices.Contains(listed, rocks.Offsets) {
		return -1
	}
	return dumpStore(h.T, h.state, h.app).long(h.T, "status")
}

// long reads a number of the offsets family, -1 for none.
func (d dump) long(t *testing.T, key string) int64 {
	text, ok := d[rocks.Offsets][hex.EncodeToString([]byte(key))]
	if !ok {
		return -1
	}
	b, err := hex.DecodeString(text)
	require.NoError(t, err)
	require.Len(t, b, 8)
	return int64(binary.BigEndian.Uint64(b))
}

func (h *handover) kafkaRun(p part, count int) kafkaRun {
	r := kafkaRun{
		App: h.app, State: h.state, Store: "kv", Format: p.format, Guarantee: h.guarantee,
		Cache: h.cache, Transactional: h.transactional, Count: count,
	}
	if p.small {
		r.Buffer = 64 << 10 // RocksDB takes no less
	}
	return r
}

func (h *handover) kafka(p part, ops []modelOp) (answers []json.RawMessage) {
	require.NotEmpty(h, ops, "Kafka Streams ends after an operation")
	run := h.shared.start(h.T, h.kafkaRun(p, len(ops)), len(ops))
	for {
		select {
		case l, ok := <-run:
			require.True(h, ok, "%s: the JVM ended", p.text)
			require.Empty(h, l.Failed, p.text)
			if l.Closed {
				require.Len(h, answers, len(ops), p.text)
				return answers
			}
			answers = append(answers, l.R)
		case <-time.After(2 * time.Minute):
			require.Fail(h, "no answer of Kafka Streams", "%s: %d of %d", p.text, len(answers), len(ops))
		}
	}
}

// finish compares everything after a part that ended well.
func (h *handover) finish(p part, ops []modelOp, answers []json.RawMessage) {
	require.Len(h, answers, len(ops), p.text)
	h.model.writes = nil
	h.compare(p, h.model, ops, answers)
	h.next += int64(len(ops))
	require.Equal(h, h.next, h.cluster.committed(h.app), "%s: committed input", p.text)

	want := h.model.writes
	got, end := h.cluster.log(h.topic(), h.logged)
	last := h.logged - 1
	if len(got) > 0 {
		last = got[len(got)-1].Offset
	}
	h.sameLog(p, want, got)
	h.checkTree(p)
	d := dumpStore(h.T, h.state, h.app)
	if offset := d.long(h.T, h.topic()+"-0"); end > 0 {
		require.GreaterOrEqual(h, offset, last, "%s: changelog offset", p.text)
		require.Less(h, offset, end, "%s: changelog offset", p.text)
	} else {
		require.Equal(h, store.UnknownOffset, offset, p.text)
	}
	h.logged = end
	if p.kafka && !h.transactional {
		require.Zero(h, d.long(h.T, "status"), p.text)
	}
	h.checkRows(p, h.model, d)
	h.checkLegacy(p, d)
	h.checkPosition(p, d)
	h.checkFamilies(p, d)
	id, err := os.ReadFile(filepath.Join(h.db(), "IDENTITY"))
	require.NoError(h, err)
	if h.id != "" {
		require.Equal(h, h.id, string(id), "%s: the directory was made anew", p.text)
	}
	h.onDisk, h.id = d, string(id)
}

func (h *handover) sameLog(p part, want, got []logRecord) {
	for i := range got {
		got[i].Offset = 0
	}
	if h.cache > 0 {
		// Each flushes when it likes. A key deleted before it was flushed may have no record.
		rows := func(list []logRecord) map[string]string {
			m := map[string]string{}
			for _, r := range list {
				if delete(m, string(r.K)); r.V != nil {
					m[string(r.K)], _ = marshal(r)
				}
			}
			return m
		}
		require.Equal(h, rows(want), rows(got), "%s: changelog", p.text)
		return
	}
	require.Equal(h, len(want), len(got), "%s: changelog records from offset %d on", p.text, h.logged)
	for i := range want {
		require.Equal(h, want[i], got[i], "%s: changelog record %d", p.text, i)
	}
}

// checkRows compares what both families hold together with a model.
func (h *handover) checkRows(p part, m *model, d dump) {
	layout := layouts[p.format]
	want := map[string]string{}
	for k, r := range m.rows {
		headers, err := r.h.headers()
		require.NoError(h, err)
		b, err := layout.Encode(store.Row{Value: r.v, Timestamp: r.ts, Headers: headers})
		require.NoError(h, err)
		want[hex.EncodeToString([]byte(k))] = hex.EncodeToString(b)
	}
	require.Equal(h, want, d.logical(h.T, p.format), "%s: rows", p.text)
}

// legacy is the set of keys that are in an older family.
func (h *handover) legacy(p part, d dump) map[string]bool {
	formats, err := migration.KeyValueFormats(layouts[p.format])
	require.NoError(h, err)
	legacy := map[string]bool{}
	for _, f := range formats[:len(formats)-1] {
		for k := range d[f.Family] {
			b, err := hex.DecodeString(k)
			require.NoError(h, err)
			legacy[string(b)] = true
		}
	}
	return legacy
}

// checkLegacy compares which keys are still in an older family.
func (h *handover) checkLegacy(p part, d dump) {
	legacy := h.legacy(p, d)
	switch {
	case h.planted && p.drain >= 0:
	case p.kafka, p.drain != 0: // Kafka's reads move rows
		if p.drain < 0 {
			require.Empty(h, legacy, p.text)
		}
		for k := range legacy {
			require.True(h, h.model.legacy[k], "%s: %q in the older family", p.text, k)
		}
		h.model.legacy = legacy
	default:
		require.Equal(h, h.model.legacy, legacy, "%s: keys in the older family", p.text)
	}
}

func (h *handover) checkPosition(p part, d dump) {
	b, err := hex.DecodeString(d[rocks.Offsets][hex.EncodeToString([]byte("position"))])
	require.NoError(h, err)
	position, err := store.DecodePosition(b)
	require.NoError(h, err)
	at, ok := position.Offset(h.app+"-in", 0)
	if !ok {
		at = -1
	}
	if p.kafka && at > h.model.position && h.onDisk != nil && len(h.model.legacy) > 0 {
		require.Less(h, at, h.next, p.text)
		h.model.position = at // by a read that moved a row
	}
	require.Equal(h, h.model.position, at, "%s: position", p.text)
}

// checkFamilies: an older family that has run empty is dropped at the next open, and none
// with rows is.
func (h *handover) checkFamilies(p part, d dump) {
	known := []string{rocks.Default, migration.TimestampedFamily, migration.HeadersFamily, rocks.Offsets}
	for name := range d {
		require.Contains(h, known, name, p.text)
	}
	if before, ok := h.onDisk[migration.TimestampedFamily]; ok && p.format == "headers" {
		_, ok = d[migration.TimestampedFamily]
		require.Equal(h, len(before) > 0 && p.drain >= 0, ok, "%s: family %s", p.text, migration.TimestampedFamily)
		if !ok {
			h.Logf("%s: family dropped", p.text)
		}
	}
}

var treeNames = regexp.MustCompile(`^(\.|\.lock|kafka-streams-process-metadata|0_0|0_0/rocksdb|0_0/rocksdb/store` +
	`|0_0/rocksdb/store/(CURRENT|IDENTITY|LOCK|LOG(\.old\.\d+)?|MANIFEST-\d+|OPTIONS-\d+|\d+\.(sst|log)))$`)

// checkTree: a file that Kafka does not know makes it think of a crash.
func (h *handover) checkTree(p part) {
	root := filepath.Join(h.state, h.app)
	require.NoError(h, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		require.NoError(h, err)
		name, err := filepath.Rel(root, path)
		require.NoError(h, err)
		require.Regexp(h, treeNames, filepath.ToSlash(name), p.text)
		return nil
	}))
}

// plant puts old rows beside those that replaced them.
func (h *handover) plant() {
	old := rocks.Default
	if _, ok := h.onDisk[migration.TimestampedFamily]; ok && h.model.layout == store.WithHeaders {
		old = migration.TimestampedFamily
	}
	listed, err := rocks.List(h.db())
	require.NoError(h, err)
	db, err := rocks.Open(h.db(), listed, listed, nil)
	require.NoError(h, err)
	defer db.Close()
	batch := db.NewBatch()
	defer batch.Close()
	n := 0
	for _, k := range slices.Sorted(maps.Keys(h.model.rows)) {
		if !h.model.legacy[k] && (n == 0 || h.gen.chance(0.7)) {
			batch.Put(db.Family(old), []byte(k), bytes.Repeat([]byte{0x01}, 12)) // a row of either format
			n++
		}
	}
	require.Positive(h, n)
	require.NoError(h, batch.Write())
	require.NoError(h, db.Flush())
	h.planted = true
}

// downgrade turns the directory back into that of an older store.
func (h *handover) downgrade(format string) {
	_, err := migration.Downgrade(h.db(), layouts[format], migration.DiscardHeaders(), migration.DiscardTimestamps())
	require.NoError(h, err)
	p := part{text: "downgrade to " + format, format: format}
	h.onDisk = dumpStore(h.T, h.state, h.app)
	h.model.layout = layouts[format]
	h.checkTree(p)
	h.checkRows(p, h.model, h.onDisk)
	h.model.legacy = h.legacy(p, h.onDisk)
	require.NotContains(h, h.onDisk, migration.HeadersFamily)
}

// refuse opens the directory in a format that it cannot have.
func (h *handover) refuse(format string) {
	before := h.files()
	r := liveRun{Format: format, State: h.state, App: h.app, Guarantee: h.guarantee, Address: h.cluster.address}
	require.ErrorIs(h, r.run(h.cluster.soon(), strings.NewReader(""), &bytes.Buffer{}), store.ErrIncompatible)
	require.Equal(h, before, h.files())
}

func (h *handover) files() map[string]string {
	files := map[string]string{}
	require.NoError(h, filepath.WalkDir(h.task(), func(path string, e fs.DirEntry, err error) error {
		require.NoError(h, err)
		if !e.IsDir() {
			b, err := os.ReadFile(path)
			require.NoError(h, err)
			files[path] = string(b)
		}
		return nil
	}))
	return files
}

// killForebay kills a process in the middle of its operations.
func (h *handover) killForebay(p part, ops []modelOp) {
	var log bytes.Buffer
	cmd, err := h.live(p).child(h.input(ops), &log)
	require.NoError(h, err)
	out, err := cmd.StdoutPipe()
	require.NoError(h, err)
	require.NoError(h, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	in, enough := bufio.NewReader(out), h.enough(ops)
	var answers []json.RawMessage
	for len(answers) < enough {
		text, err := in.ReadString('\n')
		if err != nil {
			_ = cmd.Wait()
			require.NoError(h, err, "%s: %s%s", p.text, text, log.String())
		}
		answers = append(answers, h.answer(text))
	}
	require.NoError(h, cmd.Process.Kill())
	_ = cmd.Wait()
	h.killed(p, ops, answers)
}

// enough is the number of answers to wait for before the kill.
func (h *handover) enough(ops []modelOp) int { return len(ops)/2 + h.gen.IntN(len(ops)/4) }

func (h *handover) killKafka(p part, ops []modelOp) {
	d := startDriver(h.T, h.cluster.address, h.classpath)
	run := d.start(h.T, h.kafkaRun(p, -1), len(ops))
	enough := h.enough(ops)
	var answers []json.RawMessage
	for len(answers) < enough {
		select {
		case l, ok := <-run:
			require.True(h, ok, "%s: the JVM ended", p.text)
			require.Empty(h, l.Failed, p.text)
			answers = append(answers, l.R)
		case <-time.After(2 * time.Minute):
			require.Fail(h, "no answer of Kafka Streams", "%s: %d of %d", p.text, len(answers), enough)
		}
	}
	require.NoError(h, d.cmd.Process.Kill())
	for l := range run { // what it still said
		require.Empty(h, l.Failed, p.text)
		answers = append(answers, l.R)
	}
	h.killed(p, ops, answers)
}

// killed brings the model to what a directory and its changelog hold together after a
// kill: every row up to the last record logged. The input goes on where it was committed.
func (h *handover) killed(p part, ops []modelOp, answers []json.RawMessage) {
	h.cluster.bury(h.app)
	committed := h.cluster.committed(h.app)
	require.GreaterOrEqual(h, committed, h.next, p.text)
	require.Less(h, committed, h.next+int64(len(ops)), p.text)
	h.pending = ops[committed-h.next:]

	start := h.model.clone()
	h.model.writes = nil
	h.compare(p, h.model, ops, answers)
	for i := len(answers); i < len(ops); i++ {
		h.model.do(ops[i], h.next+int64(i)) // some of it may have been done
	}
	got, end := h.cluster.log(h.topic(), h.logged)
	require.NotEmpty(h, got, p.text)
	require.Less(h, len(got), len(h.model.writes), "%s: killed too late", p.text)
	h.sameLog(p, h.model.writes[:len(got)], slices.Clone(got))

	d := dumpStore(h.T, h.state, h.app)
	status, offset := d.long(h.T, "status"), d.long(h.T, h.topic()+"-0")
	h.Logf("%s: killed after %d of %d answers, %d records logged up to offset %d, input committed up to %d; on disk: offset %d, status %d",
		p.text, len(answers), len(ops), len(got), end-1, committed, offset, status)
	h.model.modelState = start.clone()
	if !p.kafka || h.transactional {
		// The directory holds what some commit left.
		h.apply(got, func(r logRecord) bool { return r.Offset <= offset })
		h.checkRows(p, h.model, d)
		h.model.modelState = start.clone()
	} else if p.small {
		require.EqualValues(h, 1, status, "%s: memtables did not reach the disk", p.text)
	}
	direct := p.kafka && h.guarantee == exactlyOnceV2 && !h.transactional // stores offsets at a clean end only
	if p.small && !direct {
		require.GreaterOrEqual(h, offset, h.logged, "%s: no commit reached the disk", p.text)
	}
	if p.kafka && h.guarantee == exactlyOnceV2 {
		m := newModel(h.model.layout)
		m.modelState = start.clone()
		for i, op := range ops[:committed-h.next] {
			m.do(op, h.next+int64(i))
		}
		h.sameLog(p, m.writes, slices.Clone(got)) // whole transactions
	}
	h.apply(got, func(logRecord) bool { return true })
	h.next, h.logged, h.onDisk = committed, end, nil
}

// apply restores records of the changelog into the model.
func (h *handover) apply(list []logRecord, want func(logRecord) bool) {
	for _, r := range list {
		if !want(r) {
			continue
		}
		delete(h.model.legacy, string(r.K))
		delete(h.model.rows, string(r.K))
		if r.V != nil {
			h.model.rows[string(r.K)] = modelRow{r.V, r.TS, r.H}
		}
	}
}
