// Package overlay holds the rows that a table does not have yet: writes of the current
// round, and a cache of committed rows. An abort drops it, and the table is untouched.
package overlay

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tidwall/btree"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/failpoint"
	"github.com/forebay-streams/forebay/internal/keysort"
	"github.com/forebay-streams/forebay/store"
)

// Config of an overlay.
type Config struct {
	// Name is the store's, for messages.
	Name   string
	Layout store.Layout
	// Log takes every change before it is staged; nil: no changelog.
	Log store.Changelog
	// Cache holds writes back until a flush and keeps rows that were read.
	Cache bool
	// Budget counts and limits bytes; it is never nil.
	Budget *store.Budget
	// InMemory says that the table keeps the bytes of the rows it is given.
	InMemory bool
	// LogHeaders logs the rows' headers though the layout does not keep them.
	LogHeaders bool
	// LogKey turns a row's key into that of its changelog record, whose bytes never change
	// afterwards if the row's do not; ok is false for a row that is not logged. Nil: the
	// keys are the same.
	LogKey func(key []byte) (logged []byte, ok bool)
}

// Overlay stands in front of a table. One owner writes and reads; other goroutines read
// through a [View].
//
// Invariants: an entry is in the recency list iff it is clean or dirty; in the dirty
// list iff dirty; in fresh or tree, once, iff dirty or staged. Rows in entries own
// their bytes, which never change. Without caching every entry is staged.
type Overlay struct {
	config Config
	table  base.Table

	// mu guards all below for other goroutines: the owner holds it while it changes
	// something and needs no lock to look.
	mu      sync.RWMutex
	entries map[string]*entry
	used    recency
	dirty   writes
	fresh   []keysort.Place[*entry] // uncommitted, not yet in the tree: most rounds never scan
	tree    *btree.BTreeG[*entry]

	// What follows is the owner's alone.
	pending   int // number of uncommitted entries
	position  position
	committed bool      // whether this process has committed once
	volatile  time.Time // when the first commit was written that no flush has made durable; zero: none
	early     bool      // whether too many uncommitted bytes ask for a commit
	forward   forwarding

	cacheBytes, uncommittedBytes int64
	spare                        []entry // see newEntry
}

// New puts an empty overlay in front of a table.
func New(table base.Table, config Config) *Overlay {
	o := &Overlay{config: config, table: table, entries: map[string]*entry{}}
	o.tree = newTree()
	return o
}

func newTree() *btree.BTreeG[*entry] {
	return btree.NewBTreeGOptions(lessEntry, btree.Options{NoLocks: true})
}

// Get returns the newest row, which may borrow scratch.
func (o *Overlay) Get(key []byte, scratch *[]byte) (store.Row, bool, error) {
	if e := o.entries[string(key)]; e != nil {
		if e.state != staged && o.used.newest != e {
			o.mu.Lock()
			o.used.remove(e)
			o.used.push(e)
			o.mu.Unlock()
		}
		return e.row, !e.row.Tombstone(), nil
	}
	row, ok, err := o.table.Get(key, scratch)
	if err != nil || !o.config.Cache {
		return row, ok, err
	}
	row = row.Clone()
	o.mu.Lock()
	e := o.newEntry(string(key), row)
	o.used.push(e)
	o.addCache(e.size())
	o.mu.Unlock()
	o.evict()
	return row, ok, nil
}

// Put writes a row, or deletes its key if the row is a tombstone. It keeps the row's
// value and copies key and headers. Without caching the change is logged at once; if that
// fails, nothing is written.
func (o *Overlay) Put(key []byte, row store.Row, record *store.Record) error {
	under, err := o.forward.own()
	if err != nil {
		return err
	}
	k, err := o.own(key, &row)
	if err != nil {
		return err
	}
	if err := o.logOrCheck(keyBytes(k), &row, record.Timestamp); err != nil {
		return err
	}
	row.Headers = o.kept(row.Headers)
	o.mu.Lock()
	o.put(k, row, record, under)
	o.mu.Unlock()
	o.evict()
	return nil
}

// kept are the headers that a row has once it is logged: those that the layout keeps.
func (o *Overlay) kept(h store.Headers) store.Headers {
	if !o.config.Layout.HasHeaders() {
		return store.Headers{}
	}
	return h
}

// PutAll writes changes in order as Put does; other goroutines see all or none of them.
// If logging one fails, those before it stay written.
func (o *Overlay) PutAll(changes []store.Change, record *store.Record) error {
	changes = slices.Clone(changes)
	keys := make([]string, len(changes))
	for i := range changes {
		var err error
		keys[i] = o.ownKey(changes[i].Key)
		if changes[i].Headers, err = changes[i].Headers.Pack(); err != nil {
			return err
		}
	}
	under, err := o.forward.own()
	if err != nil {
		return err
	}
	for i := range changes {
		if err = o.logOrCheck(keyBytes(keys[i]), &changes[i].Row, record.Timestamp); err != nil {
			changes = changes[:i]
			break
		}
	}
	o.mu.Lock()
	for i, c := range changes {
		c.Headers = o.kept(c.Headers)
		o.put(keys[i], c.Row, record, under)
	}
	o.mu.Unlock()
	if err == nil {
		o.evict() // may call a listener, which must not meet a caller that takes a write back
	}
	return err
}

// Drop takes a write that is logged and counts in the position, but is never stored.
// With a cache it waits there like any other, so that the changelog has the writes of a
// key in their order: whoever drops rows has the table refuse them.
func (o *Overlay) Drop(key []byte, row store.Row, record *store.Record) error {
	if o.config.Cache {
		return o.Put(key, row, record)
	}
	return o.Pass(key, row, record)
}

// ownKey returns a key that never changes, unlike the caller's buffer: the changelog keeps
// it until its record is acknowledged.
func (o *Overlay) ownKey(key []byte) string {
	if e := o.entries[string(key)]; e != nil {
		return e.key
	}
	return string(key)
}

// own returns the key as ownKey does, and packs the row's headers, which are parts of a
// fetch's buffers. Where keys live for a round only, both are in one piece: one allocation
// less, and one place less where the commit waits for memory. Elsewhere a key would keep the
// headers of a row that was written over.
func (o *Overlay) own(key []byte, row *store.Row) (_ string, err error) {
	if e := o.entries[string(key)]; e != nil || o.config.Cache || o.config.InMemory || !o.config.Layout.HasHeaders() || row.Headers.Empty() {
		row.Headers, err = row.Headers.Pack()
		return o.ownKey(key), err
	}
	both := make([]byte, 0, len(key)+row.Size()-len(row.Value)+binary.MaxVarintLen32)
	if both, err = row.Headers.AppendBlock(append(both, key...)); err != nil {
		return "", err
	}
	row.Headers = store.HeadersFromBlock(both[len(key):])
	return keysort.String(both[:len(key)]), nil
}

func (o *Overlay) put(key string, row store.Row, record, under *store.Record) {
	o.position.advance(record)
	e := o.entries[key]
	if e == nil {
		e = o.newEntry(key, row)
	} else {
		o.forget(e)
		o.forward.keepBelow(e)
		e.row = row
	}
	if e.state == clean {
		o.fresh = append(o.fresh, placed(e))
		o.pending++
	}
	e.state = staged
	if o.config.Cache {
		e.state = dirty
		e.logAt = record.Timestamp
		o.forward.hold(e, under)
		o.used.push(e)
		o.dirty.push(e)
		o.addCache(e.size())
	}
	o.addUncommitted(e.uncommittedSize())
}

// newEntry takes the memory of an entry from a block: rounds without caching drop whole
// blocks, and one allocation for each put would show.
func (o *Overlay) newEntry(key string, row store.Row) *entry {
	if o.config.Cache {
		e := &entry{key: key, row: row}
		o.entries[key] = e
		return e
	}
	if len(o.spare) == 0 {
		o.spare = make([]entry, entryBlock)
	}
	e := &o.spare[0]
	o.spare = o.spare[1:]
	e.key, e.row = key, row
	o.entries[key] = e
	return e
}

// entryBlock is how many entries are made at once.
const entryBlock = 64

// forget takes an entry out of lists and sums, before it changes.
func (o *Overlay) forget(e *entry) {
	if e.state != staged {
		o.used.remove(e)
		o.addCache(-e.size())
	}
	if e.state == dirty {
		o.dirty.remove(e)
	}
	if e.state != clean {
		o.addUncommitted(-e.uncommittedSize())
	}
}

func (o *Overlay) addCache(n int64) {
	o.cacheBytes += n
	o.config.Budget.AddCache(n)
}

func (o *Overlay) addUncommitted(n int64) {
	o.uncommittedBytes += n
	if o.config.Budget.AddUncommitted(n) {
		o.early = true
	}
}

// evict makes room while the budget is exceeded: clean entries go, the first dirty one
// has all dirty rows flushed, itself first. A row that cannot be logged stays: the error is
// the next flush's, not that of whoever read or wrote another key.
func (o *Overlay) evict() {
	for o.config.Cache && o.config.Budget.AddCache(0) && o.used.oldest != nil {
		e := o.used.oldest
		if e.state == dirty {
			if o.forward.failed != nil || o.forward.flushing || o.flushDirty(e) != nil {
				return
			}
			continue
		}
		o.mu.Lock()
		o.forget(e)
		delete(o.entries, e.key)
		o.mu.Unlock()
	}
}

// logOrCheck logs a change at once or, when the cache holds it back, sees to it that it can
// be logged later: else nothing could be committed any more.
func (o *Overlay) logOrCheck(key []byte, row *store.Row, timestamp int64) error {
	if !o.config.Cache {
		return o.log(key, row, timestamp)
	}
	c, ok, err := o.logged(key, row, timestamp)
	if err != nil || !ok {
		return err
	}
	if check, can := o.config.Log.(store.ChangeChecker); can {
		return check.Check(c)
	}
	return c.Headers.Err()
}

func (o *Overlay) log(key []byte, row *store.Row, timestamp int64) error {
	c, ok, err := o.logged(key, row, timestamp)
	if err != nil || !ok {
		return err
	}
	return o.config.Log.Append(c)
}

// logged is a change as a store of this layout logs it: a row's own
// timestamp and headers where the layout keeps them, else the timestamp of the record
// being processed. A negative row timestamp, left by an upgrade from plain rows, cannot
// be sent, so the record's stands in for it.
func (o *Overlay) logged(key []byte, row *store.Row, timestamp int64) (c store.Change, ok bool, err error) {
	if o.config.Log == nil {
		return c, false, nil
	}
	if o.config.LogKey != nil {
		if key, ok = o.config.LogKey(key); !ok {
			return c, false, nil
		}
	}
	c = store.Change{Key: key, Row: store.Row{Value: row.Value, Timestamp: timestamp}}
	if !row.Tombstone() && o.config.Layout.HasTimestamp() && row.Timestamp >= 0 {
		c.Timestamp = row.Timestamp
	}
	if o.config.Layout.HasHeaders() || o.config.LogHeaders {
		c.Headers = row.Headers
	}
	if c.Timestamp < 0 {
		return c, false, fmt.Errorf("%w: the changelog needs the timestamp of the record being processed; call SetRecord first", store.ErrNegativeTimestamp)
	}
	return c, true, nil
}

// NeedsCommit tells whether the stores of the budget hold so many uncommitted bytes that
// the next commit should not wait.
func (o *Overlay) NeedsCommit() bool { return o.early }

// Flush logs all dirty rows and waits until the changelog has acknowledged everything.
func (o *Overlay) Flush(ctx context.Context) error {
	_, err := o.flush(ctx)
	return err
}

func (o *Overlay) flush(ctx context.Context) (base.Checkpoint, error) {
	c, _ := o.table.Checkpoint()
	c.Restored = false
	if err := o.flushDirty(nil); err != nil {
		return c, err
	}
	o.position.mergeInto(&c.Position)
	if o.config.Log == nil {
		return c, nil
	}
	c.Logged = true
	last, ok, err := o.config.Log.Flush(ctx)
	if ok {
		c.Offset = last
	}
	return c, err
}

// Commit flushes, and writes all staged rows with the changelog's offset and the
// position in one step. After an error nothing is written and every row still staged:
// commit again, or abort. One that has nothing to write makes an old commit durable.
func (o *Overlay) Commit(ctx context.Context) error {
	if err := o.commit(ctx); err != nil {
		return err
	}
	o.flushOld()
	return nil
}

func (o *Overlay) commit(ctx context.Context) error {
	c, err := o.flush(ctx)
	if err != nil {
		return err
	}
	if o.pending == 0 && o.committed {
		if old, _ := o.table.Checkpoint(); old.Offset == c.Offset && old.Position.Equal(c.Position) {
			return nil
		}
	}
	failpoint.Hit("commit/acknowledged")
	work := takeRound()
	defer work.giveBack()
	if ordered := o.uncommitted(work); !ordered {
		keysort.Sort(work.list, func(e *entry) string { return e.key })
	}
	work.changes = slices.Grow(work.changes, len(work.list))
	for _, p := range work.list {
		if e := p.Item; !e.void {
			work.changes = append(work.changes, store.Change{Key: e.keyBytes(), Row: e.row})
		}
	}
	if err := o.table.Commit(work.changes, c); err != nil {
		return err
	}
	o.wrote()
	o.mu.Lock()
	o.committed = true
	o.position = position{}
	o.settle(work.list)
	o.mu.Unlock()
	o.evict()
	return nil
}

// uncommitted lists the uncommitted entries, and tells whether they are in order of their
// keys. Keys never change: readers need not wait for a sort.
func (o *Overlay) uncommitted(work *round) (ordered bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tree.Len() == 0 {
		work.list = append(work.list, o.fresh...)
		return false
	}
	o.order()
	o.tree.Scan(func(e *entry) bool {
		work.list = append(work.list, keysort.Place[*entry]{Item: e})
		return true
	})
	return true
}

// order moves fresh entries into the tree.
func (o *Overlay) order() {
	for _, p := range o.fresh {
		o.tree.Set(p.Item)
	}
	clear(o.fresh)
	o.fresh = o.fresh[:0]
}

// settle ends a round after its rows were written: they become clean entries, or go.
func (o *Overlay) settle(list []keysort.Place[*entry]) {
	o.addUncommitted(-o.uncommittedBytes)
	o.early = false
	if !o.config.Cache {
		o.drop(list)
		return
	}
	for _, p := range list {
		e := p.Item
		e.state, e.void = clean, false
		o.used.push(e)
		o.addCache(e.size())
	}
	o.clearOrder()
}

// maxKept bounds the memory kept from round to round, in entries.
const maxKept = 1 << 17

func (o *Overlay) drop(list []keysort.Place[*entry]) {
	if len(list) == len(o.entries) && len(list) > maxKept {
		o.entries = map[string]*entry{}
	} else if len(list) == len(o.entries) {
		clear(o.entries)
	} else {
		for _, p := range list {
			delete(o.entries, p.Item.key)
		}
	}
	o.clearOrder()
}

func (o *Overlay) clearOrder() {
	if o.tree.Len() > 0 {
		o.tree = newTree()
	}
	o.pending = 0
	clear(o.fresh)
	o.fresh = o.fresh[:0]
	if cap(o.fresh) > maxKept {
		o.fresh = nil
	}
}

// Abort drops everything that is not committed. Clean entries stay: they were read from
// the table.
func (o *Overlay) Abort() {
	work := takeRound()
	defer work.giveBack()
	o.uncommitted(work)
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range work.list {
		o.forget(p.Item)
	}
	o.drop(work.list)
	o.position = position{}
	o.early = false
	o.forward.failed = nil
}

// Settled fails while there are uncommitted rows.
func (o *Overlay) Settled() error {
	if o.pending > 0 {
		return errors.New("there are uncommitted rows: commit or abort first")
	}
	return nil
}

// Restore applies changes of the changelog straight to the table, in one write with
// their last offset. A key that occurs more than once keeps its last row.
func (o *Overlay) Restore(changes []store.Change, offset int64) (err error) {
	if err := o.Settled(); err != nil {
		return err
	}
	o.Clear()
	c, _ := o.table.Checkpoint()
	c.Logged, c.Restored, c.Offset = true, true, offset
	if bulk, ok := o.table.(base.BulkTable); ok {
		if taken, err := bulk.AddBulk(changes, c); taken {
			return err
		}
	}
	rows := lastOfEach(changes)
	if o.config.InMemory {
		for i := range rows {
			if rows[i], err = owned(rows[i]); err != nil {
				return err
			}
		}
	}
	if err := o.table.Commit(rows, c); err != nil {
		return err
	}
	o.wrote()
	o.flushOld()
	return nil
}

// ForgetClean drops what was read from the table, which has changed since.
func (o *Overlay) ForgetClean() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, e := range o.entries {
		if e.state == clean {
			o.forget(e)
			delete(o.entries, key)
		}
	}
}

// Clear empties cache and round.
func (o *Overlay) Clear() {
	o.Abort()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.addCache(-o.cacheBytes)
	o.used = recency{}
	clear(o.entries)
}
