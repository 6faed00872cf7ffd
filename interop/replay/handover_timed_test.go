package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/internal/windowkey"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

const windowSize = 60_000

// timedOp is an operation on a window, session or versioned store.
type timedOp struct {
	line
	kvRow
	Start  int64    `json:"start,omitzero"`
	End    int64    `json:"end,omitzero"`
	Latest int64    `json:"latest,omitzero"`
	K1     hexBytes `json:"k1,omitzero"`
	K2     hexBytes `json:"k2,omitzero"`
	From   int64    `json:"from,omitzero"`
	To     int64    `json:"to,omitzero"`
	Back   bool     `json:"back,omitzero"`
	AsOf   int64    `json:"asOf,omitzero"`
	Order  string   `json:"order,omitzero"`
}

// timedHandover is the subject of the window and session families, whose databases are
// segments, each migrated for itself.
type timedHandover struct {
	*handover
	model    *timedModel
	migrated bool
	modes    bool            // seen: an older format's rows in some segments and none in others
	last     map[string]dump // after the last part; nil after a kill
}

func newTimedHandover(h *handover) *timedHandover {
	if h.retention == 0 {
		h.retention = longest
	}
	h.gen.now = max(h.gen.now, h.gen.now+20*3_600_000-h.retention) // the changelog forgets by time, too
	return &timedHandover{handover: h}
}

func (h *timedHandover) dir() string { return filepath.Join(h.task(), storeName) }

func (h *timedHandover) databases() (list []string) {
	entries, err := os.ReadDir(h.dir())
	if !os.IsNotExist(err) {
		require.NoError(h, err)
	}
	for _, e := range entries {
		list = append(list, filepath.Join(h.dir(), e.Name()))
	}
	return list
}

func (h *timedHandover) finish() {
	if h.scenario.mixed {
		require.True(h, h.modes, "all segments were in one mode all the time")
	}
}

func (h *timedHandover) plant()           { require.Fail(h, "no stale rows in segments") }
func (h *timedHandover) downgrade(string) { require.Fail(h, "no downgrade of segments") }

func (h *timedHandover) wiped(log []logRecord) {
	h.last, h.model.position = nil, -1
	h.model.rebuild(log)
}

func (h *timedHandover) begin(p part) {
	if h.model == nil {
		h.model = newTimedModel(h.scenario, layouts[p.format])
	} else if layouts[p.format] != h.model.layout {
		h.model.upgrade(layouts[p.format])
		h.migrated = true
	}
	h.model.writes = nil
	h.model.restart()
	// Kafka's time-ordered session store keeps headers in the changelog only: docs/format/session.md.
	h.model.loses = p.kafka && h.store == "session" && h.ordered
}

func (h *timedHandover) do(op scriptOp, offset int64) any { return h.model.do(op.(timedOp), offset) }

func (h *timedHandover) script(p part, _ []scriptOp) (ops []scriptOp) {
	if h.scenario.mixed && h.migrated && !h.modes {
		h.gen.now += h.model.interval // a new segment, while the old ones are still there
	}
	for range p.count {
		op := h.gen.windowOp(h.retention, h.retention == longest)
		if h.store == "session" {
			op = h.gen.sessionOp(h.retention, h.ordered)
		}
		if h.gen.chance(0.03) {
			op = timedOp{line: line{Op: "commit", RTS: op.RTS, RH: op.RH}}
		}
		if p.kill {
			h.gen.hurry(&op)
		}
		if p.small && op.V != nil {
			op.V = h.gen.bytes(300)
		}
		if p.kafka || p.kill { // what a kill leaves undone is for the other side
			h.avoid(p, &op)
		}
		ops = append(ops, op)
	}
	return ops
}

// avoid changes operations that Kafka Streams 4.4 gets wrong.
func (h *timedHandover) avoid(p part, op *timedOp) {
	// Its upper bound of a range of windows misses a shorter key that the bound continues
	// with low bytes.
	if n := len(op.K2); h.store == "window" && n > 1 && op.K2[n-1] == 0 {
		op.K2 = op.K2[:1]
	}
	if op.Op == "findTime" && op.End > op.Latest {
		op.End, op.Latest = op.Latest, op.End // throws
	}
	if p.kill && len(h.model.legacy) > 0 && (op.Op == "fetch" || op.Op == "fetchSession") {
		// These move a row by two writes: a memtable that is full between them, and a kill, lose it.
		op.Op, op.Back = "fetchKeys", false
	}
}

func (h *timedHandover) dumps() map[string]dump {
	out := map[string]dump{}
	for _, dir := range h.databases() {
		out[filepath.Base(dir)] = dumpDir(h.T, dir)
	}
	return out
}

var timedTree = regexp.MustCompile(`^(\.|\.lock|kafka-streams-process-metadata|0_0|0_0/store|0_0/store/store\.\d+` +
	`|0_0/store/store\.\d+/(CURRENT|IDENTITY|LOCK|LOG(\.old\.\d+)?|MANIFEST-\d+|OPTIONS-\d+|\d+\.(sst|log)))$`)

func (h *timedHandover) check(p part, got []logRecord, end int64) {
	h.exactLog(p, h.model.writes, got)
	h.checkTree(p, timedTree)
	d := h.dumps()
	var names []string
	for id := range h.model.segments {
		names = append(names, h.segment(id))
	}
	require.ElementsMatch(h, names, slices.Collect(maps.Keys(d)), "%s: segments", p.text)
	for name, d := range d {
		h.checkOffset(p, d, got, end)
		if p.kafka {
			require.Zero(h, d.long(h.T, "status"), "%s: %s", p.text, name)
		}
	}
	h.checkRows(p, d)
	h.checkLegacy(p, d)
	h.checkPosition(p, d)
	h.checkFamilies(p, d)
	h.last = d
}

func (h *timedHandover) segment(id int64) string {
	return fmt.Sprintf("%s.%d", storeName, id*h.model.interval)
}

// formats are those of a segment, oldest first, without regard to what an index row holds.
func (h *timedHandover) formats(format string) []migration.Format {
	layout := layouts[format]
	switch {
	case h.store == "window" && h.ordered:
		f, err := migration.OrderedWindowFormats(layout, migration.Index{})
		require.NoError(h, err)
		return f
	case h.store == "window":
		f, err := migration.KeyValueFormats(layout)
		require.NoError(h, err)
		return f
	}
	layout = sessionLayout(format)
	if h.ordered {
		f, err := migration.OrderedSessionFormats(layout, migration.Index{})
		require.NoError(h, err)
		return f
	}
	f, err := migration.SessionFormats(layout)
	require.NoError(h, err)
	return f
}

// rows gives the rows of a segment in the newest format, those of older families converted.
func (h *timedHandover) rows(p part, d dump) map[string]string {
	formats := h.formats(p.format)
	target := formats[len(formats)-1].Layout
	rows := map[string]string{}
	for _, f := range formats {
		for k, v := range d[f.Family] {
			if h.ordered && k[:2] == "01" {
				rows[k] = v
				continue
			}
			b, err := f.Layout.Convert(nil, target, unhex(h.T, v))
			require.NoError(h, err)
			rows[k] = hex.EncodeToString(b)
		}
	}
	if h.ordered {
		// Kafka writes an index row for a delete and removes it when a read comes by.
		for k := range rows {
			key := unhex(h.T, k)
			if key[0] != windowkey.IndexPrefix {
				continue
			}
			base := windowkey.ToBase(nil, key)
			if h.store == "session" {
				base = windowkey.SessionToBase(nil, key)
			}
			if _, ok := rows[hex.EncodeToString(base)]; !ok {
				delete(rows, k)
			}
		}
	}
	return rows
}

func (h *timedHandover) checkRows(p part, dumps map[string]dump) {
	formats := h.formats(p.format)
	target := formats[len(formats)-1].Layout
	want := map[string]map[string]string{}
	for name := range dumps {
		want[name] = map[string]string{}
	}
	for _, r := range h.model.rows {
		headers, err := r.h.headers()
		require.NoError(h, err)
		b, err := target.Encode(store.Row{Value: r.v, Timestamp: r.ts, Headers: headers})
		require.NoError(h, err)
		rows, ok := want[h.segment(h.model.id(r))]
		if !ok {
			continue // not asked for
		}
		rows[hex.EncodeToString(h.model.key(r))] = hex.EncodeToString(b)
		if !h.ordered {
			continue
		}
		index := ""
		if h.store == "session" && len(r.h) > 0 && p.format == "headers" {
			b, err := store.Aggregation.Encode(store.Row{Value: []byte{}, Headers: headers})
			require.NoError(h, err)
			index = hex.EncodeToString(b)
		}
		rows[hex.EncodeToString(h.model.index(r))] = index
	}
	for name, d := range dumps {
		require.Equal(h, want[name], h.rows(p, d), "%s: rows of %s", p.text, name)
	}
}

// checkLegacy compares which rows are still in an older family, and looks whether segments
// are in different modes.
func (h *timedHandover) checkLegacy(p part, dumps map[string]dump) {
	formats := h.formats(p.format)
	legacy := map[string]bool{}
	old, new := false, false
	for _, d := range dumps {
		n := 0
		for _, f := range formats[:len(formats)-1] {
			for k := range d[f.Family] {
				if h.ordered && k[:2] == "01" {
					continue
				}
				legacy[string(unhex(h.T, k))] = true
				n++
			}
		}
		old, new = old || n > 0, new || n == 0
	}
	h.modes = h.modes || old && new
	switch {
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

func (h *timedHandover) checkPosition(p part, dumps map[string]dump) {
	for name, d := range dumps {
		at := h.position(d)
		if p.kafka && at > h.model.position && len(h.last) > 0 {
			require.Less(h, at, h.next, p.text)
			h.model.position = at // by a read that moved a row
		}
		require.Equal(h, h.model.position, at, "%s: position of %s", p.text, name)
	}
}

// checkFamilies: a timestamped family that has run empty is dropped at the next open, and
// none with rows is.
func (h *timedHandover) checkFamilies(p part, dumps map[string]dump) {
	known := []string{rocks.Default, rocks.Offsets}
	for _, f := range h.formats(p.format) {
		known = append(known, f.Family)
	}
	for segment, d := range dumps {
		for name := range d {
			require.Contains(h, known, name, "%s: %s", p.text, segment)
		}
		before, ok := h.last[segment][migration.TimestampedFamily]
		if ok && p.format == "headers" && p.drain == 0 {
			_, left := d[migration.TimestampedFamily]
			require.Equal(h, len(before) > 0, left, "%s: family %s of %s", p.text, migration.TimestampedFamily, segment)
		}
	}
}

// killed: every row up to the last record logged. Nothing has expired in such a scenario.
func (h *timedHandover) killed(p part, ops []scriptOp, answers []json.RawMessage, committed int) {
	start := h.model.clone()
	h.compare(p, ops, answers)
	for i := len(answers); i < len(ops); i++ {
		h.do(ops[i], h.next+int64(i)) // some of it may have been done
	}
	got, end := h.cluster.log(h.topic(), h.logged)
	require.NotEmpty(h, got, p.text)
	require.Less(h, len(got), len(h.model.writes), "%s: killed too late", p.text)
	h.exactLog(p, h.model.writes[:len(got)], got)

	dumps := h.dumps()
	offsets, least := map[string]int64{}, end
	for name, d := range dumps {
		offsets[name] = d.long(h.T, h.topic()+"-0")
		least = min(least, offsets[name])
	}
	h.Logf("%s: killed after %d of %d answers, %d records logged up to offset %d, input committed up to %d; offsets on disk: %v, status %v",
		p.text, len(answers), len(ops), len(got), end-1, h.next+int64(committed), offsets, slices.Collect(maps.Values(h.status())))
	h.model = start.clone()
	if !p.kafka && len(dumps) > 0 {
		// Each segment holds what some commit left, no less than the least of them.
		for name, d := range dumps {
			h.model = start.clone()
			h.apply(got, offsets[name])
			h.checkRows(p, map[string]dump{name: d})
		}
		h.model = start.clone()
	}
	if p.small {
		require.Greater(h, least, int64(-1), "%s: no commit reached the disk", p.text)
	}
	h.apply(got, end)
	h.last = nil
	if p.kafka && p.small {
		h.unsure = len(ops) - committed
	}
}

// apply restores records of the changelog into the model.
func (h *timedHandover) apply(list []logRecord, upTo int64) {
	for _, r := range list {
		if r.Offset > upTo {
			return
		}
		h.model.restore(h.T, r)
	}
}
