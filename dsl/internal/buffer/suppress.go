// Package buffer holds records back: table rows that are suppressed, and stream records
// that wait for a versioned table. Both are stores of a task: they log what they hold, and
// are restored from that. Keys and values are bytes here.
package buffer

import (
	"cmp"
	"context"
	"fmt"

	"github.com/tidwall/btree"

	"github.com/forebay-streams/forebay/dsl/internal/wire"
	"github.com/forebay-streams/forebay/store"
)

// Config is what a buffer needs to know.
type Config struct {
	Name string
	// Topic and Partition of the changelog, also when there is none.
	Topic     string
	Partition int32
	Log       store.Changelog // nil: not logged
	// Parts says that old and prior values keep timestamp and headers of their own, in the
	// buffer and in the changelog.
	Parts bool
}

// Suppress is the in-memory buffer of suppressed rows, in the order of time and key. A row
// that is updated keeps its place. The changelog gets the last state of each key that
// changed, when the store is flushed. One goroutine owns it.
type Suppress struct {
	config Config
	rows   *btree.BTreeG[*held]
	index  map[string]*held
	size   int64

	dirty   map[string]bool
	changed []string         // the dirty keys, in the order in which they first changed
	undo    map[string]*held // what changed keys were at the last commit; nil: absent
	offset  int64            // of the last changelog record the rows contain
}

// held never changes: an update replaces it.
type held struct {
	key string
	wire.Buffered
}

func earlier(a, b *held) bool {
	return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.key, b.key)) < 0
}

// NewSuppress makes an empty buffer.
func NewSuppress(c Config) *Suppress {
	s := &Suppress{config: c}
	s.clear()
	return s
}

func (s *Suppress) clear() {
	s.rows = btree.NewBTreeGOptions(earlier, btree.Options{NoLocks: true})
	s.index, s.dirty, s.undo = map[string]*held{}, map[string]bool{}, map[string]*held{}
	s.size, s.changed, s.offset = 0, nil, store.UnknownOffset
}

// Put holds a row back, or replaces the one that is held under its key, which keeps its
// place and its prior value. A nil value deletes, a nil old value is none. The context is
// the record's. It keeps value and old, and copies the rest.
func (s *Suppress) Put(time int64, key, value, old []byte, context store.Record) error {
	err := context.Headers.Err() // not first at the commit
	if err == nil {
		context.Headers, err = context.Headers.Pack()
	}
	if err != nil {
		return s.fail("put", err)
	}
	h := &held{key: string(key), Buffered: wire.Buffered{Context: context, New: value, Time: time}}
	before := s.index[h.key]
	if old != nil {
		h.Old = store.Row{Value: old, Timestamp: store.NoTimestamp}
		if before != nil {
			h.Old.Timestamp, h.Old.Headers = before.Context.Timestamp, before.Context.Headers
		}
	}
	h.Prior = h.Old
	if before != nil {
		h.Time, h.Prior = before.Time, before.Prior
	}
	s.change(h.key, h)
	return nil
}

// change puts a row under its key, or removes it, and notes that.
func (s *Suppress) change(key string, to *held) {
	if _, ok := s.undo[key]; !ok {
		s.undo[key] = s.index[key]
	}
	if !s.dirty[key] {
		s.dirty[key] = true
		s.changed = append(s.changed, key)
	}
	s.set(key, to)
}

func (s *Suppress) set(key string, to *held) {
	if from := s.index[key]; from != nil {
		s.rows.Delete(from)
		delete(s.index, key)
		s.size -= from.bytes()
	}
	if to != nil {
		s.rows.Set(to)
		s.index[key] = to
		s.size += to.bytes()
	}
}

// bytes is what the row counts for, as Kafka estimates it.
func (h *held) bytes() int64 {
	const fixed = 8 + // the place
		8 + 8 + 4 // timestamp, offset and partition of the context
	n := fixed + len(h.key) + len(h.New) + len(h.Prior.Value) + len(h.Context.Topic)
	if !h.SamePrior() {
		n += len(h.Old.Value)
	}
	for header := range h.Context.Headers.All() {
		n += len(header.Key) + len(header.Value)
	}
	return int64(n)
}

// Len is the number of rows.
func (s *Suppress) Len() int { return s.rows.Len() }

// Bytes is what the rows count for.
func (s *Suppress) Bytes() int64 { return s.size }

// First is the time of the row that is next; ok is false when there is none.
func (s *Suppress) First() (time int64, ok bool) {
	h, ok := s.rows.Min()
	if !ok {
		return 0, false
	}
	return h.Time, true
}

// Evict removes the row that is next and returns it; ok is false when there is none.
func (s *Suppress) Evict() (key []byte, row wire.Buffered, ok bool) {
	h, ok := s.rows.Min()
	if !ok {
		return nil, row, false
	}
	s.change(h.key, nil)
	return []byte(h.key), h.Buffered, true
}

// Prior is what a held key had before it was first held back, its value nil if nothing: it
// is what those downstream know of it. ok is false for a key that is not held.
func (s *Suppress) Prior(key []byte) (prior store.Row, ok bool) {
	h := s.index[string(key)]
	if h == nil {
		return store.Row{}, false
	}
	return h.Prior, true
}

// Name is the store's name.
func (s *Suppress) Name() string { return s.config.Name }

// Flush logs the keys that have changed, and returns once the changelog has them.
func (s *Suppress) Flush(ctx context.Context) error {
	if s.config.Log == nil {
		s.dirty, s.changed = map[string]bool{}, nil
		return nil
	}
	for len(s.changed) > 0 {
		key := s.changed[0]
		change := store.Change{Key: []byte(key), Row: store.Row{Timestamp: store.NoTimestamp}}
		if h := s.index[key]; h != nil {
			var err error
			if change.Value, change.Headers, err = wire.EncodeBuffered(h.Buffered, s.config.Parts); err != nil {
				return s.fail("flush", err)
			}
		}
		if err := s.config.Log.Append(change); err != nil {
			return s.fail("flush", err)
		}
		delete(s.dirty, key)
		s.changed = s.changed[1:]
	}
	last, ok, err := s.config.Log.Flush(ctx)
	if ok && err == nil {
		s.offset = last
	}
	return s.fail("flush", err)
}

// Commit flushes; an abort goes back to here.
func (s *Suppress) Commit(ctx context.Context) error {
	if err := s.Flush(ctx); err != nil {
		return err
	}
	s.undo = map[string]*held{}
	return nil
}

// Abort drops everything since the last commit. It does not take back what was logged.
func (s *Suppress) Abort() {
	for key, to := range s.undo {
		s.set(key, to)
	}
	s.undo, s.dirty, s.changed = map[string]*held{}, map[string]bool{}, nil
}

// Close frees the rows; they come back from the changelog.
func (s *Suppress) Close() error {
	s.clear()
	return nil
}

// ChangelogPartition names the changelog.
func (s *Suppress) ChangelogPartition() (topic string, partition int32) {
	return s.config.Topic, s.config.Partition
}

// RestoredOffset is the offset of the last changelog record that the rows contain.
func (s *Suppress) RestoredOffset() (offset int64, ok bool) {
	return s.offset, s.offset != store.UnknownOffset
}

// RestoreBatch applies changes of the changelog. Nothing of a batch with a malformed record
// is applied.
func (s *Suppress) RestoreBatch(changes []store.Change, offset int64) error {
	if len(s.undo) > 0 {
		return s.fail("restore", fmt.Errorf("%w: uncommitted rows", store.ErrConfig))
	}
	rows := make(map[string]*held, len(changes))
	for _, c := range changes {
		if c.Key == nil {
			return s.fail("restore", store.ErrNilKey)
		}
		key := string(c.Key)
		if c.Tombstone() {
			rows[key] = nil
			continue
		}
		before, ok := rows[key]
		if !ok {
			before = s.index[key]
		}
		h, err := s.restored(c.Clone(), before)
		if err != nil {
			return s.fail("restore", store.Locate(err, s.config.Name, "", c.Key))
		}
		rows[key] = h
	}
	for key, h := range rows {
		s.set(key, h)
	}
	s.offset = offset
	return nil
}

func (s *Suppress) restored(c store.Change, before *held) (*held, error) {
	record := store.Record{Topic: s.config.Topic, Partition: s.config.Partition, Offset: -1, Timestamp: c.Timestamp, Headers: c.Headers}
	var previous *wire.Buffered
	if before != nil {
		previous = &before.Buffered
	}
	b, err := wire.DecodeBuffered(record, c.Value, previous)
	if err == nil {
		err = b.Context.Headers.Err()
	}
	return &held{string(c.Key), b}, err
}

// Wipe empties the buffer, before a rebuild.
func (s *Suppress) Wipe() error {
	s.clear()
	return nil
}

func (s *Suppress) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	return &store.Error{Store: s.config.Name, Op: op, Err: err}
}
