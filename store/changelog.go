package store

import "context"

// UnknownOffset is stored for a changelog whose offset is not known, so that Kafka
// Streams does not take the directory for one that crashed.
const UnknownOffset int64 = -4

// Changelog takes in what a store logs: the key, the plain value (nil = tombstone), the
// row's timestamp and its headers. The writer of package changelog is one.
type Changelog interface {
	// Topic is the changelog topic; Partition the task's partition in it.
	Topic() string
	Partition() int32
	// Append queues a record and may return before it is sent. The change's bytes never
	// change afterwards. An error means that nothing was queued.
	Append(c Change) error
	// Flush waits until every queued record is acknowledged, and returns the offset of
	// the last one ever acknowledged; ok is false when there was none. It returns the
	// first error of any queued record.
	Flush(ctx context.Context) (last int64, ok bool, err error)
}

// ChangeChecker is what a [Changelog] may implement beside it: Check returns the error that
// Append would return for the change itself. A store asks before its cache holds one back.
type ChangeChecker interface{ Check(c Change) error }

// RestoreTarget is a store seen by the code that fills it from its changelog.
type RestoreTarget interface {
	// ChangelogPartition names what to read.
	ChangelogPartition() (topic string, partition int32)
	// RestoredOffset is the offset of the last changelog record that the store holds; ok
	// is false when it is not known and the changelog must be read from its start.
	RestoredOffset() (offset int64, ok bool)
	// RestoreBatch applies changes in order, in one atomic write with offset, the offset
	// of the last record they came from. See also [BulkTarget].
	RestoreBatch(changes []Change, offset int64) error
	// Wipe empties the store and forgets its offset, before a rebuild.
	Wipe() error
}

// BulkTarget is a [RestoreTarget] that can be filled faster while it is empty.
type BulkTarget interface {
	RestoreTarget
	// BeginBulk says that many batches follow. ok is false when the target takes each by
	// itself, as always: it is not empty, say. Else batches are gathered: the rows of several
	// become visible, and RestoredOffset moves behind them, in one step, some time later.
	BeginBulk() (ok bool, err error)
	// EndBulk writes what is gathered: now all that RestoreBatch took is in the store and on
	// disk. It must follow, after errors too. After one of its own or of RestoreBatch the store
	// is that of an earlier batch, as RestoredOffset says; if it is not, for rows joined it
	// whose offset could not be written, RestoredOffset is not known and every write is
	// ErrFailed until the store is wiped or opened again, which empties it.
	EndBulk() error
}
