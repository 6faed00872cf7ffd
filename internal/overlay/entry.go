package overlay

import (
	"unsafe"

	"github.com/forebay-streams/forebay/internal/keysort"
	"github.com/forebay-streams/forebay/store"
)

// An entry is what the overlay knows of one key.
//
//	clean    a copy of a committed row, or of its absence
//	dirty    written, not yet logged (caching on)
//	staged   logged, not yet committed
type entry struct {
	key   string
	row   store.Row
	logAt int64 // of a dirty row: timestamp of the record that wrote it
	held  *held // of a dirty row that will be forwarded, else nil
	state state
	// void: a staged tombstone over nothing, which was not logged and is not committed.
	void bool

	// Links of the recency list, which holds clean and dirty entries.
	newer, older *entry
	// Links of the dirty list, in order of the last write.
	dirtyPrev, dirtyNext *entry
}

type state uint8

const (
	clean state = iota
	dirty
	staged
)

// entryOverhead is what an entry costs beside its key and row, in bytes: its place in the
// map and in the list or tree of uncommitted entries, and what sizes are rounded up by.
const entryOverhead = int(unsafe.Sizeof(entry{})) + 64

func (e *entry) size() int64 {
	n := len(e.key) + e.row.Size() + entryOverhead
	if e.held != nil {
		n += e.held.size()
	}
	return int64(n)
}

// uncommittedSize is what an uncommitted entry costs: itself, and what its commit will need
// for it, which is a change, places in lists that are sorted, and the row's bytes in a batch,
// in RocksDB's copy of that, and as much again by which buffers are larger than needed.
// Without it a full round would grow by half and more at its end.
func (e *entry) uncommittedSize() int64 {
	return e.size() + int64(unsafe.Sizeof(store.Change{})+3*unsafe.Sizeof(keysort.Place[*entry]{})) +
		3*int64(len(e.key)+e.row.Size()+batchOverhead)
}

// batchOverhead is what stands around a row in a batch, about, in bytes.
const batchOverhead = 24

func (e *entry) keyBytes() []byte { return keyBytes(e.key) }

// keyBytes is the key without a copy. Strings never change, and nobody changes keys.
func keyBytes(key string) []byte {
	if key == "" {
		return []byte{}
	}
	return unsafe.Slice(unsafe.StringData(key), len(key))
}

func placed(e *entry) keysort.Place[*entry] { return keysort.At(e.key, e) }

func lessEntry(a, b *entry) bool { return a.key < b.key }

// recency is a list from the most to the least recently used entry.
type recency struct{ newest, oldest *entry }

func (l *recency) push(e *entry) {
	e.newer, e.older = nil, l.newest
	if l.newest != nil {
		l.newest.newer = e
	} else {
		l.oldest = e
	}
	l.newest = e
}

func (l *recency) remove(e *entry) {
	if e.newer != nil {
		e.newer.older = e.older
	} else {
		l.newest = e.older
	}
	if e.older != nil {
		e.older.newer = e.newer
	} else {
		l.oldest = e.newer
	}
	e.newer, e.older = nil, nil
}

// writes is the list of dirty entries in order of their last write.
type writes struct {
	first, last *entry
	n           int
}

func (l *writes) push(e *entry) {
	l.n++
	e.dirtyPrev, e.dirtyNext = l.last, nil
	if l.last != nil {
		l.last.dirtyNext = e
	} else {
		l.first = e
	}
	l.last = e
}

func (l *writes) remove(e *entry) {
	l.n--
	if e.dirtyPrev != nil {
		e.dirtyPrev.dirtyNext = e.dirtyNext
	} else {
		l.first = e.dirtyNext
	}
	if e.dirtyNext != nil {
		e.dirtyNext.dirtyPrev = e.dirtyPrev
	} else {
		l.last = e.dirtyPrev
	}
	e.dirtyPrev, e.dirtyNext = nil, nil
}
