package base

import "github.com/forebay-streams/forebay/store"

// Also is what some families write in a commit beside rows and checkpoint.
type Also struct {
	// Drop is a span of keys that is emptied before the rows are written, unless nil. It
	// has both ends, the upper one exclusive.
	Drop *Span
	// Notes are small values of the family's own. A table in memory keeps none, and a commit
	// that is not logged forgets those of earlier ones.
	Notes []Note
}

// NotePrefix begins the keys of all notes.
const NotePrefix = "forebay."

// Note is a value under a key that begins with [NotePrefix]; Kafka Streams ignores it.
type Note struct {
	Key   string
	Value int64
}

// AlsoTable is a table that takes them.
type AlsoTable interface {
	Table
	// CommitAlso is Commit with more in the same atomic step.
	CommitAlso(changes []store.Change, c Checkpoint, also Also) error
}
