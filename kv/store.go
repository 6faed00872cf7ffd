// Package kv is the key-value state store: a value, its timestamp and its record headers
// under a key, in RocksDB on the bytes of Kafka Streams, or in memory.
package kv

import (
	"context"
	"path/filepath"
	"sync/atomic"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/memory"
	"github.com/forebay-streams/forebay/internal/overlay"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

// Store is a key-value store. One goroutine owns it and calls its methods; others read
// through [Store.View]. Writes are seen by the owner at once, and reach the table with
// [Store.Commit] together with the changelog offset, or never.
type Store[K, V any] struct {
	codec[K, V]
	name    string
	config  config
	table   base.Table
	overlay *overlay.Overlay
	record  store.Record
	scratch scratch
	open    atomic.Int64 // scans
	closed  atomic.Bool
}

// Row is a row of a scan. Its headers borrow the scan's buffer until the next step.
type Row[K, V any] struct {
	Key K
	store.Value[V]
}

// Clone returns a row that stays valid after the scan's next step. Data is whatever the
// serde made of the value, which never borrows.
func (r Row[K, V]) Clone() Row[K, V] {
	r.Headers = r.Headers.Clone()
	return r
}

// Open opens or makes the store of that name below the task's directory dir,
// <state.dir>/<app>/<group>_<partition>; the database is dir/rocksdb/<name>. Errors are
// [store.Error] with a remedy: [store.ErrIncompatible] for a directory of another
// format, which is left as it was, [store.ErrTaskCorrupted], [store.ErrLibrary],
// [store.ErrConfig].
func Open[K, V any](dir, name string, key store.Serde[K], value store.Serde[V], options ...Option) (*Store[K, V], error) {
	c, err := newConfig(dir, name, options)
	if err != nil {
		return nil, &store.Error{Store: name, Op: "open", Err: err}
	}
	table, err := openTable(dir, name, c)
	if err != nil {
		return nil, err
	}
	budget := c.budget
	if budget == nil {
		budget = store.NewBudget(0)
	}
	s := &Store[K, V]{name: name, config: c, table: table}
	s.record = store.Record{Partition: -1, Offset: -1, Timestamp: store.NoTimestamp}
	s.codec = newCodec(c, key, value)
	s.overlay = overlay.New(table, overlay.Config{Layout: c.layout, Log: c.log, Cache: c.cache, Budget: budget, InMemory: c.memory})
	return s, nil
}

func openTable(dir, name string, c config) (base.Table, error) {
	formats, err := migration.KeyValueFormats(c.layout)
	if err != nil {
		return nil, &store.Error{Store: name, Op: "open", Err: err}
	}
	if c.memory {
		return memory.New(c.layout), nil
	}
	return migration.Open(migration.Config{
		Dir: filepath.Join(dir, "rocksdb", name), Store: name, Formats: formats,
		ChangelogTopic: c.topic, Partition: c.partition, TaskDir: dir,
		ExactlyOnce: c.exactlyOnce, Budget: c.budget,
	})
}

// Name is the store's name.
func (s *Store[K, V]) Name() string { return s.name }

// SetRecord sets the input record being processed, once per record. The store takes
// from it the timestamp and headers of tombstones, what serializers see in look-ups, and
// its position in the input.
func (s *Store[K, V]) SetRecord(r store.Record) { s.record = r }

// Get returns the value of a key; ok is false when there is none.
func (s *Store[K, V]) Get(key K) (v store.Value[V], ok bool, err error) {
	if err := s.check("get"); err != nil {
		return v, false, err
	}
	k, err := s.lookupKey(&s.scratch, s.record.Headers, key)
	if err != nil {
		return v, false, s.fail("get", err)
	}
	v, ok, err = s.get(s.overlay, k, &s.scratch)
	return v, ok, s.fail("get", err)
}

// Put stores a value with its timestamp and headers. What the serializers add to the
// headers is stored and logged, and not seen by the caller. A value that its serializer
// turns into nil deletes the key.
func (s *Store[K, V]) Put(key K, v store.Value[V]) error {
	if err := s.check("put"); err != nil {
		return err
	}
	k, row, err := s.encode(&s.scratch, &s.record, key, &v)
	if err != nil {
		return s.fail("put", err)
	}
	return s.fail("put", s.overlay.Put(k, row, &s.record))
}

// PutIfAbsent stores the value if the key has none, and returns the one it had.
func (s *Store[K, V]) PutIfAbsent(key K, v store.Value[V]) (old store.Value[V], present bool, err error) {
	if err := s.check("put if absent"); err != nil {
		return old, false, err
	}
	k, row, err := s.encode(&s.scratch, &s.record, key, &v)
	if err != nil {
		return old, false, s.fail("put if absent", err)
	}
	old, present, err = s.get(s.overlay, k, &s.scratch)
	if present || err != nil {
		return old, present, s.fail("put if absent", err)
	}
	return old, false, s.fail("put if absent", s.overlay.Put(k, row, &s.record))
}

// PutAll stores rows in order. All are serialized before the first is written.
func (s *Store[K, V]) PutAll(rows ...Row[K, V]) error {
	if err := s.check("put all"); err != nil {
		return err
	}
	changes := make([]store.Change, len(rows))
	for i, r := range rows {
		s.scratch.key = nil // the keys are in use at the same time
		k, row, err := s.encode(&s.scratch, &s.record, r.Key, &r.Value)
		if err != nil {
			return s.fail("put all", err)
		}
		changes[i] = store.Change{Key: k, Row: row}
	}
	return s.fail("put all", s.overlay.PutAll(changes, &s.record))
}

// Delete removes a key and returns the value it had. A store with headers logs the
// tombstone with the headers of the record being processed.
func (s *Store[K, V]) Delete(key K) (old store.Value[V], present bool, err error) {
	if err := s.check("delete"); err != nil {
		return old, false, err
	}
	k, row, err := s.tombstone(&s.scratch, &s.record, key)
	if err != nil {
		return old, false, s.fail("delete", err)
	}
	old, present, err = s.get(s.overlay, k, &s.scratch)
	if err != nil {
		return old, present, s.fail("delete", err)
	}
	return old, present, s.fail("delete", s.overlay.Put(k, row, &s.record))
}

// Tombstone removes a key like Delete, without reading what it had (put(key, null) of
// Kafka Streams).
func (s *Store[K, V]) Tombstone(key K) error {
	if err := s.check("tombstone"); err != nil {
		return err
	}
	k, row, err := s.tombstone(&s.scratch, &s.record, key)
	if err != nil {
		return s.fail("tombstone", err)
	}
	return s.fail("tombstone", s.overlay.Put(k, row, &s.record))
}

// ApproximateCount estimates the number of committed rows.
func (s *Store[K, V]) ApproximateCount() (int64, error) {
	if err := s.check("count"); err != nil {
		return 0, err
	}
	n, err := s.table.ApproximateCount()
	return n, s.fail("count", err)
}

// Position is how far the store has come in its input, as of the last commit.
func (s *Store[K, V]) Position() store.Position {
	c, _ := s.table.Checkpoint()
	return c.Position
}

// NeedsCommit tells whether the stores of the budget hold so many uncommitted bytes that
// the next commit should not wait.
func (s *Store[K, V]) NeedsCommit() bool { return s.overlay.NeedsCommit() }

// Flush logs what the cache holds back, and returns once the changelog has acknowledged
// everything. An app that commits in transactions flushes its stores, ends the
// transaction, and then commits the stores.
func (s *Store[K, V]) Flush(ctx context.Context) error {
	if err := s.check("flush"); err != nil {
		return err
	}
	return s.fail("flush", s.overlay.Flush(ctx))
}

// Commit flushes, and writes everything since the last commit in one atomic step, with
// the last acknowledged changelog offset and the position. After an error nothing is
// written: commit again, or abort. A commit survives a crash of the process only once
// RocksDB has written it to disk, at Close at the latest; the changelog has the rest.
func (s *Store[K, V]) Commit(ctx context.Context) error {
	if err := s.check("commit"); err != nil {
		return err
	}
	return s.fail("commit", s.overlay.Commit(ctx))
}

// Abort drops everything since the last commit. It does not take back what was logged.
func (s *Store[K, V]) Abort() { s.overlay.Abort() }

// Close drops what is not committed and frees the store; what was committed reaches the
// disk. Views and scans end with [store.ErrClosed]. Closing again does nothing.
func (s *Store[K, V]) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.overlay.Clear()
	return s.fail("close", s.table.Close())
}

// OpenScans is the number of scans that were begun and not ended. A loop ends its scan
// however it is left; a sequence pulled by hand must be stopped.
func (s *Store[K, V]) OpenScans() int64 { return s.open.Load() }

func (s *Store[K, V]) check(op string) error {
	if s.closed.Load() {
		return &store.Error{Store: s.name, Op: op, Err: store.ErrClosed}
	}
	return nil
}

func (s *Store[K, V]) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	return &store.Error{Store: s.name, Op: op, Err: err}
}
