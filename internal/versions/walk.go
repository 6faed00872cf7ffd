package versions

import (
	"bytes"
	"slices"

	"github.com/forebay-streams/forebay/store"
)

// Walk goes over a key's versions that were valid at some time in [From, To]. It has
// copied the rows and is independent of the store.
type Walk struct {
	From, To  int64
	Ascending bool
	// Damaged is called for each row that was found out of order.
	Damaged func()

	rows []walkRow // in order of the walk
	rest []Version // of the row that the walk is in
	now  Version
	err  error
}

// walkRow is a physical row.
type walkRow struct{ key, value []byte }

// Read copies the rows, for a walk that has not begun. There is no upper limit to the
// segments: versions are filed by their end, which can be long after To. Before the bound
// of times only the latest version is known for certain.
func (w *Walk) Read(rows Reader, times *Times, key []byte) error {
	segments := times.Segments[times.since(times.Segment(w.From)):]
	if times.Late(w.To) {
		segments = nil
	}
	ids := append(slices.Clone(segments), Latest) // ascending in time
	if !w.Ascending {
		slices.Reverse(ids)
	}
	w.rows = w.rows[:0]
	var scratch []byte
	for _, id := range ids {
		k := AppendKey(nil, id, key)
		row, ok, err := rows.Get(k, &scratch)
		if err != nil {
			return err
		}
		if ok {
			w.rows = append(w.rows, walkRow{k, bytes.Clone(row.Value)})
		}
	}
	return nil
}

// Next goes to the next version, the first at first; false at the end or for Err.
func (w *Walk) Next() bool {
	for len(w.rest) == 0 {
		if len(w.rows) == 0 || w.err != nil {
			return false
		}
		row := w.rows[0]
		w.rows = w.rows[1:]
		if w.rest, w.err = w.open(row); w.err != nil {
			w.err = store.Locate(w.err, "", "", row.key)
		}
	}
	w.now, w.rest = w.rest[0], w.rest[1:]
	return true
}

// Version is the current one. Its value stays valid.
func (w *Walk) Version() Version { return w.now }

// Err is what ended the walk early.
func (w *Walk) Err() error { return w.err }

// open returns the versions of a row that are wanted, in order.
func (w *Walk) open(row walkRow) ([]Version, error) {
	if IsLatest(row.key) {
		e, err := DecodeLatest(row.value)
		if err != nil || e.From > w.To {
			return nil, err
		}
		return []Version{{e.From, Forever, e.Value}}, nil
	}
	r, damaged, err := Decode(row.value, nil)
	if err != nil {
		return nil, err
	}
	if damaged {
		w.Damaged()
	}
	var list []Version
	to := r.Next
	for _, e := range r.Entries {
		if e.Value != nil && e.From <= w.To && to > w.From {
			list = append(list, Version{e.From, to, e.Value})
		}
		to = e.From
	}
	if w.Ascending {
		slices.Reverse(list)
	}
	return list, nil
}
