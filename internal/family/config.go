// Package family is what all store families have in common: options, the typed codec,
// the life cycle around overlay and table, and scans.
package family

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/forebay-streams/forebay/internal/checkpointfile"
	"github.com/forebay-streams/forebay/store"
)

// Config holds the options that every family has.
type Config struct {
	Layout      store.Layout
	Memory      bool
	Log         store.Changelog
	Cache       bool
	Budget      *store.Budget // nil: nothing is shared
	ExactlyOnce bool
	Strict      bool // check header blocks at every read
	LogHeaders  bool // log headers of a layout that does not keep them
	Topic       string
	Partition   int32
}

// NewConfig returns the defaults of a store in a task's directory.
func NewConfig(dir, name string) Config {
	c := Config{Layout: store.WithHeaders}
	c.Topic, c.Partition = defaultChangelog(dir, name)
	return c
}

// storeName is what Kafka allows in topic names, shorter by what a changelog's name adds.
var storeName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,200}$`)

// reserved names would lead out of the task's directory, or to another store's files.
var reserved = map[string]bool{".": true, "..": true, ".lock": true, "rocksdb": true, checkpointfile.Name: true}

// Check refuses what no family can open, and takes the changelog's topic over.
func (c *Config) Check(dir, name string) error {
	switch {
	case !storeName.MatchString(name) || reserved[name]:
		return fmt.Errorf("%w: %q is no name for a store: letters, digits, dot, underscore and hyphen, at most 200 of them, and no name that its task's directory needs", store.ErrConfig, name)
	case dir == "" && !c.Memory:
		return fmt.Errorf("%w: no directory; give the task's directory, or the option InMemory", store.ErrConfig)
	case c.Cache && c.Budget == nil:
		return fmt.Errorf("%w: Cache needs a budget", store.ErrConfig)
	case c.Cache && c.LogHeaders:
		return fmt.Errorf("%w: LogHeaders and Cache exclude each other", store.ErrConfig)
	}
	if c.Log != nil {
		c.Topic, c.Partition = c.Log.Topic(), c.Log.Partition()
	}
	return nil
}

// CheckSerdes refuses serdes that could only panic at the first use.
func CheckSerdes[K, V any](key store.Serde[K], value store.Serde[V]) error {
	for _, s := range []struct {
		name  string
		serde any
	}{{"key", key}, {"value", value}} {
		if s.serde == nil {
			return fmt.Errorf("%w: the %s serde is nil", store.ErrConfig, s.name)
		}
		if c, ok := s.serde.(interface{ Check() error }); ok {
			if err := c.Check(); err != nil {
				return fmt.Errorf("%w: the %s serde: %w", store.ErrConfig, s.name, err)
			}
		}
	}
	return nil
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
