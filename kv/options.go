package kv

import (
	"github.com/forebay-streams/forebay/internal/family"
	"github.com/forebay-streams/forebay/store"
)

// Option changes how a store is opened.
type Option func(*family.Config)

// Format sets what the store keeps beside a value: store.WithHeaders (the default)
// timestamp and headers, store.Timestamped the timestamp, store.Plain nothing. A
// directory of an older format is upgraded in place, key by key; one of a newer format
// is refused.
func Format(layout store.Layout) Option { return func(c *family.Config) { c.Layout = layout } }

// InMemory keeps the rows in memory only: after a restart they come back from the
// changelog. The directory may be empty and is not touched.
func InMemory() Option { return func(c *family.Config) { c.Memory = true } }

// Changelog logs every change to the given writer. Default: no logging.
func Changelog(log store.Changelog) Option { return func(c *family.Config) { c.Log = log } }

// Cache turns the record cache on, within the budget: writes are held back until a
// flush, so that a key written often is logged once, and rows that were read are kept.
// It implies Shared. Default: no cache.
func Cache(budget *store.Budget) Option {
	return func(c *family.Config) { c.Cache, c.Budget = true, budget }
}

// Shared takes the RocksDB block cache and the limit of uncommitted bytes from a budget
// that other stores share. Default: 50 MiB of block cache and 64 MiB of uncommitted
// rows for this store alone.
func Shared(budget *store.Budget) Option { return func(c *family.Config) { c.Budget = budget } }

// ExactlyOnce says that the app commits in transactions: a directory in which Kafka
// Streams may have left uncommitted rows is then refused with [store.ErrTaskCorrupted].
func ExactlyOnce() Option { return func(c *family.Config) { c.ExactlyOnce = true } }

// LogHeaders logs the headers of rows though the format does not keep them, as Kafka Streams
// 4.3 and later do for the windows of stream-stream joins and the subscriptions of
// foreign-key joins. The store must not have a cache.
func LogHeaders() Option { return func(c *family.Config) { c.LogHeaders = true } }

// StrictHeaders checks a row's whole header block whenever the row is read, as Kafka
// does, instead of at the first look.
func StrictHeaders() Option { return func(c *family.Config) { c.Strict = true } }

// ChangelogTopic sets the topic name that serdes see and the partition, for a store
// without a Changelog. Default: <app>-<store>-changelog and the partition of the task,
// both taken from the directory <state.dir>/<app>/<group>_<partition>.
func ChangelogTopic(topic string, partition int32) Option {
	return func(c *family.Config) { c.Topic, c.Partition = topic, partition }
}
