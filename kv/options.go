package kv

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/forebay-streams/forebay/store"
)

// Option changes how a store is opened.
type Option func(*config)

type config struct {
	layout      store.Layout
	memory      bool
	log         store.Changelog
	cache       bool
	budget      *store.Budget
	exactlyOnce bool
	strict      bool
	topic       string
	partition   int32
}

// Format sets what the store keeps beside a value: store.WithHeaders (the default)
// timestamp and headers, store.Timestamped the timestamp, store.Plain nothing. A
// directory of an older format is upgraded in place, key by key; one of a newer format
// is refused.
func Format(layout store.Layout) Option { return func(c *config) { c.layout = layout } }

// InMemory keeps the rows in memory only: after a restart they come back from the
// changelog. The directory may be empty and is not touched.
func InMemory() Option { return func(c *config) { c.memory = true } }

// Changelog logs every change to the given writer. Default: no logging.
func Changelog(log store.Changelog) Option { return func(c *config) { c.log = log } }

// Cache turns the record cache on, within the budget: writes are held back until a
// flush, so that a key written often is logged once, and rows that were read are kept.
// It implies Shared. Default: no cache.
func Cache(budget *store.Budget) Option {
	return func(c *config) { c.cache, c.budget = true, budget }
}

// Shared takes the RocksDB block cache and the limit of uncommitted bytes from a budget
// that other stores share. Default: 50 MiB of block cache and 64 MiB of uncommitted
// rows for this store alone.
func Shared(budget *store.Budget) Option { return func(c *config) { c.budget = budget } }

// ExactlyOnce says that the app commits in transactions: a directory in which Kafka
// Streams may have left uncommitted rows is then refused with [store.ErrTaskCorrupted].
func ExactlyOnce() Option { return func(c *config) { c.exactlyOnce = true } }

// StrictHeaders checks a row's whole header block whenever the row is read, as Kafka
// does, instead of at the first look.
func StrictHeaders() Option { return func(c *config) { c.strict = true } }

// ChangelogTopic sets the topic name that serdes see and the partition, for a store
// without a Changelog. Default: <app>-<store>-changelog and the partition of the task,
// both taken from the directory <state.dir>/<app>/<group>_<partition>.
func ChangelogTopic(topic string, partition int32) Option {
	return func(c *config) { c.topic, c.partition = topic, partition }
}

func newConfig(dir, name string, options []Option) (config, error) {
	c := config{layout: store.WithHeaders}
	c.topic, c.partition = defaultChangelog(dir, name)
	for _, option := range options {
		option(&c)
	}
	switch {
	case name == "" || strings.ContainsAny(name, `/\`) || strings.HasPrefix(".checkpoint", name):
		return c, fmt.Errorf("%w: %q is no name for a store", store.ErrConfig, name)
	case dir == "" && !c.memory:
		return c, fmt.Errorf("%w: no directory; give the task's directory, or the option InMemory", store.ErrConfig)
	case c.cache && c.budget == nil:
		return c, fmt.Errorf("%w: Cache needs a budget", store.ErrConfig)
	}
	if c.log != nil {
		c.topic, c.partition = c.log.Topic(), c.log.Partition()
	}
	return c, nil
}

// defaultChangelog derives topic and partition from the task's directory.
func defaultChangelog(dir, name string) (topic string, partition int32) {
	app := filepath.Base(filepath.Dir(dir))
	if app == "." || app == string(filepath.Separator) {
		return name + "-changelog", 0
	}
	if _, p, ok := strings.Cut(filepath.Base(dir), "_"); ok {
		if n, err := strconv.ParseInt(p, 10, 32); err == nil && n >= 0 {
			partition = int32(n)
		}
	}
	return app + "-" + name + "-changelog", partition
}
