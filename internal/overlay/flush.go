package overlay

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/forebay-streams/forebay/store"
)

// Forward says what becomes of cached writes when they are flushed.
type Forward struct {
	// Call takes each write once it is logged. It may read and write this overlay and
	// others: what it writes here is flushed by the same flush. Nil: nothing is forwarded.
	Call func(Forwarded) error
	// Old asks for old rows.
	Old bool
	// Record is the record being processed, which the owner changes.
	Record *store.Record
	// Shown tells whether reads show what is stored under a key; nil: they do.
	Shown func(key []byte) bool
}

// Forwarded is a write that was flushed. Its bytes are valid during the call.
type Forwarded struct {
	Key []byte
	// New is a tombstone for a delete.
	New store.Row
	// Old is what was logged or committed last, a tombstone if that was nothing, or was not
	// asked for.
	Old store.Row
	// Record is the one that the key was last written under.
	Record store.Record
}

// forwarding is the state of a Forward.
type forwarding struct {
	call     func(Forwarded) error
	old      bool
	record   *store.Record
	shown    func(key []byte) bool
	scratch  []byte // of the old row
	flushing bool   // a flush is under way, perhaps in a call
	// failed is the first error of a call: what was to be forwarded then is lost, so nothing
	// may be committed until an abort.
	failed error
}

// held is what a dirty entry keeps so that it can be forwarded.
type held struct {
	record store.Record // owns its bytes
	// below is what the key had when the entry became dirty; known is false when only the
	// table can tell.
	below store.Row
	known bool
}

func (h *held) size() int {
	return int(unsafe.Sizeof(held{})) + store.Row{Headers: h.record.Headers}.Size() + h.below.Size()
}

// SetForward begins to forward what is written from now on; without a cache it answers
// false, and nothing is.
func (o *Overlay) SetForward(f Forward) bool {
	o.forward.call, o.forward.old, o.forward.record, o.forward.shown = f.Call, f.Old, f.Record, f.Shown
	if !o.config.Cache {
		o.forward.call = nil
	}
	return o.forward.call != nil
}

// own returns the record being processed so that it can be kept.
func (f *forwarding) own() (*store.Record, error) {
	if f.call == nil || f.record.Headers.Empty() {
		return f.record, nil
	}
	own := *f.record
	var err error
	own.Headers, err = f.record.Headers.Pack()
	return &own, err
}

// present stands for a row of which only its being there matters.
var present = store.Row{Value: []byte{}}

// keepBelow is called before a row of the table, or a staged one, is overwritten.
func (f *forwarding) keepBelow(e *entry) {
	if f.call == nil || e.state == dirty {
		return
	}
	e.held = &held{below: e.row, known: true}
	e.void = e.void || e.state == clean // nothing of this key is to be committed yet
	if !f.old && !e.row.Tombstone() {
		e.held.below = present
	}
}

// hold is called for an entry that is dirty now.
func (f *forwarding) hold(e *entry, record *store.Record) {
	if f.call == nil {
		return
	}
	if e.held == nil {
		e.held = &held{}
	}
	e.held.record = *record
}

// maxPasses bounds how often a flush begins anew because its calls wrote something.
const maxPasses = 10_000

// flushDirty flushes until nothing is dirty, a given entry first.
func (o *Overlay) flushDirty(first *entry) error {
	f := &o.forward
	if f.flushing {
		return errors.New("the flush listener may not flush or commit its own store")
	}
	if f.failed != nil {
		return f.failed
	}
	f.flushing = true
	defer func() { f.flushing = false }()
	if first != nil {
		if err := o.flushEntry(first); err != nil {
			return err
		}
	}
	for pass := 0; o.dirty.first != nil; pass++ {
		if pass == maxPasses {
			return fmt.Errorf("the flush does not come to rest: its listener has written to the store in %d passes", maxPasses)
		}
		for n := o.dirty.n; n > 0 && o.dirty.first != nil; n-- {
			if err := o.flushEntry(o.dirty.first); err != nil {
				return err
			}
		}
	}
	return nil
}

// flushEntry logs a dirty row, which is then staged, and forwards it. A delete of what was
// never there is neither logged nor forwarded if there is somebody to forward to.
func (o *Overlay) flushEntry(e *entry) (err error) {
	forwards := o.forwards(e)
	var old store.Row
	hidden := false
	if forwards && (o.forward.old || e.row.Tombstone()) {
		if old, hidden, err = o.below(e); err != nil {
			return err
		}
	}
	nothing := forwards && e.row.Tombstone() && old.Tombstone()
	if !nothing {
		if err := o.log(e.keyBytes(), &e.row, e.logAt); err != nil {
			return err
		}
	}
	o.mu.Lock()
	o.dirty.remove(e)
	o.used.remove(e)
	o.addCache(-e.size())
	e.state = staged
	h := e.held
	if h != nil {
		o.addUncommitted(-int64(h.size()))
		e.held = nil
	}
	switch {
	case !nothing || hidden:
		e.void = false
	case !h.known:
		e.void = true
	}
	o.mu.Unlock()
	if !forwards || nothing {
		return nil
	}
	if !o.forward.old {
		old = store.Row{}
	}
	return o.callForward(Forwarded{Key: e.keyBytes(), New: e.row, Old: old, Record: h.record})
}

func (o *Overlay) callForward(f Forwarded) error {
	err := o.forward.call(f)
	if err != nil && o.forward.failed == nil {
		o.forward.failed = err
	}
	return err
}

// forwards tells whether an entry is forwarded: not if it was written before there was
// anybody to forward to, nor if it only accompanies another.
func (o *Overlay) forwards(e *entry) bool {
	return o.forward.call != nil && e.held != nil && o.isLogged(e.keyBytes())
}

// isLogged tells whether a key has a counterpart in the changelog.
func (o *Overlay) isLogged(key []byte) bool {
	if o.config.LogKey == nil {
		return true
	}
	_, ok := o.config.LogKey(key)
	return ok
}

// below is the row that lies below a dirty one. A row that reads do not show any more is
// none, though it is there.
func (o *Overlay) below(e *entry) (row store.Row, hidden bool, err error) {
	if shown := o.forward.shown; shown != nil && !shown(e.keyBytes()) {
		return row, true, nil
	}
	if e.held.known {
		return e.held.below, false, nil
	}
	row, ok, err := o.table.Get(e.keyBytes(), &o.forward.scratch)
	if !ok {
		row = store.Row{}
	}
	return row, false, err
}

// passForwarded is Pass of a write that is forwarded at once. What passes has no row below.
func (o *Overlay) passForwarded(key []byte, row store.Row, record *store.Record) error {
	own, err := o.forward.own()
	if err != nil {
		return err
	}
	if row.Tombstone() {
		o.position.advance(record)
		return nil
	}
	if err := o.log(key, &row, record.Timestamp); err != nil {
		return err
	}
	o.position.advance(record)
	_ = o.callForward(Forwarded{Key: key, New: row, Record: *own}) // kept for the next flush
	return nil
}
