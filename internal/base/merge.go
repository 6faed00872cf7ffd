package base

import (
	"bytes"

	"github.com/forebay-streams/forebay/store"
)

// Merge walks over two cursors of the same direction in key order. Where both have a
// key the first one's row counts, and a tombstone of the first hides the key. An error
// of either ends the walk. Closing it closes both.
func Merge(first, second Cursor, reverse bool) Cursor {
	return &merge{first: first, second: second, reverse: reverse}
}

type merge struct {
	first, second       Cursor
	reverse             bool
	started             bool
	hasFirst, hasSecond bool
	current             Cursor
}

func (m *merge) Next() bool {
	if !m.started {
		m.started = true
		m.hasFirst, m.hasSecond = m.first.Next(), m.second.Next()
	} else {
		m.step()
	}
	for m.Err() == nil && (m.hasFirst || m.hasSecond) {
		m.choose()
		if m.Err() == nil && !(m.current == m.first && m.first.Row().Tombstone()) {
			return true
		}
		m.step()
	}
	m.current = nil
	return false
}

// step moves the cursor whose row was shown or hidden.
func (m *merge) step() {
	switch m.current {
	case m.first:
		m.hasFirst = m.first.Next()
	case m.second:
		m.hasSecond = m.second.Next()
	}
}

func (m *merge) choose() {
	m.current = m.first
	if !m.hasFirst {
		m.current = m.second
		return
	}
	if !m.hasSecond {
		return
	}
	order := bytes.Compare(m.first.Key(), m.second.Key())
	if m.reverse {
		order = -order
	}
	if order > 0 {
		m.current = m.second
	} else if order == 0 {
		m.hasSecond = m.second.Next()
	}
}

func (m *merge) Key() []byte     { return m.current.Key() }
func (m *merge) Row() *store.Row { return m.current.Row() }

func (m *merge) Err() error {
	if err := m.first.Err(); err != nil {
		return err
	}
	return m.second.Err()
}

func (m *merge) Close() {
	m.first.Close()
	m.second.Close()
}

// Slice walks over changes that are in the order of the walk.
func Slice(changes []store.Change) Cursor { return &slice{rest: changes} }

type slice struct {
	rest    []store.Change
	current store.Change
}

func (s *slice) Next() bool {
	if len(s.rest) == 0 {
		return false
	}
	s.current, s.rest = s.rest[0], s.rest[1:]
	return true
}

func (s *slice) Key() []byte     { return s.current.Key }
func (s *slice) Row() *store.Row { return &s.current.Row }
func (s *slice) Err() error      { return nil }
func (s *slice) Close()          { s.rest = nil }

// Failed is the cursor of a scan that could not begin.
func Failed(err error) Cursor { return failed{err} }

type failed struct{ err error }

func (failed) Next() bool      { return false }
func (failed) Key() []byte     { return nil }
func (failed) Row() *store.Row { return nil }
func (f failed) Err() error    { return f.err }
func (failed) Close()          {}
