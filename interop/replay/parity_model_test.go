package main

import (
	"fmt"
	"slices"

	"github.com/forebay-streams/forebay/internal/versions"
)

// parityModel says what the operations of a script do. With no side it gives the right
// answers; with one of Kafka Streams', what the faults that it can follow make of them.
type parityModel interface {
	// open begins a part. Restored: from the whole changelog, into nothing.
	open(o optionSet, part int, kafka bool, log []logRecord, restored bool)
	do(op scriptOp, offset int64) any
	// logged are the writes since the last call, as an uncached store logs them.
	logged() []logRecord
	// faults are those that answers are made with.
	faults() []followed
	// touch notes the rows that an operation writes.
	touch(op scriptOp, rows map[string]bool)
	// spoiled is the fault that has changed rows, "" for none.
	spoiled() string
}

// followed is a fault that a model can do without.
type followed struct {
	name string
	on   *bool
}

func newParityModel(o optionSet) parityModel {
	switch o.Store {
	case "kv":
		return &kvParity{model: newModel(layouts[o.Format])}
	case "versioned":
		return newVersionedParity(o)
	}
	m := newTimedModel(scenario{store: o.Store, duplicates: o.Duplicates, ordered: o.Ordered != "", retention: o.Retention}, layouts[o.Format])
	m.memory, m.noindex = o.Memory, o.Ordered == "noindex"
	return &timedParity{timedModel: m}
}

func isRead(op scriptOp) bool {
	switch op.common().Op {
	case "put", "putIfAbsent", "putAll", "delete", "remove", "commit":
		return false
	}
	return true
}

// drain gives what was logged, and forgets it.
func drain(writes *[]logRecord) []logRecord {
	list := *writes
	*writes = nil
	return list
}

type kvParity struct{ *model }

func (m *kvParity) faults() []followed  { return nil }
func (m *kvParity) spoiled() string     { return "" }
func (m *kvParity) logged() []logRecord { return drain(&m.writes) }

func (m *kvParity) do(op scriptOp, offset int64) any { return m.model.do(op.(modelOp), offset) }

func (m *kvParity) open(o optionSet, part int, _ bool, log []logRecord, restored bool) {
	layout := layouts[o.format(part)]
	if restored {
		m.layout, m.rows = layout, map[string]modelRow{}
		for _, r := range log {
			if delete(m.rows, string(r.K)); r.V != nil {
				m.rows[string(r.K)] = modelRow{r.V, r.TS, r.H}
			}
		}
	} else if layout != m.layout {
		m.upgrade(layout)
	}
}

func (m *kvParity) touch(o scriptOp, rows map[string]bool) {
	op := o.(modelOp)
	for _, r := range op.Rows {
		rows[string(r.K)] = true
	}
	if !isRead(o) {
		rows[string(op.K)] = true
	}
}

type timedParity struct {
	*timedModel
	lost bool // headers
}

func (m *timedParity) do(op scriptOp, offset int64) any {
	m.lost = m.lost || m.loses && !isRead(op)
	return m.timedModel.do(op.(timedOp), offset)
}

func (m *timedParity) touch(o scriptOp, rows map[string]bool) {
	if op := o.(timedOp); !isRead(o) {
		rows[string(m.logKey(timedRow{key: op.K, start: op.Start, end: op.End}))] = true
	}
}

func (m *timedParity) logged() []logRecord { return drain(&m.writes) }

func (m *timedParity) faults() []followed {
	return []followed{{"window-range", &m.short}, {"session-ordered-headers", &m.loses}}
}

func (m *timedParity) spoiled() string {
	if m.lost {
		return "session-ordered-headers"
	}
	return ""
}

func (m *timedParity) open(o optionSet, part int, kafka bool, log []logRecord, restored bool) {
	m.loses = kafka && m.session && m.ordered && o.format(part) == "headers"
	m.short = kafka && !m.session && !m.memory && !m.noindex
	layout := layouts[o.format(part)]
	switch {
	case restored:
		m.layout = layout
		m.lost = m.loses
		m.rebuild(log)
	case layout != m.layout:
		m.upgrade(layout)
		fallthrough
	default:
		m.restart()
	}
}

type versionedParity struct {
	*versionedModel
	interval int64
	// What Kafka does.
	// It knows a tombstone at the time of the latest version, which it only removes, by a
	// version that ended then, if there is one.
	forgets, bounded bool
	ends             map[string]bool
	spoilt           bool
}

func newVersionedParity(o optionSet) *versionedParity {
	m := &versionedParity{interval: o.Segment, ends: map[string]bool{}}
	if m.interval == 0 {
		m.interval = versions.DefaultInterval(o.Retention)
	}
	m.versionedModel = &versionedModel{retention: o.Retention, keys: map[string]map[int64]version{}, stream: -1, position: -1}
	return m
}

func (m *versionedParity) touch(scriptOp, map[string]bool) {}

func (m *versionedParity) logged() []logRecord { return drain(&m.writes) }

func (m *versionedParity) faults() []followed {
	return []followed{{"versioned-valid-to", &m.kafka}, {"versioned-history", &m.bounded}}
}

func (m *versionedParity) spoiled() string {
	if m.spoilt {
		return "versioned-tombstone"
	}
	return ""
}

func (m *versionedParity) open(_ optionSet, _ int, kafka bool, log []logRecord, restored bool) {
	m.kafka, m.forgets, m.bounded = kafka, kafka, kafka
	if !restored {
		return
	}
	m.keys, m.ends, m.stream, m.spoilt = map[string]map[int64]version{}, map[string]bool{}, -1, false
	for _, r := range log {
		m.do(timedOp{line: line{Op: "put"}, kvRow: kvRow{K: r.K, V: r.V, TS: r.TS, H: r.H}}, 0)
	}
	m.logged()
}

func (m *versionedParity) do(o scriptOp, offset int64) any {
	op := o.(timedOp)
	switch {
	case op.Op == "history" && m.bounded:
		return m.boundedHistory(op)
	case isRead(op) || op.Op == "commit":
		answer, _ := m.versionedModel.do(op, offset)
		return answer
	}
	if op.Op == "delete" {
		op.V = nil
	}
	times := m.times(op.K)
	overwritten, live := m.keys[string(op.K)][op.TS], len(times) > 0 && m.keys[string(op.K)][times[len(times)-1]].v != nil
	answer, placed := m.versionedModel.do(op, offset)
	if !m.forgets {
		return answer
	}
	if placed == nil { // logged, too
		m.writes = append(m.writes, logRecord{K: op.K, V: op.V, TS: op.TS, H: headerList{}})
		return answer
	}
	id := func(ts int64) string { return fmt.Sprintf("%s %d", op.K, ts) }
	switch i, _ := slices.BinarySearch(times, op.TS); {
	case i < len(times) && times[i] > op.TS:
		m.ends[id(times[i])] = true // of this version
	case i < len(times)-1: // one in the middle is replaced
	case i < len(times) && op.V == nil && overwritten.v != nil && !m.ends[id(op.TS)]:
		delete(m.keys[string(op.K)], op.TS)
		m.spoilt = true
	case i == len(times) && (live || op.V == nil):
		m.ends[id(op.TS)] = true // of the one before, or of nothing
	}
	return answer
}

// boundedHistory looks for versions only in segments up to that of the upper bound, though
// a version is filed by when it ended.
func (m *versionedParity) boundedHistory(op timedOp) any {
	list := []*answerVersion{}
	for i, ts := range m.times(op.K) {
		a := m.at(op.K, m.times(op.K), i)
		if a == nil || ts > op.To || a.To != nil && (*a.To <= op.From || *a.To/m.interval > op.To/m.interval) {
			continue
		}
		list = append(list, a)
	}
	if op.Order == "desc" {
		slices.Reverse(list)
	}
	return list
}
