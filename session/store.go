// Package session is the state store of session windows: an aggregate and its record
// headers under a key and the start and end of a session, in RocksDB on the bytes of Kafka
// Streams, or in memory. Times are milliseconds since the epoch; a session contains its
// end.
//
// Sessions expire by stream time, which is the newest end that was put or removed: one
// whose end lies Retention behind it, or more, is not shown, and one that is put so late
// that its segment is gone is dropped; see [Store.Dropped].
package session

import (
	"fmt"
	"path/filepath"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/family"
	"github.com/forebay-streams/forebay/internal/segment"
	"github.com/forebay-streams/forebay/internal/windowkey"
	"github.com/forebay-streams/forebay/store"
)

// Store is a session store. One goroutine owns it and calls its methods; others read
// through [Store.View]. Writes are seen by the owner at once, and reach the table with
// Commit together with the changelog offset, or never. Stream time follows commits and
// aborts too; after a restart it begins anew, so that expired sessions which are still on
// disk show until the first write.
type Store[K, V any] struct {
	family.Shell
	core    *family.Core
	codec   family.Codec[K, V]
	scratch family.Scratch
	owner   family.Scratch    // its Key holds flat keys
	spare   [2]family.Scratch // of a flush listener
	layout  layout
	clock   *segment.Clock
	drops   segment.Drops
}

// Row is a session of a scan. Its headers borrow the scan's buffer until the next step.
// A session has no timestamp of its own: the value's is the End, as in Kafka's queries.
type Row[K, V any] struct {
	Key        K
	Start, End int64
	store.Value[V]
}

// Clone returns a row that stays valid after the scan's next step. Data is whatever the
// serde made of the aggregate, which never borrows.
func (r Row[K, V]) Clone() Row[K, V] {
	r.Headers = r.Headers.Clone()
	return r
}

// Open opens or makes the store of that name below the task's directory dir,
// <state.dir>/<app>/<group>_<partition>; its databases are dir/<name>/<name>.<start>.
// Retention must be given. Errors are [store.Error] with a remedy: [store.ErrIncompatible]
// for a directory of another format, which is left as it was, [store.ErrTaskCorrupted],
// [store.ErrLibrary], [store.ErrConfig].
func Open[K, V any](dir, name string, key store.Serde[K], value store.Serde[V], options ...Option) (*Store[K, V], error) {
	c := config{Config: family.NewConfig(dir, name)}
	for _, option := range options {
		option(&c)
	}
	fail := func(err error) (*Store[K, V], error) { return nil, &store.Error{Store: name, Op: "open", Err: err} }
	if err := family.CheckSerdes(key, value); err != nil {
		return fail(err)
	}
	if err := c.check(dir, name); err != nil {
		return fail(err)
	}
	formats, err := c.formats()
	if err != nil {
		return fail(err)
	}
	rules, err := c.rules()
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
	s := &Store[K, V]{codec: family.NewCodec(c.Config, key, value), clock: clock, layout: newLayout(&c, clock)}
	s.core = family.NewSegmented(name, c.Config, table, family.Segments{Staged: clock, LogKey: s.layout.logKey, Restore: s.restore})
	s.Shell = s.core.Shell()
	return s, nil
}

// Dropped is the number of sessions that came too late to be stored, since the store was
// opened. They are logged to the changelog all the same, as Kafka Streams does. A restore
// into memory counts what comes too late by then, one into RocksDB does not, as there. It
// may be called from any goroutine.
func (s *Store[K, V]) Dropped() int64 { return s.drops.Total() }

// StreamTime is the newest end that was put or removed, -1 before there is one. It is for
// the owner only.
func (s *Store[K, V]) StreamTime() int64 { return s.clock.Now().Stream }

// Put stores the aggregate of a session with its headers; the value's timestamp is not
// kept. What the serializers add to the headers is stored and logged, and not seen by the
// caller. An aggregate that its serializer turns into nil deletes the session. One that
// comes too late is dropped; that is no error.
func (s *Store[K, V]) Put(key K, start, end int64, v store.Value[V]) error {
	if err := s.check("put", start, end); err != nil {
		return err
	}
	k, row, err := s.codec.Encode(&s.scratch, &s.core.Record, key, &v)
	if err == nil {
		err = s.clock.Attempt(func() error { return s.put(windowkey.SessionRow{Key: k, Start: start, End: end}, row) })
	}
	return s.core.Fail("put", err)
}

// Remove removes a session. A store with headers logs it with the headers of the record
// being processed. It moves stream time on, but expires no segment and leaves the position
// as it is; in memory it moves nothing.
func (s *Store[K, V]) Remove(key K, start, end int64) error {
	if err := s.check("remove", start, end); err != nil {
		return err
	}
	k, row, err := s.codec.Tombstone(&s.scratch, &s.core.Record, key)
	if err == nil {
		err = s.clock.Attempt(func() error {
			if !s.layout.memory {
				s.clock.Raise(end)
			}
			return s.write(windowkey.SessionRow{Key: k, Start: start, End: end}, row, s.unplaced())
		})
	}
	return s.core.Fail("remove", err)
}

func (s *Store[K, V]) check(op string, start, end int64) error {
	if err := s.core.Check(op); err != nil {
		return err
	}
	if start < 0 || end < start {
		return s.core.Fail(op, fmt.Errorf("%w: a session from %d to %d", ErrTimes, start, end))
	}
	return nil
}

// unplaced is the record being processed for a write that leaves the position as it is.
func (s *Store[K, V]) unplaced() *store.Record {
	record := s.core.Record
	record.Topic = ""
	return &record
}

func (s *Store[K, V]) put(r windowkey.SessionRow, row store.Row) error {
	l := &s.layout
	s.clock.Raise(r.End)
	if s.live(r.End) {
		s.expire(r.End)
		return s.write(r, row, &s.core.Record)
	}
	s.drops.Add(s.core.Name, 1, s.clock.Now().Stream)
	record := s.unplaced()
	switch {
	case l.memory:
		record = &s.core.Record
		s.expire(r.End)
	case l.headers:
		s.clock.Expire()
	}
	flat := l.flat(&s.owner, l.rows, r)
	if l.clock.ID(r.End) >= s.clock.Now().Floor {
		// A removal has moved stream time on and left the segment: its table would take the row.
		return s.core.Overlay.Pass(flat, row, record)
	}
	return s.core.Overlay.Drop(flat, row, record)
}

// live tells whether a session of that end is stored: in memory by the millisecond.
func (s *Store[K, V]) live(end int64) bool {
	if s.layout.memory {
		return end > s.clock.Expired(s.clock.Now().Stream)
	}
	return s.clock.Live(end)
}

// expire takes leave of what a put of that end leaves behind.
func (s *Store[K, V]) expire(end int64) {
	if s.layout.memory {
		s.clock.RaiseFloor(s.clock.Expired(s.clock.Now().Stream) + 1)
		return
	}
	s.clock.Put(end)
}

func (s *Store[K, V]) write(r windowkey.SessionRow, row store.Row, record *store.Record) error {
	l := &s.layout
	flat := l.flat(&s.owner, l.rows, r)
	if !l.index {
		return s.core.Overlay.Put(flat, row, record)
	}
	return s.core.Overlay.PutAll([]store.Change{
		{Key: flat, Row: row}, {Key: l.flat(new(family.Scratch), windowkey.SessionIndex, r), Row: row}}, record)
}

// FetchSession returns the aggregate of exactly this session; ok is false when there is
// none, or it has expired.
func (s *Store[K, V]) FetchSession(key K, start, end int64) (v store.Value[V], ok bool, err error) {
	if err := s.core.Check("fetch"); err != nil {
		return v, false, err
	}
	k, err := s.codec.LookupKey(&s.scratch, s.core.Record.Headers, key)
	if err == nil {
		v, ok, err = s.fetch(s.core.Overlay, s.clock.Now(), s.clock.Now, windowkey.SessionRow{Key: k, Start: start, End: end}, &s.scratch, &s.owner)
	}
	return v, ok, s.core.Fail("fetch", err)
}

// fetch reads one row from the overlay or a view of it. flat is for the flat key, since
// the scratch holds the row's own. A commit that was under way may have written the row and
// given it up: after is the state once it has ended. Only a row that the owner has given up
// asks for it, so that no other waits for a commit.
func (s *Store[K, V]) fetch(from reader, at segment.State, after func() segment.State, r windowkey.SessionRow, scratch, flat *family.Scratch) (v store.Value[V], ok bool, err error) {
	l := &s.layout
	if r.End < l.oldest(at) || r.Start < 0 {
		return v, false, nil
	}
	if v, ok, err = s.codec.Get(from, l.flat(flat, l.rows, r), scratch); !ok || r.End < l.oldest(l.clock.At(true)) && r.End < l.oldest(after()) {
		return store.Value[V]{}, false, err
	}
	v.Timestamp = r.End
	return v, true, nil
}
