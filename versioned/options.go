package versioned

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/forebay-streams/forebay/internal/family"
	"github.com/forebay-streams/forebay/internal/versions"
	"github.com/forebay-streams/forebay/store"
)

// Option changes how a store is opened.
type Option func(*config)

type config struct {
	family.Config
	format   store.Layout
	history  time.Duration
	interval time.Duration
	log      *slog.Logger
}

// History sets how long old versions are kept, and how late a put may come, in stream
// time: the latest timestamp that the store has seen. It must be given.
func History(d time.Duration) Option { return func(c *config) { c.history = d } }

// SegmentInterval sets the length of time whose old versions are filed, and dropped,
// together. Default: as Kafka Streams derives it from the history. Existing state cannot
// be opened with another one.
func SegmentInterval(d time.Duration) Option { return func(c *config) { c.interval = d } }

// Format sets what the store keeps with each version: store.WithHeaders (the default)
// its headers, store.Plain only value and timestamp, on the bytes of Kafka Streams. A
// plain directory is upgraded in place, row by row; one with headers is not opened as plain.
func Format(layout store.Layout) Option { return func(c *config) { c.format = layout } }

// InMemory keeps the rows in memory only: after a restart they come back from the
// changelog. The directory may be empty and is not touched.
func InMemory() Option { return func(c *config) { c.Memory = true } }

// Changelog logs every accepted put to the given writer. Default: no logging.
func Changelog(log store.Changelog) Option { return func(c *config) { c.Log = log } }

// Shared takes the RocksDB block cache and the limit of uncommitted bytes from a budget
// that other stores share. Default: 50 MiB of block cache and 64 MiB of uncommitted
// rows for this store alone.
func Shared(budget *store.Budget) Option { return func(c *config) { c.Budget = budget } }

// ExactlyOnce says that the app commits in transactions: a directory in which Kafka
// Streams may have left uncommitted rows is then refused with [store.ErrTaskCorrupted].
func ExactlyOnce() Option { return func(c *config) { c.ExactlyOnce = true } }

// StrictHeaders checks a version's whole header block whenever it is read, instead of at
// the first look.
func StrictHeaders() Option { return func(c *config) { c.Strict = true } }

// ChangelogTopic sets the topic name that serdes see and the partition, for a store
// without a Changelog. Default: <app>-<store>-changelog and the partition of the task,
// both taken from the directory <state.dir>/<app>/<group>_<partition>.
func ChangelogTopic(topic string, partition int32) Option {
	return func(c *config) { c.Topic, c.Partition = topic, partition }
}

// Logger sets where the store warns of puts that came too late and of rows it repaired.
// Default: [slog.Default].
func Logger(log *slog.Logger) Option { return func(c *config) { c.log = log } }

const noHistory time.Duration = -1

func newConfig(dir, name string, options []Option) config {
	c := config{Config: family.NewConfig(dir, name), format: store.WithHeaders, history: noHistory, log: slog.Default()}
	for _, option := range options {
		option(&c)
	}
	// The layout of one version: its timestamp is the row's.
	if c.Layout = store.Plain; c.format.HasHeaders() {
		c.Layout = store.Aggregation
	}
	return c
}

// times checks the options about time.
func (c *config) times() (versions.Times, error) {
	t := versions.Times{Retention: c.history.Milliseconds(), Stream: versions.NoStream}
	if c.history < 0 {
		return t, fmt.Errorf("%w: History must be given, and not be negative", store.ErrConfig)
	}
	t.Interval = versions.DefaultInterval(t.Retention)
	if c.interval != 0 {
		if t.Interval = c.interval.Milliseconds(); t.Interval < 1 {
			return t, fmt.Errorf("%w: SegmentInterval must be a millisecond or more", store.ErrConfig)
		}
	}
	return t, nil
}
