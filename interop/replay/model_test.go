package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/forebay-streams/forebay/store"
)

// modelOp is a line of a script.
type modelOp struct {
	line
	kvOp
}

type modelRow struct {
	v  hexBytes
	ts int64
	h  headerList
}

// modelState is what a commit keeps and an abort brings back.
type modelState struct {
	rows     map[string]modelRow
	legacy   map[string]bool // keys not written since the upgrade
	position int64           // input offset of the last write, -1 before there is one
}

func (s modelState) clone() modelState {
	s.rows, s.legacy = maps.Clone(s.rows), maps.Clone(s.legacy)
	return s
}

// model is a key-value store as a map, written from the format's rules alone.
type model struct {
	layout store.Layout
	modelState
	committed modelState
	writes    []logRecord // every write, as an uncached store logs it
}

func newModel(layout store.Layout) *model {
	m := &model{layout: layout}
	m.rows, m.legacy, m.position = map[string]modelRow{}, map[string]bool{}, -1
	m.committed = m.modelState.clone()
	return m
}

func (m *model) commit() { m.committed = m.modelState.clone() }
func (m *model) abort()  { m.modelState = m.committed.clone() }

// upgrade turns every row into one of a newer layout, as an upgrade in place does.
func (m *model) upgrade(to store.Layout) {
	for k, r := range m.rows {
		if !m.layout.HasTimestamp() {
			r.ts = store.NoTimestamp
		}
		if !m.layout.HasHeaders() {
			r.h = headerList{}
		}
		m.rows[k] = r
		m.legacy[k] = true
	}
	m.layout = to
	m.commit()
}

func (m *model) write(r kvRow, l line, offset int64) {
	rec := logRecord{K: r.K, V: r.V, TS: l.RTS, H: headerList{}}
	if m.layout.HasHeaders() {
		rec.H = l.RH
	}
	if r.V != nil {
		if m.layout.HasTimestamp() {
			rec.TS = r.TS
		}
		if m.layout.HasHeaders() {
			rec.H = r.H
		}
		m.rows[string(r.K)] = modelRow{r.V, r.TS, r.H}
	} else {
		delete(m.rows, string(r.K))
	}
	if rec.H == nil {
		rec.H = headerList{}
	}
	delete(m.legacy, string(r.K))
	m.writes = append(m.writes, rec)
	m.position = offset
}

func (m *model) answer(r modelRow) *answerValue {
	a := &answerValue{V: r.v}
	if m.layout.HasTimestamp() {
		a.TS = &r.ts
	}
	if m.layout.HasHeaders() {
		if r.h == nil {
			r.h = headerList{}
		}
		a.H = &r.h
	}
	return a
}

func (m *model) get(rows map[string]modelRow, k hexBytes) any {
	if r, ok := rows[string(k)]; ok {
		return m.answer(r)
	}
	return nil
}

func (m *model) scan(rows map[string]modelRow, want func(key []byte) bool, reverse bool) any {
	keys := slices.Sorted(maps.Keys(rows))
	if reverse {
		slices.Reverse(keys)
	}
	list := [][2]any{}
	for _, k := range keys {
		if want(hexBytes(k)) {
			list = append(list, [2]any{hexBytes(k), m.answer(rows[k])})
		}
	}
	return list
}

func everything([]byte) bool { return true }

// do answers an operation that was the input record of that offset.
func (m *model) do(op modelOp, offset int64) any {
	switch op.Op {
	case "put":
		m.write(op.kvRow, op.line, offset)
		return nil
	case "putIfAbsent":
		old := m.get(m.rows, op.K)
		if old == nil {
			m.write(op.kvRow, op.line, offset)
		}
		return old
	case "putAll":
		for _, r := range op.Rows {
			m.write(r, op.line, offset)
		}
		return nil
	case "delete":
		old := m.get(m.rows, op.K)
		m.write(kvRow{K: op.K}, op.line, offset)
		return old
	case "get":
		return m.get(m.rows, op.K)
	case "range", "reverseRange":
		return m.scan(m.rows, func(k []byte) bool {
			return (op.From == nil || bytes.Compare(k, op.From) >= 0) && (op.To == nil || bytes.Compare(k, op.To) <= 0)
		}, op.Op == "reverseRange")
	case "all", "reverseAll":
		return m.scan(m.rows, everything, op.Op == "reverseAll")
	case "prefix":
		return m.scan(m.rows, func(k []byte) bool { return bytes.HasPrefix(k, op.P) }, false)
	case "commit":
		return nil
	}
	panic(fmt.Sprintf("operation %q", op.Op))
}
