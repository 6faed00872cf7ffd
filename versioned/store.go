// Package versioned is the versioned key-value store: of every key the latest value and,
// for a time, its older ones, each with the record headers it came with, in RocksDB or in
// memory. Without headers its bytes are those of Kafka Streams, which has no versioned store
// with headers.
package versioned

import (
	"cmp"
	"path/filepath"

	"github.com/forebay-streams/forebay/internal/family"
	"github.com/forebay-streams/forebay/internal/memory"
	"github.com/forebay-streams/forebay/internal/versions"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

// Store is a versioned store. One goroutine owns it and calls its methods; others read
// through [Store.View]. Writes are seen by the owner at once, and reach the table with
// Commit together with the changelog offset, or never.
type Store[K, V any] struct {
	family.Shell
	core    *family.Core
	codec   family.Codec[K, V]
	table   *table
	scratch family.Scratch
	lookup  versions.Lookup
	editor  versions.Editor
	stored  []byte // the new version as its row has it
	report  report
}

// Version is a value that a key had from its Timestamp on.
type Version[V any] struct {
	store.Value[V]
	// ValidTo is when the next version or a delete ended it, or [Forever].
	ValidTo int64
}

// Forever is the ValidTo of a key's latest version.
const Forever = versions.Forever

// Latest tells whether nothing has followed the version.
func (v Version[V]) Latest() bool { return v.ValidTo == Forever }

// Open opens or makes the store of that name below the task's directory dir,
// <state.dir>/<app>/<group>_<partition>; the database is dir/rocksdb/<name>. The option
// [History] must be given. Errors are [store.Error] with a remedy:
// [store.ErrIncompatible] for a directory of another kind, format or segment interval,
// which is left as it was, [store.ErrTaskCorrupted], [store.ErrLibrary], [store.ErrConfig].
func Open[K, V any](dir, name string, key store.Serde[K], value store.Serde[V], options ...Option) (*Store[K, V], error) {
	c := newConfig(dir, name, options)
	if err := family.CheckSerdes(key, value); err != nil {
		return nil, &store.Error{Store: name, Op: "open", Err: err}
	}
	t, err := openTable(dir, name, &c)
	if err != nil {
		return nil, err
	}
	core := family.NewCore(name, c.Config, t)
	s := &Store[K, V]{Shell: core.Shell(), core: core, codec: family.NewCodec(c.Config, key, value), table: t,
		stored: []byte{}, report: report{log: c.log, store: name}}
	s.editor.Damaged, s.lookup.Damaged = s.report.damagedRow, s.report.damagedRow
	return s, nil
}

func openTable(dir, name string, c *config) (*table, error) {
	err := c.Check(dir, name)
	times, bad := c.times()
	formats, unknown := migration.VersionedFormats(c.format)
	if err = cmp.Or(err, bad, unknown); err != nil {
		return nil, &store.Error{Store: name, Op: "open", Err: err}
	}
	t := newTable(times)
	if c.Memory {
		t.AlsoTable = memory.New(store.Plain)
		return t, nil
	}
	t.AlsoTable, err = migration.Open(migration.Config{
		Dir: filepath.Join(dir, "rocksdb", name), Store: name, Formats: formats,
		Vet:            func(db migration.Unopened) error { return t.vet(formats, db) },
		ChangelogTopic: c.Topic, Partition: c.Partition, TaskDir: dir,
		ExactlyOnce: c.ExactlyOnce, Budget: c.Budget,
	})
	return t, err
}

// StreamTime is the latest timestamp that the store has seen, -1 at first. It is for the
// owner only.
func (s *Store[K, V]) StreamTime() int64 { return s.table.now.Stream }

// Abort drops everything since the last commit. It does not take back what was logged.
func (s *Store[K, V]) Abort() {
	s.Shell.Abort()
	s.table.reset()
}
