package overlay

import (
	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/store"
)

// Scan walks over overlay and table as they are now: later writes do not show.
func (o *Overlay) Scan(span base.Span) base.Cursor {
	if o.pending == 0 {
		return o.table.Scan(span)
	}
	o.mu.Lock()
	rows := o.copyRange(span)
	o.mu.Unlock()
	return overlaid(rows, o.table.Scan(span), span.Reverse)
}

// copyRange returns the uncommitted rows of a span in its order. The caller holds the
// lock for writing.
func (o *Overlay) copyRange(span base.Span) []store.Change {
	o.order()
	var rows []store.Change
	add := func(e *entry) bool {
		rows = append(rows, store.Change{Key: e.keyBytes(), Row: e.row})
		return true
	}
	switch {
	case span.Reverse && span.To == nil:
		o.tree.Reverse(func(e *entry) bool { return span.Contains(e.keyBytes()) && add(e) })
	case span.Reverse:
		o.tree.Descend(&entry{key: string(span.To)}, func(e *entry) bool {
			if !span.Below(e.keyBytes()) {
				return true // the excluded end itself
			}
			return span.Contains(e.keyBytes()) && add(e)
		})
	case span.From == nil:
		o.tree.Scan(func(e *entry) bool { return span.Below(e.keyBytes()) && add(e) })
	default:
		o.tree.Ascend(&entry{key: string(span.From)}, func(e *entry) bool { return span.Below(e.keyBytes()) && add(e) })
	}
	return rows
}

// Comb is Scan over the teeth of a comb. The table must be one of segments.
func (o *Overlay) Comb(c base.Comb) base.Cursor {
	if o.pending == 0 {
		return o.table.(base.Combed).Comb(c)
	}
	o.mu.Lock()
	rows := o.copyComb(c)
	o.mu.Unlock()
	return overlaid(rows, o.table.(base.Combed).Comb(c), c.Reverse)
}

// copyComb is copyRange for a comb.
func (o *Overlay) copyComb(c base.Comb) (rows []store.Change) {
	o.order()
	it := o.tree.Iter()
	seek := func(key []byte) bool {
		switch {
		case !c.Reverse:
			return it.Seek(&entry{key: string(key)})
		case key == nil || !it.Seek(&entry{key: string(key)}):
			return it.Last()
		}
		return it.Prev()
	}
	ok := seek(c.Start(nil))
	for ok {
		e := it.Item()
		step, at := c.Step(nil, e.keyBytes())
		switch {
		case step == base.CombSeek:
			ok = seek(at)
			continue
		case step == base.CombEnd:
			return rows
		}
		rows = append(rows, store.Change{Key: e.keyBytes(), Row: e.row})
		if c.Reverse {
			ok = it.Prev()
		} else {
			ok = it.Next()
		}
	}
	return rows
}

func overlaid(rows []store.Change, table base.Cursor, reverse bool) base.Cursor {
	if len(rows) == 0 {
		return table
	}
	return base.Merge(base.Slice(rows), table, reverse)
}

// View reads from any goroutine. With uncommitted it sees what the owner sees, else
// only commits.
type View struct {
	overlay     *Overlay
	uncommitted bool
}

// View returns a view, which needs no closing.
func (o *Overlay) View(uncommitted bool) *View { return &View{o, uncommitted} }

// Get returns a row, which may borrow scratch.
func (v *View) Get(key []byte, scratch *[]byte) (store.Row, bool, error) {
	if v.uncommitted {
		v.overlay.mu.RLock()
		e := v.overlay.entries[string(key)]
		var row store.Row
		if e != nil {
			row = e.row
		}
		v.overlay.mu.RUnlock()
		if e != nil {
			return row, !row.Tombstone(), nil
		}
	}
	return v.overlay.table.Get(key, scratch)
}

// Scan walks over the rows of one moment: a whole commit or none of it.
func (v *View) Scan(span base.Span) base.Cursor {
	if !v.uncommitted {
		return v.overlay.table.Scan(span)
	}
	v.overlay.mu.Lock()
	defer v.overlay.mu.Unlock()
	// Under one lock: a commit writes the table before it empties the overlay, so a row
	// is seen here or there.
	return overlaid(v.overlay.copyRange(span), v.overlay.table.Scan(span), span.Reverse)
}

// Comb is Scan over the teeth of a comb.
func (v *View) Comb(c base.Comb) base.Cursor {
	table := v.overlay.table.(base.Combed)
	if !v.uncommitted {
		return table.Comb(c)
	}
	v.overlay.mu.Lock()
	defer v.overlay.mu.Unlock()
	return overlaid(v.overlay.copyComb(c), table.Comb(c), c.Reverse)
}
