// Package base is the contract between the overlay and what lies below it: a table of
// committed rows, in RocksDB or in memory.
package base

import (
	"bytes"

	"github.com/forebay-streams/forebay/store"
)

// Span is a range of keys in byte order. A nil end is open; From is included, and To
// unless Exclusive.
type Span struct {
	From, To  []byte
	Exclusive bool
	Reverse   bool
}

// Prefix is the span of all keys that start with p.
func Prefix(p []byte) Span {
	s := Span{From: p, Exclusive: true}
	for i := len(p) - 1; i >= 0; i-- {
		if p[i] != 0xff {
			s.To = bytes.Clone(p[:i+1])
			s.To[i]++
			return s
		}
	}
	return s // nothing but ff: no key beyond has another prefix
}

// Below tells whether the key lies before the end of the span.
func (s Span) Below(key []byte) bool {
	if s.To == nil {
		return true
	}
	c := bytes.Compare(key, s.To)
	return c < 0 || c == 0 && !s.Exclusive
}

// Contains tells whether the key lies in the span.
func (s Span) Contains(key []byte) bool {
	return (s.From == nil || bytes.Compare(key, s.From) >= 0) && s.Below(key)
}

// Upper is the end of the span as an exclusive bound, nil when open.
func (s Span) Upper() []byte {
	if s.To == nil || s.Exclusive {
		return s.To
	}
	upper := make([]byte, len(s.To)+1)
	copy(upper, s.To)
	return upper
}

// Cursor walks over rows in the order of its span. Key and Row borrow its buffer until
// the next step or Close. A cursor is for one goroutine.
type Cursor interface {
	// Next moves to the next row, the first at first. False: the end, or Err.
	Next() bool
	Key() []byte
	Row() *store.Row
	Err() error
	// Close frees what the cursor holds; calling it again does nothing.
	Close()
}

// Stepper is a cursor that does Next, Key and Row in one call. Key and Row do not know of
// its steps.
type Stepper interface {
	Cursor
	Step() (key []byte, row *store.Row, ok bool)
}

// Reader reads committed rows.
type Reader interface {
	// Get returns the row of a key. It may borrow scratch, which it may replace.
	Get(key []byte, scratch *[]byte) (store.Row, bool, error)
	Scan(Span) Cursor
}

// Snapshot is a Reader that sees one commit for good, until Close.
type Snapshot interface {
	Reader
	Close()
}

// Checkpoint is what a commit stores beside its rows.
type Checkpoint struct {
	// Logged tells whether the store has a changelog; without, stored offsets are forgotten.
	Logged bool
	// Offset of the last changelog record the rows contain, or store.UnknownOffset.
	Offset   int64
	Position store.Position
	// Restored tells that the rows come from the changelog: where a part of the table is
	// further than Offset, it stays as it is.
	Restored bool
}

// Table holds committed rows. Reads and snapshots may come from any goroutine, all
// else from the owner.
type Table interface {
	Reader
	Snapshot() (Snapshot, error)
	// Checkpoint is that of the last commit; ok is false when no offset is stored.
	Checkpoint() (c Checkpoint, ok bool)
	// Commit writes the changes, sorted by key and each key once, and the checkpoint
	// in one atomic step. After an error the table holds the commit before.
	Commit(changes []store.Change, c Checkpoint) error
	// Flush makes the last commit durable.
	Flush() error
	// ApproximateCount estimates the number of rows.
	ApproximateCount() (int64, error)
	// Wipe empties the table and forgets offset and position.
	Wipe() error
	// Close flushes and frees everything; calling it again does nothing.
	Close() error
}

// BulkTable is a table into which everything can be loaded while it is empty.
type BulkTable interface {
	Table
	// BeginBulk begins a bulk load, which is no commit until EndBulk; ok is false when it
	// does not, because the table is not empty. Wipe and Close end it too.
	BeginBulk() (ok bool, err error)
	// AddBulk adds changes in any order, the last of each key counts, and the checkpoint
	// behind them, to a load that is under way, else taken is false. Readers see both at the
	// latest after EndBulk, always together.
	AddBulk(changes []store.Change, c Checkpoint) (taken bool, err error)
	EndBulk() error
}
