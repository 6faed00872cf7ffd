package versions

import "slices"

// find returns the version that is valid at t, which must lie in [Min, Next), and its end.
func (r *Row) find(t int64) (i int, to int64) {
	to = r.Next
	for i < len(r.Entries)-1 && r.Entries[i].From > t {
		to = r.Entries[i].From
		i++
	}
	return i, to
}

func (r *Row) insertAt(i int, e Entry) { r.Entries = slices.Insert(r.Entries, i, e) }

// insertLatest adds a version that is newer than all others and ends at to. What it
// overlaps was written twice, by a Java writer that crashed in the middle of a put, and
// goes. A gap before it was a tombstone at the old end.
func (r *Row) insertLatest(e Entry, to int64) {
	if e.From < r.Next {
		if r.placeholder() {
			r.insertEarliest(e)
			return
		}
		r.truncate(e.From)
	}
	switch {
	case r.Next == e.From && r.placeholder():
		r.Entries[0] = e
	case r.Next == e.From || r.placeholder():
		r.insertAt(0, e)
	default:
		r.Entries = slices.Insert(r.Entries, 0, e, Entry{From: r.Next})
	}
	r.Next = to
}

// insertEarliest adds a version that is older than all others and ends where they begin.
func (r *Row) insertEarliest(e Entry) {
	if r.placeholder() {
		r.Entries[0] = e
		return
	}
	r.Entries = append(r.Entries, e)
}

// truncate leaves what was valid before t.
func (r *Row) truncate(t int64) {
	if t <= r.Min() {
		r.Next, r.Entries = t, append(r.Entries[:0], Entry{From: t})
		return
	}
	r.Entries = slices.DeleteFunc(r.Entries, func(e Entry) bool { return e.From >= t })
	r.Next = t
}
