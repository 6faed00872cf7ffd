// Package windowed is the state store of time windows: a value, its timestamp and its
// record headers under a key and the start of a window, in RocksDB on the bytes of Kafka
// Streams, or in memory. Times are milliseconds since the epoch.
//
// Rows expire by stream time, which is the newest window start that was put: a row whose
// start lies Retention behind it, or more, is not shown, and one that is put so late that
// its segment is gone is dropped; see [Store.Dropped].
package windowed

import (
	"fmt"
	"math"
	"path/filepath"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/family"
	"github.com/forebay-streams/forebay/internal/segment"
	"github.com/forebay-streams/forebay/internal/windowkey"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

// Store is a window store. One goroutine owns it and calls its methods; others read
// through [Store.View]. Writes are seen by the owner at once, and reach the table with
// Commit together with the changelog offset, or never. Stream time follows commits and
// aborts too; after a restart it begins anew, so that expired rows which are still on
// disk show until the first write.
type Store[K, V any] struct {
	family.Shell
	core    *family.Core
	codec   family.Codec[K, V]
	scratch family.Scratch
	owner   family.Scratch // its Key holds flat keys, as that of indexed those of the index
	indexed family.Scratch
	spare   [3]family.Scratch // of a flush listener
	layout  layout
	clock   *segment.Clock
	table   reader // what the owner reads: the overlay
	drops   segment.Drops
}

// Row is a window of a scan. End is Start plus the store's size. Its headers borrow the
// scan's buffer until the next step.
type Row[K, V any] struct {
	Key        K
	Start, End int64
	store.Value[V]
}

// Clone returns a row that stays valid after the scan's next step. Data is whatever the
// serde made of the value, which never borrows.
func (r Row[K, V]) Clone() Row[K, V] {
	r.Headers = r.Headers.Clone()
	return r
}

// Open opens or makes the store of that name below the task's directory dir,
// <state.dir>/<app>/<group>_<partition>; its databases are dir/<name>/<name>.<start>.
// Size and Retention must be given. Errors are [store.Error] with a remedy:
// [store.ErrIncompatible] for a directory of another format, which is left as it was,
// [store.ErrTaskCorrupted], [store.ErrLibrary], [store.ErrConfig].
func Open[K, V any](dir, name string, key store.Serde[K], value store.Serde[V], options ...Option) (*Store[K, V], error) {
	c := config{Config: family.NewConfig(dir, name)}
	for _, option := range options {
		option(&c)
	}
	fail := func(err error) (*Store[K, V], error) { return nil, &store.Error{Store: name, Op: "open", Err: err} }
	if err := family.CheckSerdes(key, value); err != nil {
		return fail(err)
	}
	t, err := c.check(dir, name)
	if err != nil {
		return fail(err)
	}
	formats, err := c.formats()
	if err != nil {
		return fail(err)
	}
	rules, err := c.rules(t)
	if err != nil {
		return fail(err)
	}
	clock := segment.NewClock(rules)
	var table base.Table
	if c.Memory {
		table = segment.NewMemory(c.Layout, clock)
	} else if table, err = segment.Open(segment.Config{
		Dir: filepath.Join(dir, name), Store: name, Clock: clock, Formats: formats,
		ChangelogTopic: c.Topic, Partition: c.Partition, TaskDir: dir, ExactlyOnce: c.Config.ExactlyOnce, Budget: c.Budget,
	}); err != nil {
		return nil, err
	}
	s := &Store[K, V]{codec: family.NewCodec(c.Config, key, value), clock: clock, layout: newLayout(&c, t, clock)}
	s.core = family.NewSegmented(name, c.Config, table, family.Segments{Staged: clock, LogKey: s.layout.logKey, Restore: s.restore})
	s.Shell, s.table = s.core.Shell(), s.core.Overlay
	return s, nil
}

func (c *config) formats() ([]migration.Format, error) {
	if c.ordered {
		return migration.OrderedWindowFormats(c.Layout, migration.Index{Base: windowkey.ToBase, Of: windowkey.ToIndex})
	}
	return migration.KeyValueFormats(c.Layout)
}

// Dropped is the number of rows that came too late to be stored, since the store was
// opened. They are logged to the changelog all the same, as Kafka Streams does. A restore
// into memory counts what comes too late by then, one into RocksDB does not, as there. It
// may be called from any goroutine.
func (s *Store[K, V]) Dropped() int64 { return s.drops.Total() }

// StreamTime is the newest window start that was put, -1 before there is one. It is for
// the owner only.
func (s *Store[K, V]) StreamTime() int64 { return s.clock.Now().Stream }

// Put stores a value with its timestamp and headers under a key and the start of a
// window. What the serializers add to the headers is stored and logged, and not seen by
// the caller. A value that its serializer turns into nil deletes the row. A row that
// comes too late is dropped; that is no error.
func (s *Store[K, V]) Put(key K, start int64, v store.Value[V]) error {
	if err := s.check("put", start); err != nil {
		return err
	}
	k, row, err := s.codec.Encode(&s.scratch, &s.core.Record, key, &v)
	if err == nil {
		err = s.clock.Attempt(func() error { return s.put(k, start, row) })
	}
	return s.core.Fail("put", err)
}

// Tombstone removes a row (put(key, null, start) of Kafka Streams). A store with headers
// logs it with the headers of the record being processed.
func (s *Store[K, V]) Tombstone(key K, start int64) error {
	if err := s.check("tombstone", start); err != nil {
		return err
	}
	k, row, err := s.codec.Tombstone(&s.scratch, &s.core.Record, key)
	if err == nil {
		err = s.clock.Attempt(func() error { return s.put(k, start, row) })
	}
	return s.core.Fail("tombstone", err)
}

func (s *Store[K, V]) check(op string, start int64) error {
	if err := s.core.Check(op); err != nil {
		return err
	}
	if start < 0 {
		return s.core.Fail(op, fmt.Errorf("%w: a window that starts at %d", store.ErrNegativeTimestamp, start))
	}
	return nil
}

func (s *Store[K, V]) put(key []byte, start int64, row store.Row) error {
	l := &s.layout
	r := windowkey.Row{Key: key, Start: start}
	void := l.duplicates && row.Tombstone() // nothing but the changelog takes note of it
	if l.duplicates {
		s.clock.NextLogged()
		if !l.memory && !void {
			r.Seq = s.clock.NextSequence()
		}
	}
	if l.memory || !void {
		s.clock.Raise(start)
	}
	if l.memory {
		s.expire(start)
	}
	live := s.live(start)
	if !live && (l.memory || !void) {
		s.drops.Add(s.core.Name, 1, s.clock.Now().Stream)
	}
	if void || !live {
		record := s.core.Record
		if !l.memory {
			record.Topic = "" // the position stays
		}
		return s.core.Overlay.Drop(l.flat(&s.owner, l.rows, r), row, &record)
	}
	switch {
	case !l.memory:
		s.expire(start)
	case l.duplicates:
		r.Seq = s.clock.NextSequence()
	}
	flat := l.flat(&s.owner, l.rows, r)
	if !l.index {
		return s.core.Overlay.Put(flat, row, &s.core.Record)
	}
	return s.core.Overlay.PutAll([]store.Change{
		{Key: flat, Row: row}, {Key: l.flat(&s.indexed, windowkey.Index, r), Row: row}}, &s.core.Record)
}

// live tells whether a row of that time is stored: in memory by the millisecond.
func (s *Store[K, V]) live(start int64) bool {
	if s.layout.memory {
		return start > s.clock.Expired(s.clock.Now().Stream)
	}
	return s.clock.Live(start)
}

// expire takes leave of what a write at start leaves behind.
func (s *Store[K, V]) expire(start int64) {
	if s.layout.memory {
		s.clock.RaiseFloor(s.clock.Expired(s.clock.Now().Stream) + 1)
		return
	}
	s.clock.Put(start)
}

// Fetch returns the value under a key and the start of a window; ok is false when there
// is none, or it has expired. With duplicates it finds the last row that was put, if that
// was under this key and start, in memory none; use FetchRange.
func (s *Store[K, V]) Fetch(key K, start int64) (v store.Value[V], ok bool, err error) {
	if err := s.core.Check("fetch"); err != nil {
		return v, false, err
	}
	k, err := s.codec.LookupKey(&s.scratch, s.core.Record.Headers, key)
	if err == nil {
		v, ok, err = s.fetch(s.table, s.clock.Now(), s.clock.Now, k, start, &s.scratch, &s.owner)
	}
	return v, ok, s.core.Fail("fetch", err)
}

// fetch reads one row from the overlay or a view of it. flat is for the flat key, since
// the scratch holds the row's own. A commit that was under way may have written the row and
// given it up: after is the state once it has ended. Only a row that the owner has given up
// asks for it, so that no other waits for a commit.
func (s *Store[K, V]) fetch(from reader, at segment.State, after func() segment.State, key []byte, start int64, scratch, flat *family.Scratch) (v store.Value[V], ok bool, err error) {
	l := &s.layout
	if start < max(l.oldest(at), 0) || l.memory && l.duplicates {
		return v, false, nil
	}
	r := windowkey.Row{Key: key, Start: start}
	if l.duplicates {
		r.Seq = at.Sequence
	}
	if v, ok, err = s.codec.Get(from, l.flat(flat, l.rows, r), scratch); !ok || start < l.oldest(l.clock.At(true)) && start < l.oldest(after()) {
		return store.Value[V]{}, false, err
	}
	return v, true, nil
}

// end is where a window ends.
func (l *layout) end(start int64) int64 {
	if start > math.MaxInt64-l.size {
		return math.MaxInt64
	}
	return start + l.size
}
