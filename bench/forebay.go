package main

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/forebay-streams/forebay/kv"
	"github.com/forebay-streams/forebay/session"
	"github.com/forebay-streams/forebay/store"
	"github.com/forebay-streams/forebay/versioned"
	"github.com/forebay-streams/forebay/windowed"
)

const storeName = "store"

// caches are the sizes in bytes that all contenders get, and whether they map files.
type caches struct {
	block, record int64
	mapped        bool
}

func (c caches) budget() *store.Budget {
	options := []store.BudgetOption{store.BlockCache(c.block)}
	if c.mapped {
		options = append(options, store.MapReads())
	}
	return store.NewBudget(c.record, options...)
}

// openForebay opens a store below a task directory.
func openForebay(dir, family string, layout store.Layout, rows int, c caches) (subject, error) {
	raw := store.RawBytes()
	budget := c.budget()
	day := 24 * time.Hour
	switch family {
	case "kv":
		options := []kv.Option{kv.Shared(budget), kv.Format(layout)}
		if c.record > 0 {
			options = append(options, kv.Cache(budget))
		}
		s, err := kv.Open(dir, storeName, raw, raw, options...)
		return &keyValue{s, buffers{}}, err
	case "windowed":
		s, err := windowed.Open(dir, storeName, raw, raw, windowed.Shared(budget), windowed.Size(apart*time.Millisecond), windowed.Retention(day))
		return &windows{s, timedRows(rows), buffers{}}, err
	case "session":
		s, err := session.Open(dir, storeName, raw, raw, session.Shared(budget), session.Retention(day))
		return &sessions{s, timedRows(rows), buffers{}}, err
	case "versioned":
		s, err := versioned.Open(dir, storeName, raw, raw, versioned.Shared(budget), versioned.Format(store.Plain), versioned.History(day))
		return &versions{s, timedRows(rows), buffers{}}, err
	}
	return nil, fmt.Errorf("no family %q", family)
}

// buffers hold the key of one call.
type buffers struct{ key []byte }

func (b *buffers) of(i int) []byte {
	b.key = appendKey(b.key[:0], i)
	return b.key
}

func row(i int, at int64) store.Value[[]byte] {
	return store.Value[[]byte]{Data: value(i), Timestamp: at, Headers: rowHeaders}
}

func count[R any](rows iter.Seq2[R, error], most int) (n int, err error) {
	for _, err := range rows {
		if err != nil {
			return n, err
		}
		if n++; n == most {
			break
		}
	}
	return n, nil
}

const noLimit = -1

type keyValue struct {
	s *kv.Store[[]byte, []byte]
	buffers
}

func (s *keyValue) put(i int) error { return s.s.Put(s.of(i), row(i, startTime+int64(i))) }
func (s *keyValue) commit() error   { return s.s.Commit(context.Background()) }
func (s *keyValue) close() error    { return s.s.Close() }

func (s *keyValue) get(i int) (bool, error) {
	_, ok, err := s.s.Get(s.of(i))
	return ok, err
}

func (s *keyValue) header(i int) (bool, error) {
	v, ok, err := s.s.Get(s.of(i))
	if !ok || err != nil {
		return false, err
	}
	_, ok = v.Headers.Last("tenant")
	return ok, nil
}

func (s *keyValue) rangeFrom(i int) (int, error) { return count(s.s.Range(kv.From(s.of(i))), 100) }
func (s *keyValue) scan() (int, error)           { return count(s.s.All(), noLimit) }

type windows struct {
	s *windowed.Store[[]byte, []byte]
	timed
	buffers
}

func (s *windows) put(i int) error { return s.s.Put(s.of(s.owner(i)), s.time(i), row(i, s.time(i))) }
func (s *windows) commit() error   { return s.s.Commit(context.Background()) }
func (s *windows) close() error    { return s.s.Close() }

func (s *windows) get(i int) (bool, error) {
	_, ok, err := s.s.Fetch(s.of(s.owner(i)), s.time(i))
	return ok, err
}

func (s *windows) rangeFrom(i int) (int, error) {
	return count(s.s.FetchRange(s.of(s.owner(i)), startTime, startTime+times*apart), noLimit)
}

func (s *windows) scan() (int, error) { return count(s.s.All(), noLimit) }

type sessions struct {
	s *session.Store[[]byte, []byte]
	timed
	buffers
}

func (s *sessions) put(i int) error {
	return s.s.Put(s.of(s.owner(i)), s.time(i), s.time(i)+1000, row(i, s.time(i)))
}

func (s *sessions) commit() error { return s.s.Commit(context.Background()) }
func (s *sessions) close() error  { return s.s.Close() }

func (s *sessions) get(i int) (bool, error) {
	_, ok, err := s.s.FetchSession(s.of(s.owner(i)), s.time(i), s.time(i)+1000)
	return ok, err
}

func (s *sessions) rangeFrom(i int) (int, error) {
	return count(s.s.Fetch(s.of(s.owner(i))), noLimit)
}
func (s *sessions) scan() (int, error) { return count(s.s.FetchKeys(), noLimit) }

type versions struct {
	s *versioned.Store[[]byte, []byte]
	timed
	buffers
}

func (s *versions) put(i int) error {
	_, err := s.s.Put(s.of(s.owner(i)), store.Value[[]byte]{Data: value(i), Timestamp: s.time(i)})
	return err
}

func (s *versions) commit() error { return s.s.Commit(context.Background()) }
func (s *versions) close() error  { return s.s.Close() }

func (s *versions) get(i int) (bool, error) {
	_, ok, err := s.s.Get(s.of(s.owner(i)))
	return ok, err
}

func (s *versions) rangeFrom(i int) (int, error) {
	_, ok, err := s.s.GetAsOf(s.of(s.owner(i)), s.time(i))
	if !ok {
		return 0, err
	}
	return 1, err
}

func (s *versions) scan() (int, error) { return 0, nil }
