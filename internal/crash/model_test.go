package crash

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/forebay-streams/forebay/store"
)

// rows is the content of a store by key.
type rows map[string]store.Row

// apply does to the rows what a store of that layout does with a change.
func (r rows) apply(c store.Change, layout store.Layout) {
	if c.Tombstone() {
		delete(r, string(c.Key))
		return
	}
	r[string(c.Key)] = keep(c.Row, layout)
}

// keep strips a row of what the layout does not hold.
func keep(row store.Row, layout store.Layout) store.Row {
	if !layout.HasTimestamp() {
		row.Timestamp = store.NoTimestamp
	}
	if !layout.HasHeaders() {
		row.Headers = store.Headers{}
	}
	return row
}

// difference between rows that should be there and rows that are.
type difference struct {
	Lost, Invented int
	Lines          []string // the first ones, by key
}

func (d difference) any() bool { return d.Lost+d.Invented > 0 }

const maxLines = 10

func (d *difference) add(key, line string, args ...any) {
	if len(d.Lines) < maxLines {
		d.Lines = append(d.Lines, fmt.Sprintf("key %q: %s", key, fmt.Sprintf(line, args...)))
	}
}

// compare counts a row that differs as one lost and one invented.
func compare(want, got rows, same func(a, b store.Row) bool) (d difference) {
	for _, key := range slices.Sorted(maps.Keys(want)) {
		g, ok := got[key]
		switch {
		case !ok:
			d.Lost++
			d.add(key, "lost %s", show(want[key]))
		case !same(want[key], g):
			d.Lost++
			d.Invented++
			d.add(key, "lost %s, invented %s", show(want[key]), show(g))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[key]; !ok {
			d.Invented++
			d.add(key, "invented %s", show(got[key]))
		}
	}
	return d
}

func equal(a, b store.Row) bool {
	return bytes.Equal(a.Value, b.Value) && a.Timestamp == b.Timestamp && a.Headers.Equal(b.Headers) && a.Headers.Err() == nil && b.Headers.Err() == nil
}

// sameValue is for rows whose timestamps and headers depend on when their directory
// changed its format.
func sameValue(a, b store.Row) bool { return bytes.Equal(a.Value, b.Value) }

func show(r store.Row) string {
	value := r.Value
	if len(value) > 16 {
		value = value[:16]
	}
	s := fmt.Sprintf("%d bytes %x at %d", len(r.Value), value, r.Timestamp)
	for h := range r.Headers.All() {
		s += fmt.Sprintf(" %q=%q", h.Key, h.Value)
	}
	return s
}

// logged is a change and its offset in the changelog.
type logged struct {
	offset int64
	change store.Change
}

// view is a changelog as a reader of the guarantee sees it.
type view struct {
	records []logged
	end     int64 // offset of the last frame, -1 when there is none
	input   int64 // exactly-once: the committed input offset
	marker  int64 // exactly-once: offset of the last commit
	open    int   // exactly-once: records of a transaction without an end
	valid   int   // bytes of whole frames
}

// readLog reads a changelog file. Exactly-once it leaves out what was aborted, or has no
// end.
func readLog(path string, exactlyOnce bool) (view, error) {
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return view{}, err
	}
	frames, valid := parseFrames(b)
	v := view{end: int64(len(frames)) - 1, marker: -1, valid: valid}
	for i, f := range frames {
		switch f.kind {
		case record:
			v.records = append(v.records, logged{int64(i), f.change})
			v.open++
		case commit:
			v.input, v.marker, v.open = f.n, int64(i), 0
		case abort:
			if exactlyOnce {
				v.records = v.records[:len(v.records)-v.open]
			}
			v.open = 0
		}
	}
	if exactlyOnce {
		v.records = v.records[:len(v.records)-v.open]
	} else {
		v.open = 0
	}
	return v, nil
}

// origin is what a directory held when it got its present format: older rows do not come
// from the changelog as this format would write them.
type origin struct {
	rows   rows
	offset int64 // of the last record it contains, -1 when there is none
}

// replay returns the rows after the record at an offset.
func (o origin) replay(v view, upTo int64, layout store.Layout) rows {
	out := maps.Clone(o.rows)
	for _, r := range v.records {
		if r.offset > o.offset && r.offset <= upTo {
			out.apply(r.change, layout)
		}
	}
	return out
}

func writeRows(path string, r rows) error {
	var b []byte
	for key, row := range r {
		b = appendFrame(b, frame{kind: record, change: store.Change{Key: []byte(key), Row: row}})
	}
	return os.WriteFile(path, b, 0o644)
}

func readRows(path string) (rows, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	frames, valid := parseFrames(b)
	if valid < len(b) {
		return nil, fmt.Errorf("%s is torn", path)
	}
	r := rows{}
	for _, f := range frames {
		r[string(f.change.Key)] = f.change.Row
	}
	return r, nil
}
