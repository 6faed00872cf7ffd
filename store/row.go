package store

import "bytes"

// NoTimestamp is the timestamp of a row that has none: one that was written by a
// store without timestamps and read by a store with them.
const NoTimestamp int64 = -1

// Row is the bytes-level row, unpacked: the form in which it travels between a typed
// store, the overlay and the changelog. Only a table packs it, by its [Layout].
type Row struct {
	// Value is the user's value. Nil means a tombstone; empty is a value.
	Value []byte
	// Timestamp in milliseconds since the epoch, or NoTimestamp.
	Timestamp int64
	// Headers beside the value; the zero value is the empty list.
	Headers Headers
}

// Tombstone tells whether the row deletes its key.
func (r Row) Tombstone() bool { return r.Value == nil }

// Clone returns a row that shares no bytes with a scan's or a caller's buffer.
func (r Row) Clone() Row {
	r.Value = bytes.Clone(r.Value)
	r.Headers = r.Headers.Clone()
	return r
}

// Size is the number of bytes the row holds in memory, headers included, as a
// budget counts them.
func (r Row) Size() int { return len(r.Value) + r.Headers.size() }

// Change is one row under its serialized key: what a changelog record says.
type Change struct {
	Key []byte
	Row
}

// Clone returns a change that shares no bytes with a buffer.
func (c Change) Clone() Change { return Change{bytes.Clone(c.Key), c.Row.Clone()} }

// Size is the number of bytes of key and row.
func (c Change) Size() int { return len(c.Key) + c.Row.Size() }

// Value is a typed value with its timestamp and headers: what a typed store stores
// under a key (Kafka's ValueTimestampHeaders).
type Value[T any] struct {
	Data T
	// Timestamp in milliseconds since the epoch, or NoTimestamp.
	Timestamp int64
	// Headers; the zero value is the empty list.
	Headers Headers
}

// ValueOf returns a value with the timestamp and headers of a record: what most
// processors store.
func ValueOf[T any](r Record, data T) Value[T] {
	return Value[T]{Data: data, Timestamp: r.Timestamp, Headers: r.Headers}
}

// Flushed is a write that a cache held back and a flush has logged, for those to whom a
// store forwards its changes.
type Flushed[T any] struct {
	// New is what was written last; nil: the row was deleted.
	New *Value[T]
	// Old is what the store had when the row was last flushed, or committed; nil: nothing,
	// or old values were not asked for.
	Old *Value[T]
	// Record is the one that was being processed at the last write, as [Record] says: its
	// timestamp and headers are the context of what is forwarded (KAFKA-18326).
	Record Record
}

// Record is the input record being processed: a store takes from it the timestamp and
// headers of tombstones, what serdes see on look-ups, and its position in the input.
type Record struct {
	// Topic of the input; empty leaves the store's position as it is.
	Topic     string
	Partition int32
	Offset    int64
	// Timestamp in milliseconds since the epoch.
	Timestamp int64
	Headers   Headers
}

// Isolation says what a view sees (KIP-892).
type Isolation uint8

const (
	// ReadCommitted sees commits only, cached or not.
	ReadCommitted Isolation = iota
	// ReadUncommitted sees what the store's owner sees: uncommitted and cached writes too.
	ReadUncommitted
)
