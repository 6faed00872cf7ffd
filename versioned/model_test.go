package versioned

import (
	"fmt"
	"maps"
	"slices"

	"github.com/forebay-streams/forebay/store"
)

// model is the naive store: every version of every key, for ever.
type model struct {
	retention, stream int64
	keys              map[string]map[int64]*version // nil: tombstone
}

type version struct {
	data    string
	headers store.Headers
}

func newModel(retention int64) *model {
	return &model{retention: retention, stream: -1, keys: map[string]map[int64]*version{}}
}

func (m *model) clone() *model {
	c := &model{m.retention, m.stream, map[string]map[int64]*version{}}
	for k, v := range m.keys {
		c.keys[k] = maps.Clone(v)
	}
	return c
}

// next is the begin of the version behind one, or Forever.
func (m *model) next(key string, at int64) int64 {
	next := Forever
	for ts := range m.keys[key] {
		if ts > at && (next == Forever || ts < next) {
			next = ts
		}
	}
	return next
}

func (m *model) put(key string, v *version, ts int64) Placed {
	if ts < m.stream-m.retention {
		return TooOld
	}
	m.stream = max(m.stream, ts)
	if m.keys[key] == nil {
		m.keys[key] = map[int64]*version{}
	}
	m.keys[key][ts] = v
	return Placed(m.next(key, ts))
}

func (m *model) show(key string, ts int64) string {
	v := m.keys[key][ts]
	if v == nil {
		return "-"
	}
	return show(Version[string]{Value: store.Value[string]{Data: v.data, Timestamp: ts, Headers: v.headers}, ValidTo: m.next(key, ts)}, true, nil)
}

func (m *model) times(key string) []int64 { return slices.Sorted(maps.Keys(m.keys[key])) }

func (m *model) get(key string) string {
	times := m.times(key)
	if len(times) == 0 {
		return "-"
	}
	return m.show(key, times[len(times)-1])
}

func (m *model) asOf(key string, at int64) string {
	times := m.times(key)
	if n := len(times); n > 0 && times[n-1] <= at && m.keys[key][times[n-1]] != nil {
		return m.show(key, times[n-1])
	}
	if at < m.stream-m.retention {
		return "-"
	}
	i, found := slices.BinarySearch(times, at)
	if !found {
		i--
	}
	if i < 0 {
		return "-"
	}
	return m.show(key, times[i])
}

// history is for from within the retention.
func (m *model) history(key string, from, to int64) (out []string) {
	for _, ts := range m.times(key) {
		if end := m.next(key, ts); ts <= to && (end == Forever || end > from) && m.keys[key][ts] != nil {
			out = append(out, m.show(key, ts))
		}
	}
	return out
}

// withoutHeaders is what a plain store keeps.
func (v *version) withoutHeaders() *version {
	if v == nil {
		return nil
	}
	return &version{data: v.data}
}

func (m *model) String() string {
	return fmt.Sprintf("stream time %d, history %d", m.stream, m.retention)
}
