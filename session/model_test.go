package session_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/forebay-streams/forebay/store"
)

// shape is what a store's answers depend on.
type shape struct {
	layout              store.Layout
	memory              bool
	ordered, index      bool
	retention, interval int64
}

// place is where the model keeps a row.
type place struct {
	key        string
	start, end int64
}

// modelState is what a commit keeps and an abort brings back.
type modelState struct {
	rows             map[place]string // shown values
	stream, position int64            // -1: none
}

func newState() modelState { return modelState{rows: map[place]string{}, stream: -1, position: -1} }

func (s modelState) clone() modelState {
	s.rows = maps.Clone(s.rows)
	return s
}

// model is a session store as a map, written from the format's rules alone.
type model struct {
	shape
	now, committed modelState
	dropped        int64
}

func newModel(s shape) *model { return &model{shape: s, now: newState(), committed: newState()} }

func (m *model) commit() { m.committed = m.now.clone() }
func (m *model) abort()  { m.now = m.committed.clone() }

// reopen keeps the committed rows and position, where they are on disk, and nothing else.
func (m *model) reopen() {
	m.abort()
	m.now.stream, m.dropped = -1, 0
	if m.memory {
		m.now = newState()
	}
	m.commit()
}

func (m *model) wipe() {
	m.now = newState()
	m.commit()
}

func show(l store.Layout, v store.Value[[]byte]) string {
	headers := ""
	if l.HasHeaders() {
		for h := range v.Headers.All() {
			headers += fmt.Sprintf("%s=%s ", h.Key, h.Value)
		}
	}
	return fmt.Sprintf("%x|%s", v.Data, headers)
}

// oldest is the oldest end that is shown.
func (m *model) oldest(s modelState) int64 { return s.stream - m.retention + 1 }

func (m *model) minLive() int64 { return (m.now.stream - m.retention) / m.interval }

func (m *model) live(end int64) bool {
	if m.memory {
		return end > m.now.stream-m.retention
	}
	return end/m.interval >= m.minLive()
}

// put: offset is that of the input record, v nil for a put of null.
func (m *model) put(at place, v *store.Value[[]byte], offset int64) {
	m.now.stream = max(m.now.stream, at.end)
	live := m.live(at.end)
	if live || m.memory {
		m.now.position = max(m.now.position, offset)
	}
	if live || m.memory || m.layout.HasHeaders() {
		m.purge()
	}
	if !live {
		m.dropped++
		return
	}
	m.write(at, v)
}

func (m *model) write(at place, v *store.Value[[]byte]) {
	if v == nil {
		delete(m.now.rows, at)
		return
	}
	m.now.rows[at] = show(m.layout, *v)
}

func (m *model) remove(at place) {
	if !m.memory {
		m.now.stream = max(m.now.stream, at.end)
	}
	delete(m.now.rows, at)
}

func (m *model) purge() {
	for at := range m.now.rows {
		if !m.live(at.end) {
			delete(m.now.rows, at)
		}
	}
}

// restore takes a batch of changelog records.
func (m *model) restore(batch []store.Change) {
	if !m.memory {
		for _, c := range batch {
			m.now.stream = max(m.now.stream, placeOf(c.Key).end)
		}
	}
	dropped := m.dropped
	for _, c := range batch {
		v := &store.Value[[]byte]{Data: c.Value, Headers: c.Headers}
		if c.Tombstone() {
			v = nil
		}
		m.put(placeOf(c.Key), v, -1)
	}
	if !m.memory {
		m.dropped = dropped // restored rows do not count there
	}
	m.commit()
}

func placeOf(key []byte) place {
	n := len(key) - 16
	return place{string(key[:n]), int64(binary.BigEndian.Uint64(key[n+8:])), int64(binary.BigEndian.Uint64(key[n:]))}
}

func logKey(p place) []byte {
	k := binary.BigEndian.AppendUint64([]byte(p.key), uint64(p.end))
	return binary.BigEndian.AppendUint64(k, uint64(p.start))
}

func (m *model) fetch(s modelState, at place) string {
	if v, ok := s.rows[at]; ok && at.end >= m.oldest(s) {
		return v
	}
	return "none"
}

// compare orders rows as a scan shows them.
func (m *model) compare(a, b place, byEnd bool) int {
	switch {
	case m.memory:
		return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.key, b.key), cmp.Compare(b.start, a.start))
	case m.ordered && (byEnd || !m.index):
		return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.start, b.start), cmp.Compare(a.key, b.key))
	}
	return cmp.Or(cmp.Compare(a.end/m.interval, b.end/m.interval), bytes.Compare(logKey(a), logKey(b)))
}

// find is every scan by key: nil keys are open ends.
func (m *model) find(s modelState, first, last []byte, earliestEnd, latestStart int64, reverse bool) string {
	return m.scan(s, false, reverse, func(at place) bool {
		return at.end >= max(earliestEnd, m.oldest(s)) && at.start <= latestStart &&
			(first == nil || at.key >= string(first)) && (last == nil || at.key <= string(last))
	})
}

func (m *model) findByEnd(s modelState, earliest, latest int64) string {
	if m.memory {
		earliest = max(earliest, m.oldest(s))
	}
	return m.scan(s, true, false, func(at place) bool { return earliest <= at.end && at.end <= latest })
}

func (m *model) scan(s modelState, byEnd, reverse bool, want func(place) bool) string {
	var list []place
	for at := range s.rows {
		if want(at) {
			list = append(list, at)
		}
	}
	slices.SortFunc(list, func(a, b place) int { return m.compare(a, b, byEnd) })
	if reverse {
		slices.Reverse(list)
	}
	var b strings.Builder
	for _, at := range list {
		fmt.Fprintf(&b, "%x[%d,%d] %s\n", at.key, at.start, at.end, s.rows[at])
	}
	return b.String()
}
