package session

import (
	"fmt"
	"time"

	"github.com/forebay-streams/forebay/internal/family"
	"github.com/forebay-streams/forebay/internal/segment"
	"github.com/forebay-streams/forebay/internal/windowkey"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

// Option changes how a store is opened.
type Option func(*config)

type config struct {
	family.Config
	retention, interval *time.Duration
	ordered, index      bool
}

// Retention sets how far a session's end may lie behind the newest one before it is
// dropped. It must be given; it is the inactivity gap plus the grace period, or more.
func Retention(d time.Duration) Option { return func(c *config) { c.retention = &d } }

// SegmentInterval sets how much time one RocksDB database of the store spans; sessions
// leave the disk with their segment. Default: half the retention, at least a minute, as
// Kafka Streams. A directory that was written with another interval, which a change of the
// retention makes too, is refused with [store.ErrTaskCorrupted].
func SegmentInterval(d time.Duration) Option { return func(c *config) { c.interval = &d } }

// TimeOrdered keeps sessions in order of time first, so that they can be read out when
// they close (emit on window close) with [Store.FindByEnd]. Reads by key use an index if
// there is one, else they read all keys of the asked time; a store with headers always has
// it. It goes not with InMemory, which finds sessions by their end anyway.
func TimeOrdered(index bool) Option { return func(c *config) { c.ordered, c.index = true, index } }

// Format sets what the store keeps beside an aggregate: store.WithHeaders (the default)
// its headers, store.Plain nothing. No session store keeps a timestamp. A plain directory
// is upgraded in place, session by session; one with headers is not opened as plain.
func Format(layout store.Layout) Option { return func(c *config) { c.Layout = layout } }

// InMemory keeps the sessions in memory only: after a restart they come back from the
// changelog. They expire by the millisecond. The directory may be empty and is not
// touched.
func InMemory() Option { return func(c *config) { c.Memory = true } }

// Changelog logs every change to the given writer. Default: no logging.
func Changelog(log store.Changelog) Option { return func(c *config) { c.Log = log } }

// Cache turns the record cache on, within the budget: writes are held back until a
// flush, so that a session written often is logged once, and rows that were read are
// kept. It implies Shared. Default: no cache.
func Cache(budget *store.Budget) Option {
	return func(c *config) { c.Config.Cache, c.Budget = true, budget }
}

// Shared takes the RocksDB block cache and the limit of uncommitted bytes from a budget
// that other stores share. Default: 50 MiB of block cache and 64 MiB of uncommitted
// rows for this store alone.
func Shared(budget *store.Budget) Option { return func(c *config) { c.Budget = budget } }

// ExactlyOnce says that the app commits in transactions: a directory in which Kafka
// Streams may have left uncommitted rows is then refused with [store.ErrTaskCorrupted].
func ExactlyOnce() Option { return func(c *config) { c.Config.ExactlyOnce = true } }

// StrictHeaders checks a row's whole header block whenever the row is read, as Kafka
// does, instead of at the first look.
func StrictHeaders() Option { return func(c *config) { c.Strict = true } }

// ChangelogTopic sets the topic name that serdes see and the partition, for a store
// without a Changelog. Default: <app>-<store>-changelog and the partition of the task,
// both taken from the directory <state.dir>/<app>/<group>_<partition>.
func ChangelogTopic(topic string, partition int32) Option {
	return func(c *config) { c.Topic, c.Partition = topic, partition }
}

func (c *config) check(dir, name string) error {
	if err := c.Check(dir, name); err != nil {
		return err
	}
	if c.ordered && c.Memory {
		return fmt.Errorf("%w: TimeOrdered and InMemory exclude each other", store.ErrConfig)
	}
	if c.Layout == store.WithHeaders {
		c.Layout = store.Aggregation // what a session's row with headers is called
	}
	c.index = c.ordered && (c.index || c.Layout.HasHeaders())
	return nil
}

// rules are those of the store's segments.
func (c *config) rules() (segment.Rules, error) {
	retention, err := milliseconds("Retention", c.retention)
	if err != nil {
		return segment.Rules{}, err
	}
	interval := int64(0)
	if c.interval != nil {
		if interval, err = milliseconds("SegmentInterval", c.interval); err != nil {
			return segment.Rules{}, err
		}
		if interval == 0 {
			return segment.Rules{}, fmt.Errorf("%w: SegmentInterval is 0", store.ErrConfig)
		}
	}
	if c.Memory {
		interval = 1
	}
	return segment.NewRules(retention, interval)
}

func milliseconds(name string, d *time.Duration) (int64, error) {
	switch {
	case d == nil:
		return 0, fmt.Errorf("%w: the option %s is missing", store.ErrConfig, name)
	case *d < 0:
		return 0, fmt.Errorf("%w: %s(%v) is negative", store.ErrConfig, name, *d)
	case *d%time.Millisecond != 0:
		return 0, fmt.Errorf("%w: %s(%v) is not a number of whole milliseconds", store.ErrConfig, name, *d)
	}
	return d.Milliseconds(), nil
}

func (c *config) formats() ([]migration.Format, error) {
	if c.ordered {
		return migration.OrderedSessionFormats(c.Layout, migration.Index{Base: windowkey.SessionToBase, Of: windowkey.SessionToIndex})
	}
	return migration.SessionFormats(c.Layout)
}
