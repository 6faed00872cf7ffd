// Package kv is the key-value state store: a value, its timestamp and its record headers
// under a key, in RocksDB on the bytes of Kafka Streams, or in memory.
package kv

import (
	"cmp"
	"path/filepath"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/family"
	"github.com/forebay-streams/forebay/internal/memory"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

// Store is a key-value store. One goroutine owns it and calls its methods; others read
// through [Store.View]. Writes are seen by the owner at once, and reach the table with
// Commit together with the changelog offset, or never.
type Store[K, V any] struct {
	family.Shell
	core    *family.Core
	codec   family.Codec[K, V]
	scratch family.Scratch
	spare   family.Scratch // of a flush listener
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
	c := family.NewConfig(dir, name)
	for _, option := range options {
		option(&c)
	}
	if err := family.CheckSerdes(key, value); err != nil {
		return nil, &store.Error{Store: name, Op: "open", Err: err}
	}
	table, err := openTable(dir, name, &c)
	if err != nil {
		return nil, err
	}
	core := family.NewCore(name, c, table)
	return &Store[K, V]{Shell: core.Shell(), core: core, codec: family.NewCodec(c, key, value)}, nil
}

func openTable(dir, name string, c *family.Config) (base.Table, error) {
	err := c.Check(dir, name)
	formats, unknown := migration.KeyValueFormats(c.Layout)
	if err = cmp.Or(err, unknown); err != nil {
		return nil, &store.Error{Store: name, Op: "open", Err: err}
	}
	if c.Memory {
		return memory.New(c.Layout), nil
	}
	return migration.Open(migration.Config{
		Dir: filepath.Join(dir, "rocksdb", name), Store: name, Formats: formats,
		ChangelogTopic: c.Topic, Partition: c.Partition, TaskDir: dir,
		ExactlyOnce: c.ExactlyOnce, Budget: c.Budget,
	})
}

// Get returns the value of a key; ok is false when there is none.
func (s *Store[K, V]) Get(key K) (v store.Value[V], ok bool, err error) {
	if err := s.core.Check("get"); err != nil {
		return v, false, err
	}
	k, err := s.codec.LookupKey(&s.scratch, s.core.Record.Headers, key)
	if err == nil {
		v, ok, err = s.codec.Get(s.core.Overlay, k, &s.scratch)
	}
	return v, ok, s.core.Fail("get", err)
}

// Put stores a value with its timestamp and headers. What the serializers add to the
// headers is stored and logged, and not seen by the caller. A value that its serializer
// turns into nil deletes the key.
func (s *Store[K, V]) Put(key K, v store.Value[V]) error {
	if err := s.core.Check("put"); err != nil {
		return err
	}
	k, row, err := s.codec.Encode(&s.scratch, &s.core.Record, key, &v)
	if err == nil {
		err = s.core.Overlay.Put(k, row, &s.core.Record)
	}
	return s.core.Fail("put", err)
}

// PutIfAbsent stores the value if the key has none, and returns the one it had.
func (s *Store[K, V]) PutIfAbsent(key K, v store.Value[V]) (old store.Value[V], present bool, err error) {
	err = s.core.Do("put if absent", func() error {
		k, row, err := s.codec.Encode(&s.scratch, &s.core.Record, key, &v)
		if err != nil {
			return err
		}
		old, present, err = s.codec.Get(s.core.Overlay, k, &s.scratch)
		if present || err != nil {
			return err
		}
		return s.core.Overlay.Put(k, row, &s.core.Record)
	})
	return old, present, err
}

// PutAll stores rows in order. All are serialized before the first is written, and other
// goroutines see all or none of them. If the changelog refuses one, which a cache finds out
// as well, those before it stay written and logged: the error says that the rest is not.
func (s *Store[K, V]) PutAll(rows ...Row[K, V]) error {
	return s.core.Do("put all", func() error {
		changes := make([]store.Change, len(rows))
		for i, r := range rows {
			s.scratch.Key = nil // the keys are in use at the same time
			k, row, err := s.codec.Encode(&s.scratch, &s.core.Record, r.Key, &r.Value)
			if err != nil {
				return err
			}
			changes[i] = store.Change{Key: k, Row: row}
		}
		return s.core.Overlay.PutAll(changes, &s.core.Record)
	})
}

// Delete removes a key and returns the value it had. A store with headers logs the
// tombstone with the headers of the record being processed.
func (s *Store[K, V]) Delete(key K) (old store.Value[V], present bool, err error) {
	err = s.core.Do("delete", func() error {
		k, row, err := s.codec.Tombstone(&s.scratch, &s.core.Record, key)
		if err != nil {
			return err
		}
		if old, present, err = s.codec.Get(s.core.Overlay, k, &s.scratch); err != nil {
			return err
		}
		return s.core.Overlay.Put(k, row, &s.core.Record)
	})
	return old, present, err
}

// Tombstone removes a key like Delete, without reading what it had (put(key, null) of
// Kafka Streams).
func (s *Store[K, V]) Tombstone(key K) error {
	return s.core.Do("tombstone", func() error {
		k, row, err := s.codec.Tombstone(&s.scratch, &s.core.Record, key)
		if err != nil {
			return err
		}
		return s.core.Overlay.Put(k, row, &s.core.Record)
	})
}
