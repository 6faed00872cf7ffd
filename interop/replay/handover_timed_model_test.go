package main

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/windowkey"
	"github.com/forebay-streams/forebay/store"
)

// timedRow is a window, whose end is not stored, or a session.
type timedRow struct {
	key        hexBytes
	start, end int64
	seq        int32
	v          hexBytes
	ts         int64
	h          headerList
}

// timedModel is a window or session store as a map, written from the format's rules alone.
type timedModel struct {
	session, duplicates, ordered bool
	memory, noindex              bool
	retention, interval          int64
	layout                       store.Layout
	loses                        bool // headers, in Kafka's time-ordered session store
	short                        bool // upper bounds of ranges of windows, as Kafka computes them

	rows             map[string]timedRow // by changelog key
	segments         map[int64]bool
	legacy           map[string]bool // keys on disk, not written since the upgrade
	stream, position int64
	seq, logSeq      int32
	writes           []logRecord
}

func newTimedModel(s scenario, layout store.Layout) *timedModel {
	return &timedModel{
		session: s.store == "session", duplicates: s.duplicates, ordered: s.ordered,
		retention: s.retention, interval: max(s.retention/2, 60_000), layout: layout,
		rows: map[string]timedRow{}, segments: map[int64]bool{}, legacy: map[string]bool{}, position: -1,
	}
}

func (m *timedModel) clone() *timedModel {
	c := *m
	c.rows, c.segments, c.legacy = maps.Clone(m.rows), maps.Clone(m.segments), maps.Clone(m.legacy)
	return &c
}

// restart is what a store forgets when it is closed.
func (m *timedModel) restart() { m.stream, m.seq, m.logSeq = -1, 0, 0 }

// upgrade turns every row into one of a newer layout, as an upgrade in place does.
func (m *timedModel) upgrade(to store.Layout) {
	for k, r := range m.rows {
		if !m.layout.HasTimestamp() {
			r.ts = store.NoTimestamp
		}
		if !m.layout.HasHeaders() {
			r.h = headerList{}
		}
		m.rows[k] = r
		m.legacy[string(m.key(r))] = true
	}
	m.layout = to
}

func (m *timedModel) time(r timedRow) int64 {
	if m.session {
		return r.end
	}
	return r.start
}

func (m *timedModel) id(r timedRow) int64 { return m.time(r) / m.interval }

// append makes a row's key in one of three schemas.
func (m *timedModel) append(r timedRow, w windowkey.Schema, s windowkey.SessionSchema) []byte {
	if m.session {
		return s.Append(nil, windowkey.SessionRow{Key: r.key, Start: r.start, End: r.end})
	}
	return w.Append(nil, windowkey.Row{Key: r.key, Start: r.start, Seq: r.seq})
}

func (m *timedModel) logKey(r timedRow) []byte {
	return m.append(r, windowkey.Window, windowkey.Session)
}
func (m *timedModel) index(r timedRow) []byte {
	return m.append(r, windowkey.Index, windowkey.SessionIndex)
}
func (m *timedModel) base(r timedRow) []byte {
	return m.append(r, windowkey.Base, windowkey.SessionBase)
}

// key is that on disk.
func (m *timedModel) key(r timedRow) []byte {
	if m.ordered {
		return m.base(r)
	}
	return m.logKey(r)
}

// lower is the earliest time that is shown.
func (m *timedModel) lower() int64 {
	if m.ordered && !m.session {
		return m.stream - m.retention
	}
	return m.stream - m.retention + 1
}

func (m *timedModel) log(r timedRow, l line) {
	rec := logRecord{K: m.logKey(r), V: r.v, TS: l.RTS, H: headerList{}}
	if r.v != nil && m.layout.HasTimestamp() && !m.session {
		rec.TS = r.ts
	}
	if m.layout.HasHeaders() {
		if rec.H = l.RH; r.v != nil {
			rec.H = r.h
		}
		if rec.H == nil {
			rec.H = headerList{}
		}
	}
	m.writes = append(m.writes, rec)
}

func (m *timedModel) put(r timedRow, l line, offset int64) {
	logged := r
	if m.duplicates {
		m.logSeq++
		logged.seq = m.logSeq
	}
	m.log(logged, l)
	if m.memory {
		m.putMemory(r)
		return
	}
	if m.duplicates {
		if r.v == nil {
			return
		}
		m.seq++
		r.seq = m.seq
	}
	m.stream = max(m.stream, m.time(r))
	first := (m.stream - m.retention) / m.interval
	live := m.id(r) >= first
	if live || m.session && m.layout.HasHeaders() {
		m.expire(first)
	}
	if !live {
		return
	}
	m.segments[m.id(r)] = true
	m.position = offset
	m.set(r)
}

// putMemory: in memory rows expire one by one, at the stream time of before.
func (m *timedModel) putMemory(r timedRow) {
	for k, old := range m.rows {
		if m.time(old) < max(0, m.lower()) {
			delete(m.rows, k)
		}
	}
	m.stream = max(m.stream, m.time(r))
	if m.time(r) <= m.stream-m.retention || m.duplicates && r.v == nil {
		return
	}
	if m.duplicates {
		m.seq++
		r.seq = m.seq
	}
	m.set(r)
}

func (m *timedModel) expire(first int64) {
	for k, r := range m.rows {
		if m.id(r) < first {
			delete(m.rows, k)
			delete(m.legacy, string(m.key(r)))
		}
	}
	for id := range m.segments {
		if id < first {
			delete(m.segments, id)
		}
	}
}

func (m *timedModel) set(r timedRow) {
	if m.loses {
		r.h = headerList{}
	}
	k := string(m.logKey(r))
	delete(m.legacy, string(m.key(r)))
	delete(m.rows, k)
	if r.v != nil {
		m.rows[k] = r
	}
}

// restore applies a record of the changelog.
func (m *timedModel) restore(t *testing.T, rec logRecord) {
	r, ok := m.parse(rec)
	require.True(t, ok)
	m.segments[m.id(r)] = true
	m.set(r)
}

func (m *timedModel) parse(rec logRecord) (r timedRow, ok bool) {
	r = timedRow{v: rec.V, ts: rec.TS, h: rec.H}
	if m.session {
		var s windowkey.SessionRow
		s, ok = windowkey.Session.Parse(rec.K)
		r.key, r.start, r.end = s.Key, s.Start, s.End
		return r, ok
	}
	var w windowkey.Row
	w, ok = windowkey.Window.Parse(rec.K)
	r.key, r.start, r.seq = w.Key, w.Start, w.Seq
	return r, ok
}

// rebuild makes the rows from a whole changelog, as a restore into an empty directory, or
// of a store in memory, does.
func (m *timedModel) rebuild(log []logRecord) {
	m.rows, m.segments, m.legacy = map[string]timedRow{}, map[int64]bool{}, map[string]bool{}
	m.restart()
	for _, rec := range log {
		r, ok := m.parse(rec)
		if !ok {
			panic(fmt.Sprintf("changelog key %x", rec.K))
		}
		m.stream = max(m.stream, m.time(r))
		if m.memory {
			if m.time(r) > m.stream-m.retention {
				m.set(r)
			}
			continue
		}
		m.segments[m.id(r)] = true
		m.set(r)
	}
	if !m.memory {
		m.expire((m.stream - m.retention) / m.interval)
	}
}

func (m *timedModel) answer(r timedRow) *answerValue {
	a := &answerValue{V: r.v}
	if m.layout.HasTimestamp() && !m.session {
		a.TS = &r.ts
	}
	if m.layout.HasHeaders() {
		if r.h == nil || m.loses {
			r.h = headerList{}
		}
		a.H = &r.h
	}
	return a
}

func (m *timedModel) get(r timedRow) any {
	if m.time(r) < m.lower() || m.memory && m.duplicates {
		return nil
	}
	r.seq = m.seq
	if found, ok := m.rows[string(m.logKey(r))]; ok {
		return m.answer(found)
	}
	return nil
}

// scan gives rows segment by segment, in order of their keys, or in order of time.
func (m *timedModel) scan(want func(timedRow) bool, back, byTime bool) []timedRow {
	list := []timedRow{}
	for _, r := range m.rows {
		if want(r) {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b timedRow) int {
		switch {
		case m.memory && m.session:
			return cmp.Or(cmp.Compare(a.end, b.end), bytes.Compare(a.key, b.key), cmp.Compare(b.start, a.start))
		case m.memory && m.duplicates:
			return cmp.Or(cmp.Compare(a.start, b.start),
				bytes.Compare(binary.BigEndian.AppendUint32(slices.Clone(a.key), uint32(a.seq)), binary.BigEndian.AppendUint32(slices.Clone(b.key), uint32(b.seq))))
		case m.memory:
			return cmp.Or(cmp.Compare(a.start, b.start), bytes.Compare(a.key, b.key))
		case byTime || m.noindex:
			return bytes.Compare(m.base(a), m.base(b))
		}
		return cmp.Or(cmp.Compare(m.id(a), m.id(b)), bytes.Compare(m.logKey(a), m.logKey(b)))
	})
	if back {
		slices.Reverse(list)
	}
	return list
}

func (m *timedModel) find(k1, k2 hexBytes, from, to int64, back, byTime bool) []timedRow {
	from = max(from, m.lower(), 0)
	return m.scan(func(r timedRow) bool {
		if m.short && k2 != nil && !bytes.Equal(k1, k2) && bytes.Compare(m.logKey(r), shortBound(k2, to)) > 0 {
			return false
		}
		return m.time(r) >= from && r.start <= to &&
			(k1 == nil || bytes.Compare(k1, r.key) <= 0) && (k2 == nil || bytes.Compare(r.key, k2) <= 0)
	}, back, byTime)
}

// shortBound is Kafka's upper bound of a range of windows: a byte of the key, more of them
// as long as they are no less than what follows, and the latest time.
func shortBound(key hexBytes, to int64) []byte {
	suffix := binary.BigEndian.AppendUint64(nil, uint64(to))
	suffix = binary.BigEndian.AppendUint32(suffix, math.MaxInt32)
	n := len(key)
	if suffix[0] > 0 {
		n = min(1, n)
		for n < len(key) && key[n] >= suffix[0] {
			n++
		}
	}
	return append(slices.Clone(key[:n]), suffix...)
}

func (m *timedModel) whole(list []timedRow) any {
	out := [][4]any{}
	for _, r := range list {
		end := r.end
		if !m.session {
			end = r.start + windowSize
		}
		out = append(out, [4]any{r.key, r.start, end, m.answer(r)})
	}
	return out
}

// do answers an operation that was the input record of that offset.
func (m *timedModel) do(op timedOp, offset int64) any {
	row := timedRow{key: op.K, start: op.Start, end: op.End, v: op.V, ts: op.TS, h: op.H}
	switch op.Op {
	case "commit":
		return nil
	case "put":
		m.put(row, op.line, offset)
		return nil
	case "remove":
		row.v = nil
		if !m.memory {
			m.stream = max(m.stream, row.end)
		}
		m.set(row)
		m.log(row, op.line)
		return nil
	case "fetch", "fetchSession":
		return m.get(row)
	case "fetchRange":
		out := [][2]any{}
		for _, r := range m.find(op.K, op.K, op.From, op.To, op.Back, false) {
			out = append(out, [2]any{r.start, m.answer(r)})
		}
		return out
	case "fetchKeys":
		from, to := op.From, op.To
		if m.session {
			from, to = 0, math.MaxInt64
		}
		return m.whole(m.find(op.K1, op.K2, from, to, op.Back, false))
	case "all":
		return m.whole(m.find(nil, nil, 0, math.MaxInt64, op.Back, m.ordered))
	case "fetchAll":
		return m.whole(m.find(nil, nil, op.From, op.To, op.Back, m.ordered))
	case "find":
		return m.whole(m.find(op.K, op.K, op.End, op.Start, op.Back, false))
	case "findKeys":
		return m.whole(m.find(op.K1, op.K2, op.End, op.Start, op.Back, false))
	case "fetchKey":
		return m.whole(m.find(op.K, op.K, 0, math.MaxInt64, op.Back, false))
	case "findTime": // shows what has expired, too, but not in memory, where it has gone
		return m.whole(m.scan(func(r timedRow) bool {
			return op.End <= r.end && r.end <= op.Latest && (!m.memory || r.end >= m.lower())
		}, false, true))
	}
	panic(fmt.Sprintf("operation %q", op.Op))
}

// time is now, a little earlier, or where retention ends.
func (g *generator) time(retention int64, expired bool) int64 {
	switch p := g.Float64(); {
	case p < 0.05 && expired:
		return g.now - retention + pick[int64](g, -2*retention, -windowSize, -1, 0, 1)
	case p < 0.55:
		return g.now - g.Int64N(retention/2)
	}
	return g.now
}

func (g *generator) keys() (from, to hexBytes) {
	from, to = g.key(), g.key()
	if bytes.Compare(from, to) > 0 && g.chance(0.9) {
		from, to = to, from
	}
	if g.chance(0.15) {
		from = nil
	}
	if g.chance(0.15) {
		to = nil
	}
	return from, to
}

func (g *generator) times(retention int64) (from, to int64) {
	from, to = g.time(retention, true), g.time(retention, true)
	if from > to {
		from, to = to, from
	}
	if g.chance(0.2) {
		from = 0
	}
	if g.chance(0.2) {
		to = g.now + retention
	}
	return from, to
}

// hurry leaves out most scans, of a store that grows large.
func (g *generator) hurry(op *timedOp) {
	switch op.Op {
	case "all", "fetchAll", "fetchKeys", "findKeys":
		if g.chance(0.9) {
			op.Op = "fetch"
		}
	}
}

// longest is the retention of stores that expire in the course of a scenario.
const longest = 1_800_000

// timedOp begins an operation, with the arguments of every read.
func (g *generator) timedOp(retention int64) (op timedOp) {
	step := pick[int64](g, 0, 1, 10, 1000, 30_000)
	switch {
	case retention > longest:
		step /= 30 // so that nothing expires
	case retention < longest:
		step /= 6 // a few segments, not dozens
	}
	g.now += step
	op.RTS, op.RH, op.K = g.now, g.headers(), g.key()
	op.K1, op.K2 = g.keys()
	op.From, op.To = g.times(retention)
	op.Back = g.chance(0.4)
	return op
}

func (g *generator) windowOp(retention int64, expired bool) timedOp {
	op := g.timedOp(retention)
	op.Start = g.time(retention, expired) / (windowSize / 2) * (windowSize / 2)
	if g.chance(0.35) {
		op.Op = pick(g, "fetch", "fetch", "fetchRange", "fetchKeys", "all", "fetchAll")
		return op
	}
	op.Op, op.kvRow = "put", g.row(0.15)
	return op
}

func (g *generator) sessionOp(retention int64, ordered bool) timedOp {
	op := g.timedOp(retention)
	op.End = g.time(retention, true)
	op.Start = op.End - pick[int64](g, 0, 0, 1, 1000, windowSize)
	switch p := g.Float64(); {
	case p < 0.35:
		op.Op = pick(g, "fetchSession", "fetchSession", "find", "findKeys", "fetchKey", "fetchKeys")
		if ordered && g.chance(0.2) {
			op.Op, op.End, op.Latest = "findTime", op.From, op.To
		} else if op.Op == "find" || op.Op == "findKeys" {
			op.End, op.Start = op.From, op.To
		}
	case p < 0.45:
		op.Op = "remove"
	default:
		op.Op, op.kvRow = "put", g.row(0.15)
	}
	return op
}
