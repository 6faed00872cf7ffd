package changelog

import (
	"log/slog"
	"time"
)

// Defaults of [Restore].
const (
	DefaultBatchRows  = 10_000
	DefaultBatchBytes = 8 << 20
	DefaultFetchBytes = 4 << 20
)

// DefaultBulk is from how many offsets on a restore loads an empty store in bulk: for few
// records it would only wait for the disk.
const DefaultBulk = 100_000

// RestoreOption changes what [Restore] does.
type RestoreOption func(*restoreConfig)

type restoreConfig struct {
	committed    bool
	keepPosition bool
	rows, bytes  int
	fetchBytes   int
	listener     Listener
	log          *slog.Logger
	topicID      [16]byte
	kept         time.Duration
	bulk         int64
}

// ReadCommitted leaves out the records of aborted transactions and waits for the end of
// those that are open below the restore's end. The default is to take every record, which
// is right for changelogs that are written without transactions.
func ReadCommitted() RestoreOption {
	return func(c *restoreConfig) { c.committed = true }
}

// KeepPositionHeaders leaves the headers v and c, with which Kafka Streams tracks
// positions, on the rows, as Kafka Streams itself does. By default a trailing pair of them
// is taken off, so that a restored row has the headers of the row that was lost.
func KeepPositionHeaders() RestoreOption {
	return func(c *restoreConfig) { c.keepPosition = true }
}

// BatchSize bounds the batches that the target gets, in rows and in bytes that the rows
// keep in memory; zero leaves a bound at its default, DefaultBatchRows or
// DefaultBatchBytes. Larger batches restore faster. A batch can exceed the bytes by what
// one fetch brought. Negative bounds are store.ErrConfig.
func BatchSize(rows, bytes int) RestoreOption {
	return func(c *restoreConfig) {
		if rows != 0 {
			c.rows = rows
		}
		if bytes != 0 {
			c.bytes = bytes
		}
	}
}

// Bulk sets from how many offsets on, of which each may be a record, a [store.BulkTarget] that
// is empty is loaded in bulk: its rows become visible in large steps, and it is on disk when
// Restore returns. A store takes 128 MiB of memory outside of Go's heap and of its budget
// meanwhile, less when others are loaded beside it, 8 MiB at least. Default DefaultBulk;
// negative: never.
func Bulk(offsets int64) RestoreOption {
	return func(c *restoreConfig) { c.bulk = offsets }
}

// FetchSize bounds what one fetch brings, in bytes as stored in the log, compressed or
// not; the default is DefaultFetchBytes. A record batch larger than that comes whole. Up
// to three fetches are in memory at once. Sizes outside of 1 to 1 GiB are store.ErrConfig.
func FetchSize(bytes int) RestoreOption {
	return func(c *restoreConfig) { c.fetchBytes = bytes }
}

// WithListener tells how a restore goes. By default nobody is told.
func WithListener(l Listener) RestoreOption {
	return func(c *restoreConfig) { c.listener = l }
}

// WithLogger writes start, end, progress every ten seconds, and warnings to a log; nil is
// silence. By default only warnings are written, to slog's default logger: a rebuild wipes
// the store, and nobody should miss that.
func WithLogger(log *slog.Logger) RestoreOption {
	return func(c *restoreConfig) { c.log = orSilent(log) }
}

// ExpectTopicID is the topic's id ([Result].TopicID) when the store was filled from it
// before. A topic of the same name with another id is then an [ErrTopicMissing]; a longer
// log could else be mistaken for the old one. By default any topic of the name will do.
func ExpectTopicID(id [16]byte) RestoreOption {
	return func(c *restoreConfig) { c.topicID = id }
}
