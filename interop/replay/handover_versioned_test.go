package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/internal/versions"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

var versionedScenarios = []scenario{
	{name: "versioned, plain", store: "versioned", parts: "Kp Fp Kp Fp Kp Fp Kp"},
	{name: "versioned, plain, begun by forebay", store: "versioned", parts: "Fp Kp Fp Kp Fp Kp Fp"},
	{name: "versioned, restored", store: "versioned", parts: "Kp Fpw Kp Fhw Dp Kp Fpw"},
	{name: "versioned, downgraded", store: "versioned", parts: "Fh Dp Kp Fh- Fp no Dp Kp Fp Fh Dp Kp Fp"},
	{name: "versioned, upgraded, drained, downgraded", store: "versioned", parts: "Kp Fh-s Fh Fh-d Fh Dp Kp Fp Kp"},

	// Nothing expires in these. What a killed forebay leaves undone lies in the past of what
	// it has done, and Kafka does not know its past after a restart: forebay goes on first.
	{name: "versioned, forebay killed", store: "versioned", parts: "Kp Fp! Fp Kp Fp~! Fp Kp Fp~! Fp Kp", retention: 36_000_000},
	{name: "versioned, Kafka killed", store: "versioned", parts: "Fp Kp! Fp Kp! Fp Kp Fp", retention: 36_000_000},
}

type version struct {
	v hexBytes
	h headerList
}

// versionedModel is a versioned store that forgets nothing, as sorted maps.
type versionedModel struct {
	retention int64
	headers   bool
	kafka     bool // answers as Kafka does
	keys      map[string]map[int64]version
	stream    int64
	position  int64
	writes    []logRecord
}

func (m *versionedModel) clone() *versionedModel {
	c := *m
	c.keys = map[string]map[int64]version{}
	for k, list := range m.keys {
		c.keys[k] = maps.Clone(list)
	}
	return &c
}

// put returns when the version ended, as Kafka answers it.
func (m *versionedModel) put(k hexBytes, v version, ts int64) int64 {
	if ts < m.stream-m.retention {
		return math.MinInt64
	}
	m.stream = max(m.stream, ts)
	list := m.keys[string(k)]
	if list == nil {
		list = map[int64]version{}
		m.keys[string(k)] = list
	}
	list[ts] = v
	next := int64(-1)
	for at := range list {
		if at > ts && (next < 0 || at < next) {
			next = at
		}
	}
	return next
}

// at gives the version at a place in a key's times.
func (m *versionedModel) at(k hexBytes, times []int64, i int) *answerVersion {
	found := m.keys[string(k)][times[i]]
	if found.v == nil {
		return nil
	}
	a := &answerVersion{V: found.v, TS: times[i]}
	if i+1 < len(times) {
		a.To = &times[i+1]
	}
	if m.headers {
		h := found.h
		if h == nil {
			h = headerList{}
		}
		a.H = &h
	}
	return a
}

func (m *versionedModel) times(k hexBytes) []int64 {
	return slices.Sorted(maps.Keys(m.keys[string(k)]))
}

// asOf answers with the version of a time; null for none.
func (m *versionedModel) asOf(k hexBytes, at int64) any {
	times := m.times(k)
	i, found := slices.BinarySearch(times, at)
	if !found {
		i--
	}
	if i < 0 {
		return nil
	}
	a := m.at(k, times, i)
	if a == nil || i+1 < len(times) && at < m.stream-m.retention {
		return nil
	}
	if m.kafka {
		a.To = nil // lost by the adapter between Kafka's store and its caller
	}
	return a
}

// versionedHandover is the subject of the versioned family.
type versionedHandover struct {
	*handover
	model  *versionedModel
	disk   *physical // rows worked out one by one
	format string
	last   dump // after the last part; nil after a kill
}

func newVersionedHandover(h *handover) *versionedHandover {
	if h.retention == 0 {
		h.retention = longest
	}
	return &versionedHandover{handover: h}
}

func (h *versionedHandover) databases() []string { return []string{h.db()} }
func (h *versionedHandover) finish()             {}
func (h *versionedHandover) plant()              { require.Fail(h, "no stale rows in versioned stores") }

func (h *versionedHandover) wiped(log []logRecord) {
	h.last = nil
	h.model.keys, h.model.stream, h.model.position = map[string]map[int64]version{}, -1, -1
	h.disk.rows, h.disk.times.Segments, h.disk.times.Stream = map[string]string{}, nil, versions.NoStream
	for _, r := range log {
		h.model.put(r.K, version{r.V, r.H}, r.TS)
		h.write(r)
	}
}

func (h *versionedHandover) begin(p part) {
	if h.model == nil {
		h.model = &versionedModel{retention: h.retention, keys: map[string]map[int64]version{}, stream: -1, position: -1}
		h.disk = newPhysical(options{retention: h.retention, format: p.format})
		h.format = p.format
	}
	if h.format != p.format {
		h.convert(p.format)
	}
	h.model.headers, h.model.kafka, h.model.writes = p.format == "headers", p.kafka, nil
	h.disk.forgets = p.kafka
	switch {
	case p.kafka:
		// It knows nothing of the past when it starts.
		h.model.stream = -1
		h.disk.times.Segments = nil
	case h.last != nil:
		h.model.stream = max(h.findSegments(), h.last.long(h.T, "forebay.stream-time"))
	}
	h.disk.times.Stream = h.model.stream
}

// findSegments notes the segments that have rows, as forebay does at open, and gives the
// stream time that must at least have been.
func (h *versionedHandover) findSegments() int64 {
	least := versions.NoStream
	h.disk.times.Segments = nil
	for k := range h.disk.rows {
		if id, _, _ := versions.SplitKey(unhex(h.T, k), h.disk.times.Interval); id != versions.Latest {
			h.disk.times.Add(id)
			least = max(least, id*h.disk.times.Interval)
		}
	}
	return least
}

// convert brings what is expected of the disk to another format.
func (h *versionedHandover) convert(format string) {
	from, to := store.Plain, store.Aggregation
	if format == "plain" {
		from, to = to, from
		for _, list := range h.model.keys {
			for ts, v := range list {
				list[ts] = version{v: v.v}
			}
		}
	}
	for k, v := range h.disk.rows {
		b, err := versions.Convert(nil, from, to, unhex(h.T, k), unhex(h.T, v))
		require.NoError(h, err)
		h.disk.rows[k] = hex.EncodeToString(b)
	}
	h.disk.layout, h.format = to, format
}

func (h *versionedHandover) script(p part, _ []scriptOp) (ops []scriptOp) {
	start := h.gen.now + 1
	h.gen.now++
	used := map[string]bool{}
	for i := range p.count {
		op := h.gen.versionedOp(h.retention, h.retention == longest)
		if i == 0 {
			op.Op, op.kvRow = "put", h.gen.row(0)
			op.TS = h.gen.now // from here on stream time is known
		}
		if h.gen.chance(0.03) && i > 0 {
			op = timedOp{line: line{Op: "commit", RTS: op.RTS, RH: op.RH}}
		}
		if p.kill {
			h.gen.hurry(&op)
		}
		if p.small && op.V != nil {
			op.V = h.gen.bytes(300)
		}
		if p.kafka {
			h.avoid(&op, start, used)
		}
		ops = append(ops, op)
	}
	return ops
}

// avoid keeps operations of Kafka Streams 4.4 to the time since it was started: it does not
// know the past.
func (h *versionedHandover) avoid(op *timedOp, start int64, used map[string]bool) {
	op.AsOf, op.From = max(op.AsOf, start), max(op.From, start)
	op.To = h.gen.now + h.retention // a history that ends earlier misses versions
	if op.Op != "put" && op.Op != "delete" {
		return
	}
	op.TS = max(op.TS, start)
	// It forgets a tombstone at the time of the latest version.
	for id := ""; ; op.TS, h.gen.now = h.gen.now+1, h.gen.now+1 {
		if id = fmt.Sprintf("%s %d", op.K, op.TS); !used[id] {
			used[id] = true
			return
		}
	}
}

func (g *generator) versionedOp(retention int64, expired bool) timedOp {
	op := g.timedOp(retention)
	op.AsOf = g.time(retention, expired)
	op.From = g.now - g.Int64N(retention)
	op.To = pick(g, op.From, g.now, g.now+windowSize, op.From+windowSize)
	op.Order = pick(g, "asc", "desc")
	switch p := g.Float64(); {
	case p < 0.35:
		op.Op = pick(g, "get", "getAsOf", "getAsOf", "history")
		return op
	case p < 0.45:
		op.Op = "delete"
	default:
		op.Op, op.kvRow = "put", g.row(0.15)
	}
	op.TS = g.time(retention, expired)
	return op
}

func (h *versionedHandover) do(o scriptOp, offset int64) any {
	answer, placed := h.model.do(o.(timedOp), offset)
	if placed != nil {
		h.write(*placed)
	}
	return answer
}

// do answers an operation, and gives the record of a put that came in time.
func (m *versionedModel) do(op timedOp, offset int64) (answer any, placed *logRecord) {
	switch op.Op {
	case "put", "delete":
		return m.write(op, offset)
	case "get":
		if times := m.times(op.K); len(times) > 0 {
			if a := m.at(op.K, times, len(times)-1); a != nil {
				return a, nil
			}
		}
		return nil, nil
	case "getAsOf":
		return m.asOf(op.K, op.AsOf), nil
	case "history":
		list := []*answerVersion{}
		times := m.times(op.K)
		for i, ts := range times {
			if a := m.at(op.K, times, i); a != nil && ts <= op.To && (a.To == nil || *a.To > op.From) {
				list = append(list, a)
			}
		}
		if op.Order == "desc" {
			slices.Reverse(list)
		}
		return list, nil
	case "commit":
		return nil, nil
	}
	panic(fmt.Sprintf("operation %q", op.Op))
}

func (m *versionedModel) write(op timedOp, offset int64) (answer any, placed *logRecord) {
	late := op.TS < m.stream-m.retention
	if op.Op == "delete" {
		op.V = nil
		if !late {
			answer = m.asOf(op.K, op.TS)
		}
	}
	v := version{v: op.V}
	if m.headers {
		v.h = op.H
	}
	ended := m.put(op.K, v, op.TS)
	if op.Op == "put" {
		answer = ended
	}
	if !late || op.Op == "put" {
		m.position = offset
	}
	if late {
		return answer, nil
	}
	rec := logRecord{K: op.K, V: op.V, TS: op.TS, H: headerList{}}
	if m.headers {
		if rec.H = op.H; op.V == nil {
			rec.H = op.RH
		}
		if rec.H == nil {
			rec.H = headerList{}
		}
	}
	m.writes = append(m.writes, rec)
	return answer, &rec
}

func (h *versionedHandover) write(rec logRecord) {
	var value []byte
	if rec.V != nil {
		headers, err := rec.H.headers()
		require.NoError(h, err)
		value, err = h.disk.layout.Encode(store.Row{Value: rec.V, Headers: headers})
		require.NoError(h, err)
	}
	h.disk.put(h.T, rec.K, value, rec.TS)
}

func (h *versionedHandover) check(p part, got []logRecord, end int64) {
	h.exactLog(p, h.model.writes, got)
	h.checkTree(p, treeNames)
	d := dumpStore(h.T, h.state, h.app)
	h.checkOffset(p, d, got, end)
	if p.kafka {
		require.Zero(h, d.long(h.T, "status"), p.text)
		require.LessOrEqual(h, h.position(d), h.model.position, "%s: position", p.text) // it does not store its own
	} else {
		require.Equal(h, h.model.position, h.position(d), "%s: position", p.text)
		require.Equal(h, h.model.stream, d.long(h.T, "forebay.stream-time"), "%s: stream time", p.text)
	}
	h.checkRows(p, d)
	if p.drain < 0 {
		require.Empty(h, d[rocks.Default], p.text)
	}
	h.disk.rows = d.versions(h.T, p.format) // dead segments of which Kafka did not know
	h.last = d
}

func (h *versionedHandover) checkRows(p part, d dump) {
	known := []string{rocks.Default, rocks.Offsets}
	if p.format == "headers" {
		known = append(known, migration.VersionsFamily)
	}
	require.ElementsMatch(h, known, slices.Collect(maps.Keys(d)), p.text)
	want, got := h.disk.rows, d.versions(h.T, p.format)
	if p.kafka {
		want, got = h.live(want), h.live(got)
	}
	require.Equal(h, want, got, "%s: rows", p.text)
}

// live leaves out rows of segments that are dead: Kafka drops only those that it has
// written to since it was started.
func (h *versionedHandover) live(rows map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range rows {
		id, _, _ := versions.SplitKey(unhex(h.T, k), h.disk.times.Interval)
		if id == versions.Latest || id >= h.disk.times.FirstLive() {
			out[k] = v
		}
	}
	return out
}

func (h *versionedHandover) downgrade(format string) {
	_, err := migration.Downgrade(h.db(), layouts[format], migration.DiscardHeaders())
	require.NoError(h, err)
	h.convert(format)
	p := part{text: "downgrade to " + format, format: format}
	h.last = dumpStore(h.T, h.state, h.app)
	h.checkTree(p, treeNames)
	h.checkRows(p, h.last)
}

// killed: every version up to the last record logged.
func (h *versionedHandover) killed(p part, ops []scriptOp, answers []json.RawMessage, committed int) {
	model, rows, times := h.model.clone(), maps.Clone(h.disk.rows), h.disk.times
	h.compare(p, ops, answers)
	for i := len(answers); i < len(ops); i++ {
		h.do(ops[i], h.next+int64(i)) // some of it may have been done
	}
	got, end := h.cluster.log(h.topic(), h.logged)
	require.NotEmpty(h, got, p.text)
	require.Less(h, len(got), len(h.model.writes), "%s: killed too late", p.text)
	h.exactLog(p, h.model.writes[:len(got)], got)

	d := dumpStore(h.T, h.state, h.app)
	offset := d.long(h.T, h.topic()+"-0")
	h.Logf("%s: killed after %d of %d answers, %d records logged up to offset %d, input committed up to %d; on disk: offset %d, status %d",
		p.text, len(answers), len(ops), len(got), end-1, h.next+int64(committed), offset, d.long(h.T, "status"))
	h.model, h.disk.rows, h.disk.times = model, rows, times
	h.findSegments()
	h.disk.forgets = false // it is forebay that goes on
	for _, r := range got {
		if !p.kafka && r.Offset == offset+1 {
			h.checkRows(p, d) // the directory holds what some commit left
		}
		h.model.put(r.K, version{r.V, r.H}, r.TS)
		h.write(r)
	}
	if p.small {
		require.GreaterOrEqual(h, offset, h.logged, "%s: no commit reached the disk", p.text)
	}
	h.last = nil
}
