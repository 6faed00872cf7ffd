package windowed

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/forebay-streams/forebay/internal/family"
	"github.com/forebay-streams/forebay/internal/segment"
	"github.com/forebay-streams/forebay/store"
)

// Option changes how a store is opened.
type Option func(*config)

type config struct {
	family.Config
	size, retention, interval *time.Duration
	duplicates                bool
	ordered, index            bool
}

// Size sets how long a window is: its end is not stored. It must be given; zero is for
// windows of one moment, as joins of equal times have them.
func Size(d time.Duration) Option { return func(c *config) { c.size = &d } }

// Retention sets how far a row's window start may lie behind the newest one before it is
// dropped. It must be given, and be no less than the size; for windows with a grace
// period it is size plus grace.
func Retention(d time.Duration) Option { return func(c *config) { c.retention = &d } }

// SegmentInterval sets how much time one RocksDB database of the store spans; rows leave
// the disk with their segment. Default: half the retention, at least a minute, as Kafka
// Streams. A directory that was written with another interval, which a change of the
// retention makes too, is refused with [store.ErrTaskCorrupted].
func SegmentInterval(d time.Duration) Option { return func(c *config) { c.interval = &d } }

// RetainDuplicates keeps every row that is put under a key and start, one after the
// other, as stream-stream joins need it. A tombstone then does nothing. Caching is not
// possible.
func RetainDuplicates() Option { return func(c *config) { c.duplicates = true } }

// TimeOrdered keeps rows in order of time first, so that windows can be read out when
// they close (emit on window close). Reads by key use an index if there is one, else they
// read all keys of the asked time; a store with headers always has it. It needs a format
// with timestamps, and goes not with InMemory.
func TimeOrdered(index bool) Option { return func(c *config) { c.ordered, c.index = true, index } }

// Format sets what the store keeps beside a value: store.WithHeaders (the default)
// timestamp and headers, store.Timestamped the timestamp, store.Plain nothing. A
// directory of an older format is upgraded in place, key by key; one of a newer format
// is refused.
func Format(layout store.Layout) Option { return func(c *config) { c.Layout = layout } }

// InMemory keeps the rows in memory only: after a restart they come back from the
// changelog. Rows expire by the millisecond. The directory may be empty and is not
// touched.
func InMemory() Option { return func(c *config) { c.Memory = true } }

// Changelog logs every change to the given writer. Default: no logging.
func Changelog(log store.Changelog) Option { return func(c *config) { c.Log = log } }

// Cache turns the record cache on, within the budget: writes are held back until a
// flush, so that a window written often is logged once, and rows that were read are
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

// LogHeaders logs the headers of rows though the format does not keep them, as Kafka Streams
// 4.3 and later do for the windows of stream-stream joins and the subscriptions of
// foreign-key joins. The store must not have a cache.
func LogHeaders() Option { return func(c *config) { c.LogHeaders = true } }

// StrictHeaders checks a row's whole header block whenever the row is read, as Kafka
// does, instead of at the first look.
func StrictHeaders() Option { return func(c *config) { c.Strict = true } }

// ChangelogTopic sets the topic name that serdes see and the partition, for a store
// without a Changelog. Default: <app>-<store>-changelog and the partition of the task,
// both taken from the directory <state.dir>/<app>/<group>_<partition>.
func ChangelogTopic(topic string, partition int32) Option {
	return func(c *config) { c.Topic, c.Partition = topic, partition }
}

// times are the options that are times, in milliseconds.
type times struct{ size, retention, interval int64 }

func (c *config) check(dir, name string) (t times, err error) {
	if err := c.Check(dir, name); err != nil {
		return t, err
	}
	for _, option := range []struct {
		name string
		d    *time.Duration
		ms   *int64
		must bool
	}{{"Size", c.size, &t.size, true}, {"Retention", c.retention, &t.retention, true}, {"SegmentInterval", c.interval, &t.interval, false}} {
		if err := milliseconds(option.name, option.d, option.ms, option.must); err != nil {
			return t, err
		}
	}
	switch {
	case t.retention < t.size:
		return t, fmt.Errorf("%w: Retention(%v) is less than Size(%v)", store.ErrConfig, *c.retention, *c.size)
	case c.interval != nil && t.interval == 0:
		return t, fmt.Errorf("%w: SegmentInterval is 0", store.ErrConfig)
	case c.ordered && c.Memory:
		return t, fmt.Errorf("%w: TimeOrdered and InMemory exclude each other", store.ErrConfig)
	}
	c.index = c.ordered && (c.index || c.Layout.HasHeaders())
	if c.duplicates && c.Config.Cache {
		slog.Warn("a store that retains duplicates cannot have a cache; it is off", "store", name)
		c.Config.Cache = false
	}
	return t, nil
}

func milliseconds(name string, d *time.Duration, ms *int64, must bool) error {
	switch {
	case d == nil && must:
		return fmt.Errorf("%w: the option %s is missing", store.ErrConfig, name)
	case d == nil:
		return nil
	case *d < 0:
		return fmt.Errorf("%w: %s(%v) is negative", store.ErrConfig, name, *d)
	case *d%time.Millisecond != 0:
		return fmt.Errorf("%w: %s(%v) is not a number of whole milliseconds", store.ErrConfig, name, *d)
	}
	*ms = d.Milliseconds()
	return nil
}

// rules are those of the store's segments.
func (c *config) rules(t times) (segment.Rules, error) {
	if c.Memory {
		return segment.NewRules(t.retention, 1)
	}
	return segment.NewRules(t.retention, t.interval)
}
