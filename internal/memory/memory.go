// Package memory is the table of in-memory stores: an ordered map whose snapshots cost
// nothing until the next write.
package memory

import (
	"bytes"
	"sync"

	"github.com/tidwall/btree"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/store"
)

// Table holds committed rows in memory. It implements base.Table.
type Table struct {
	layout store.Layout

	mu         sync.RWMutex
	rows       *btree.BTreeG[store.Change]
	checkpoint base.Checkpoint
	known      bool
	closed     bool
}

var _ base.Table = (*Table)(nil)

func less(a, b store.Change) bool { return bytes.Compare(a.Key, b.Key) < 0 }

// New makes an empty table that keeps of a row what the layout can hold.
func New(layout store.Layout) *Table {
	return &Table{layout: layout, rows: newRows(), checkpoint: base.Checkpoint{Offset: store.UnknownOffset}}
}

func newRows() *btree.BTreeG[store.Change] {
	// The table has a lock of its own.
	return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
}

// Get returns the row itself: rows in the table never change.
func (t *Table) Get(key []byte, _ *[]byte) (store.Row, bool, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.closed {
		return store.Row{}, false, store.ErrClosed
	}
	c, ok := t.rows.Get(store.Change{Key: key})
	return c.Row, ok, nil
}

// Scan walks over a snapshot.
func (t *Table) Scan(span base.Span) base.Cursor {
	s, err := t.Snapshot()
	if err != nil {
		return base.Failed(err)
	}
	return s.Scan(span)
}

// Snapshot shares the tree, copied on the next write.
func (t *Table) Snapshot() (base.Snapshot, error) {
	// Copy marks the tree's nodes as shared, so it is a write.
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, store.ErrClosed
	}
	return &snapshot{t.rows.Copy()}, nil
}

type snapshot struct{ rows *btree.BTreeG[store.Change] }

func (s *snapshot) Get(key []byte, _ *[]byte) (store.Row, bool, error) {
	c, ok := s.rows.Get(store.Change{Key: key})
	return c.Row, ok, nil
}

func (s *snapshot) Scan(span base.Span) base.Cursor {
	span.From, span.To = bytes.Clone(span.From), bytes.Clone(span.To) // the caller may reuse them
	return &cursor{iter: s.rows.Iter(), span: span}
}

func (s *snapshot) Close() {}

// Comb walks over a snapshot of a table whose keys begin with a prefix.
func (t *Table) Comb(c base.Comb) base.Cursor {
	s, err := t.Snapshot()
	if err != nil {
		return base.Failed(err)
	}
	c.From, c.To = bytes.Clone(c.From), bytes.Clone(c.To)
	return &comb{cursor: cursor{iter: s.(*snapshot).rows.Iter()}, comb: c}
}

// DeleteBelow deletes the rows whose keys are below the given one.
func (t *Table) DeleteBelow(key []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		first, ok := t.rows.Min()
		if !ok || bytes.Compare(first.Key, key) >= 0 {
			return
		}
		t.rows.PopMin()
	}
}

// Checkpoint is that of the last commit of this process: memory keeps nothing else.
func (t *Table) Checkpoint() (base.Checkpoint, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	c := t.checkpoint
	c.Position = c.Position.Clone()
	return c, t.known
}

// Commit applies the changes. It keeps their bytes.
func (t *Table) Commit(changes []store.Change, c base.Checkpoint) error {
	return t.CommitAlso(changes, c, base.Also{})
}

// CommitAlso drops a span first. There is no place for notes.
func (t *Table) CommitAlso(changes []store.Change, c base.Checkpoint, also base.Also) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return store.ErrClosed
	}
	if also.Drop != nil {
		t.drop(*also.Drop)
	}
	for _, change := range changes {
		if change.Tombstone() {
			t.rows.Delete(change)
			continue
		}
		t.rows.Set(store.Change{Key: change.Key, Row: t.keep(change.Row)})
	}
	t.checkpoint, t.known = c, c.Logged && c.Offset != store.UnknownOffset
	t.checkpoint.Position = c.Position.Clone()
	return nil
}

func (t *Table) drop(span base.Span) {
	var dead []store.Change
	t.rows.Ascend(store.Change{Key: span.From}, func(c store.Change) bool {
		if !span.Below(c.Key) {
			return false
		}
		dead = append(dead, c)
		return true
	})
	for _, c := range dead {
		t.rows.Delete(c)
	}
}

func (t *Table) keep(r store.Row) store.Row {
	if !t.layout.HasTimestamp() {
		r.Timestamp = store.NoTimestamp
	}
	if !t.layout.HasHeaders() {
		r.Headers = store.Headers{}
	}
	return r
}

// Flush has nothing to do.
func (t *Table) Flush() error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.closed {
		return store.ErrClosed
	}
	return nil
}

// ApproximateCount is exact here.
func (t *Table) ApproximateCount() (int64, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.closed {
		return 0, store.ErrClosed
	}
	return int64(t.rows.Len()), nil
}

// Wipe empties the table.
func (t *Table) Wipe() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return store.ErrClosed
	}
	t.clear()
	return nil
}

func (t *Table) clear() {
	t.rows, t.known = newRows(), false
	t.checkpoint = base.Checkpoint{Offset: store.UnknownOffset}
}

// Close drops the rows; snapshots keep theirs.
func (t *Table) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clear()
	t.closed = true
	return nil
}

// cursor walks over a snapshot's tree.
type cursor struct {
	iter    btree.IterG[store.Change]
	span    base.Span
	started bool
	done    bool // the end was reached: the iterator would begin again from there
	item    store.Change
	err     error
}

func (c *cursor) Next() bool {
	if c.done || c.err != nil {
		return false
	}
	if !c.move() || !c.within(c.iter.Item().Key) {
		c.done, c.item = true, store.Change{}
		return false
	}
	c.item = c.iter.Item()
	return true
}

// within looks at the end that the walk has not passed yet.
func (c *cursor) within(key []byte) bool {
	if c.span.Reverse {
		return c.span.From == nil || bytes.Compare(key, c.span.From) >= 0
	}
	return c.span.Below(key)
}

// move steps the iterator, to the first row of the span at first.
func (c *cursor) move() bool {
	first := !c.started
	c.started = true
	switch {
	case !first && c.span.Reverse:
		return c.iter.Prev()
	case !first:
		return c.iter.Next()
	case !c.span.Reverse && c.span.From == nil:
		return c.iter.First()
	case !c.span.Reverse:
		return c.iter.Seek(store.Change{Key: c.span.From})
	case c.span.To == nil:
		return c.iter.Last()
	}
	// Seek stands at the first key ≥ To: step back over what the span leaves out.
	ok := c.iter.Seek(store.Change{Key: c.span.To})
	if !ok {
		return c.iter.Last()
	}
	for ok && !c.span.Below(c.iter.Item().Key) {
		ok = c.iter.Prev()
	}
	return ok
}

func (c *cursor) Key() []byte     { return c.item.Key }
func (c *cursor) Row() *store.Row { return &c.item.Row }
func (c *cursor) Err() error      { return c.err }

// Close ends the walk. Its rows stay valid: they are the table's own.
func (c *cursor) Close() {
	if !c.done && c.err == nil {
		c.err = store.ErrClosed
	}
	c.item = store.Change{}
}
