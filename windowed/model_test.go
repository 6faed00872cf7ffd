package windowed_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/forebay-streams/forebay/store"
)

// shape is what a store's answers depend on.
type shape struct {
	layout              store.Layout
	memory, dup         bool
	ordered, index      bool
	retention, interval int64
}

// place is where the model keeps a row.
type place struct {
	key   string
	start int64
	seq   int32
}

// modelState is what a commit keeps and an abort brings back.
type modelState struct {
	rows   map[place]string // shown values
	stream int64
	seq    int32
}

func (s modelState) clone() modelState {
	s.rows = maps.Clone(s.rows)
	return s
}

// model is a window store as a map, written from the format's rules alone.
type model struct {
	shape
	now, committed modelState
	dropped        int64
}

func newModel(s shape) *model {
	m := &model{shape: s}
	m.now = modelState{rows: map[place]string{}, stream: -1}
	m.committed = m.now.clone()
	return m
}

func (m *model) commit() { m.committed = m.now.clone() }
func (m *model) abort()  { m.now = m.committed.clone() }

// reopen keeps the committed rows, where they are on disk, and nothing else.
func (m *model) reopen() {
	m.now = modelState{rows: maps.Clone(m.committed.rows), stream: -1}
	if m.memory {
		clear(m.now.rows)
	}
	m.commit()
	m.dropped = 0
}

// upgrade turns every row into one of a newer layout, as an upgrade in place does.
func (m *model) upgrade(to shape) {
	for k, v := range m.now.rows {
		parts := strings.Split(v, "|")
		if !m.layout.HasTimestamp() {
			parts[1] = "-1"
		}
		if !to.layout.HasTimestamp() {
			parts[1] = ""
		}
		m.now.rows[k] = strings.Join(parts, "|")
	}
	m.shape = to
	m.commit()
}

// show is a value as the layout keeps it.
func (m *model) show(v store.Value[[]byte]) string { return show(m.layout, v) }

func show(l store.Layout, v store.Value[[]byte]) string {
	ts, headers := "", ""
	if l.HasTimestamp() {
		ts = fmt.Sprint(v.Timestamp)
	}
	if l.HasHeaders() {
		for h := range v.Headers.All() {
			headers += fmt.Sprintf("%s=%s ", h.Key, h.Value)
		}
	}
	return fmt.Sprintf("%x|%s|%s", v.Data, ts, headers)
}

func (m *model) oldest(s modelState) int64 {
	if m.ordered {
		return s.stream - m.retention
	}
	return s.stream - m.retention + 1
}

func (m *model) minLive() int64 { return (m.now.stream - m.retention) / m.interval }

func (m *model) put(key []byte, start int64, v *store.Value[[]byte]) {
	s := &m.now
	if m.memory {
		s.stream = max(s.stream, start)
		if start <= s.stream-m.retention {
			m.dropped++
			return
		}
		if m.dup {
			if v == nil {
				return
			}
			s.seq = (s.seq + 1) & math.MaxInt32
		}
	} else {
		if m.dup && v == nil {
			return
		}
		if m.dup {
			s.seq = (s.seq + 1) & math.MaxInt32
		}
		s.stream = max(s.stream, start)
		if start/m.interval < m.minLive() {
			m.dropped++
			return
		}
	}
	m.write(place{string(key), start, s.seq}, v)
	m.purge()
}

func (m *model) write(at place, v *store.Value[[]byte]) {
	if v == nil {
		delete(m.now.rows, at)
		return
	}
	m.now.rows[at] = m.show(*v)
}

func (m *model) purge() {
	for at := range m.now.rows {
		if m.memory && at.start <= m.now.stream-m.retention || !m.memory && at.start/m.interval < m.minLive() {
			delete(m.now.rows, at)
		}
	}
}

// restore takes a batch of changelog records.
func (m *model) restore(batch []store.Change) {
	if !m.memory {
		for _, c := range batch {
			m.now.stream = max(m.now.stream, startOf(c.Key))
		}
	}
	for _, c := range batch {
		n := len(c.Key)
		at := place{string(c.Key[:n-12]), startOf(c.Key), int32(binary.BigEndian.Uint32(c.Key[n-4:]))}
		v := &store.Value[[]byte]{Data: c.Value, Timestamp: c.Timestamp, Headers: c.Headers}
		if c.Tombstone() {
			v = nil
		}
		if m.memory {
			dup := m.dup
			m.put([]byte(at.key), at.start, v)
			m.dup = dup
			continue
		}
		if at.start/m.interval >= m.minLive() {
			m.write(at, v)
		}
	}
	m.purge()
	m.commit()
}

func startOf(key []byte) int64 { return int64(binary.BigEndian.Uint64(key[len(key)-12:])) }

func (m *model) fetch(s modelState, key []byte, start int64) string {
	if start < m.oldest(s) || m.memory && m.dup {
		return "none"
	}
	if v, ok := s.rows[place{string(key), start, s.seq}]; ok {
		return v
	}
	return "none"
}

// order is the key by which rows are sorted.
func (m *model) order(at place, byTime bool) (int64, []byte) {
	q := binary.BigEndian.AppendUint32(nil, uint32(at.seq))
	if m.memory || m.ordered && (byTime || !m.index) {
		return at.start, append([]byte(at.key), q...)
	}
	k := binary.BigEndian.AppendUint64([]byte(at.key), uint64(at.start))
	return at.start / m.interval, append(k, q...)
}

func (m *model) scan(s modelState, first, last []byte, from, to int64, reverse, byTime bool) string {
	from = max(from, m.oldest(s), 0)
	type sorted struct {
		at    place
		outer int64
		inner []byte
	}
	var list []sorted
	for at := range s.rows {
		if at.start < from || at.start > to || first != nil && at.key < string(first) || last != nil && at.key > string(last) {
			continue
		}
		outer, inner := m.order(at, byTime)
		list = append(list, sorted{at, outer, inner})
	}
	slices.SortFunc(list, func(a, b sorted) int {
		if a.outer != b.outer {
			if a.outer < b.outer {
				return -1
			}
			return 1
		}
		return bytes.Compare(a.inner, b.inner)
	})
	if reverse {
		slices.Reverse(list)
	}
	var b strings.Builder
	for _, r := range list {
		fmt.Fprintf(&b, "%x@%d %s\n", r.at.key, r.at.start, s.rows[r.at])
	}
	return b.String()
}
