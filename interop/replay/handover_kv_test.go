package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

var kvScenarios = []scenario{
	{name: "plain", parts: "Kp Fp Kp Fp Kp Fp Kp"},
	{name: "timestamped", parts: "Ft Kt Ft Kt Ft Kt Ft"},
	{name: "headers", parts: "Kh Fh Kh Fh Kh Fh Kh"},
	{name: "restored", parts: "Kh Fhw Kh Khw Fh Fhw Kh"},
	{name: "restored from plain", parts: "Kp Fhw Kh Khw Fh"},
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

// kvHandover is the subject of the key-value family.
type kvHandover struct {
	*handover
	model   *model
	onDisk  dump   // after the last part; nil after a kill
	id      string // of the database
	planted bool
}

func (h *kvHandover) databases() []string { return []string{h.db()} }
func (h *kvHandover) finish()             {}

func (h *kvHandover) wiped(log []logRecord) {
	h.id, h.onDisk = "", nil
	h.model.rows, h.model.legacy, h.model.position = map[string]modelRow{}, map[string]bool{}, -1
	h.apply(log, func(logRecord) bool { return true })
}

func (h *kvHandover) do(op scriptOp, offset int64) any { return h.model.do(op.(modelOp), offset) }

func (h *kvHandover) begin(p part) {
	if h.model == nil {
		h.model = newModel(layouts[p.format])
	} else if layouts[p.format] != h.model.layout {
		h.model.upgrade(layouts[p.format])
	}
	h.model.writes = nil
}

func (h *kvHandover) script(p part, _ []scriptOp) (ops []scriptOp) {
	for range p.count {
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
	return ops
}

// avoid changes operations that Kafka Streams 4.4 gets wrong.
func (h *kvHandover) avoid(p part, op *modelOp) {
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

func (h *kvHandover) check(p part, got []logRecord, end int64) {
	h.sameLog(p, h.model.writes, got)
	h.checkTree(p, treeNames)
	d := dumpStore(h.T, h.state, h.app)
	h.checkOffset(p, d, got, end)
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

func (h *kvHandover) sameLog(p part, want, got []logRecord) {
	if h.cache > 0 {
		// Each flushes when it likes. A key deleted before it was flushed may have no record.
		rows := func(list []logRecord) map[string]string {
			m := map[string]string{}
			for _, r := range list {
				if delete(m, string(r.K)); r.V != nil {
					r.Offset = 0
					m[string(r.K)], _ = marshal(r)
				}
			}
			return m
		}
		require.Equal(h, rows(want), rows(got), "%s: changelog", p.text)
		return
	}
	h.exactLog(p, want, got)
}

// checkRows compares what both families hold together with a model.
func (h *kvHandover) checkRows(p part, m *model, d dump) {
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
func (h *kvHandover) legacy(p part, d dump) map[string]bool {
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
func (h *kvHandover) checkLegacy(p part, d dump) {
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

func (h *kvHandover) checkPosition(p part, d dump) {
	at := h.position(d)
	if p.kafka && at > h.model.position && h.onDisk != nil && len(h.model.legacy) > 0 {
		require.Less(h, at, h.next, p.text)
		h.model.position = at // by a read that moved a row
	}
	require.Equal(h, h.model.position, at, "%s: position", p.text)
}

// checkFamilies: an older family that has run empty is dropped at the next open, and none
// with rows is.
func (h *kvHandover) checkFamilies(p part, d dump) {
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

// plant puts old rows beside those that replaced them.
func (h *kvHandover) plant() {
	h.plantRows()
	h.onDisk = dumpStore(h.T, h.state, h.app) // the older family may have been empty
}

func (h *kvHandover) plantRows() {
	old := rocks.Default
	if _, ok := h.onDisk[migration.TimestampedFamily]; ok && h.model.layout == store.WithHeaders {
		old = migration.TimestampedFamily
	}
	listed, err := rocks.List(h.db())
	require.NoError(h, err)
	db, err := rocks.Open(h.db(), listed, listed, nil)
	require.NoError(h, err)
	defer db.Close()
	batch := db.NewBatch(0)
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
func (h *kvHandover) downgrade(format string) {
	_, err := migration.Downgrade(h.db(), layouts[format], migration.DiscardHeaders(), migration.DiscardTimestamps())
	require.NoError(h, err)
	p := part{text: "downgrade to " + format, format: format}
	h.onDisk = dumpStore(h.T, h.state, h.app)
	h.model.layout = layouts[format]
	h.checkTree(p, treeNames)
	h.checkRows(p, h.model, h.onDisk)
	h.model.legacy = h.legacy(p, h.onDisk)
	require.NotContains(h, h.onDisk, migration.HeadersFamily)
}

// killed: every row up to the last record logged.
func (h *kvHandover) killed(p part, ops []scriptOp, answers []json.RawMessage, committed int) {
	start := h.model.clone()
	h.compare(p, ops, answers)
	for i := len(answers); i < len(ops); i++ {
		h.do(ops[i], h.next+int64(i)) // some of it may have been done
	}
	got, end := h.cluster.log(h.topic(), h.logged)
	require.NotEmpty(h, got, p.text)
	require.Less(h, len(got), len(h.model.writes), "%s: killed too late", p.text)
	h.sameLog(p, h.model.writes[:len(got)], got)

	d := dumpStore(h.T, h.state, h.app)
	status, offset := d.long(h.T, "status"), d.long(h.T, h.topic()+"-0")
	h.Logf("%s: killed after %d of %d answers, %d records logged up to offset %d, input committed up to %d; on disk: offset %d, status %d",
		p.text, len(answers), len(ops), len(got), end-1, h.next+int64(committed), offset, status)
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
		for i, op := range ops[:committed] {
			m.do(op.(modelOp), h.next+int64(i))
		}
		h.sameLog(p, m.writes, got) // whole transactions
	}
	h.apply(got, func(logRecord) bool { return true })
	h.onDisk = nil
	if p.kafka && p.small && !h.transactional && h.ahead(p, start.rows, got, d) {
		// Nobody can tell such rows from others; they go when their operations come again. No
		// model has them, so the scenario goes on without the directory.
		h.Logf("%s: rows reached the disk that were not logged", p.text)
		require.NoError(h, os.RemoveAll(h.task()))
		log, _ := h.cluster.log(h.topic(), 0)
		h.wiped(log)
	}
}

// ahead tells whether the directory has rows, or lacks some, that no record accounts for.
func (h *kvHandover) ahead(p part, before map[string]modelRow, log []logRecord, d dump) bool {
	known := map[string]map[string]bool{}
	add := func(key string, r modelRow) {
		headers, err := r.h.headers()
		require.NoError(h, err)
		b, err := layouts[p.format].Encode(store.Row{Value: r.v, Timestamp: r.ts, Headers: headers})
		require.NoError(h, err)
		k := hex.EncodeToString([]byte(key))
		if known[k] == nil {
			known[k] = map[string]bool{}
		}
		known[k][hex.EncodeToString(b)] = true
	}
	deleted := map[string]bool{}
	for k, r := range before {
		add(k, r)
	}
	for _, r := range log {
		if r.V == nil {
			deleted[string(r.K)] = true
			continue
		}
		add(string(r.K), modelRow{r.V, r.TS, r.H})
	}
	rows := d.logical(h.T, p.format)
	for k, v := range rows {
		if !known[k][v] {
			return true
		}
	}
	for k := range before {
		if _, ok := rows[hex.EncodeToString([]byte(k))]; !ok && !deleted[k] {
			return true
		}
	}
	return false
}

// apply restores records of the changelog into the model.
func (h *kvHandover) apply(list []logRecord, want func(logRecord) bool) {
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
