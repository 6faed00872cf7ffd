package dsl

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/forebay-streams/forebay/dsl/internal/policy"
	"github.com/forebay-streams/forebay/store"
)

// HeaderPolicy says which headers a store keeps beside a row that an operator writes, out of
// those that the row had and those of the record being processed. They go to the changelog
// with the row, and with what the operator forwards, cached or not.
type HeaderPolicy struct {
	name  string
	merge policy.Merge
	err   error // of its making, reported by Build
	// trimmed counts, for Union.
	trimmed *atomic.Int64
}

// String is the policy's name.
func (p HeaderPolicy) String() string { return p.name }

// Latest keeps the headers of the record being processed; one without headers clears them.
func Latest() HeaderPolicy { return HeaderPolicy{name: "latest", merge: policy.Latest} }

// Empty keeps none, as Kafka Streams 4.4 does; what is forwarded has the headers of the
// record that led to it. What serdes add is kept.
func Empty() HeaderPolicy { return HeaderPolicy{name: "empty", merge: policy.Empty} }

// First keeps the headers of the record that made the row, until the row is deleted.
func First() HeaderPolicy { return HeaderPolicy{name: "first", merge: policy.First} }

// Union keeps the headers of all records that went into the row, each pair of key and value
// once, and of too many the newest: at most maxHeaders whose block has at most maxBytes.
// Limits below 1 are an error of building.
func Union(maxHeaders, maxBytes int) HeaderPolicy {
	trimmed := new(atomic.Int64)
	merge, err := policy.Union(maxHeaders, maxBytes, func(n int) { trimmed.Add(int64(n)) })
	return HeaderPolicy{"union", merge, err, trimmed}
}

// Trimmed is how many headers a [Union] has dropped because there were too many, in all the
// stores that have this policy. It may be called from any goroutine.
func (p HeaderPolicy) Trimmed() int64 {
	if p.trimmed == nil {
		return 0
	}
	return p.trimmed.Load()
}

// MergeHeaders is a policy of the user's own. stored is nil when there is no row; both are
// read-only. The function must be deterministic; the zero value is no headers.
func MergeHeaders(f func(stored *store.Headers, incoming store.Headers) store.Headers) HeaderPolicy {
	if f == nil {
		return HeaderPolicy{name: "func", err: nilFunction("MergeHeaders")}
	}
	return HeaderPolicy{name: "func", merge: policy.Func(f)}
}

var errNoMerge = errors.New("the header policy has no function; use one of Latest, Empty, First, Union and MergeHeaders")

// check is what is wrong with a policy.
func (p HeaderPolicy) check() error {
	if p.err == nil && p.merge == nil {
		return errNoMerge
	}
	return p.err
}

// empty tells whether records are forwarded with their own headers, whatever is stored.
func (p HeaderPolicy) empty() bool { return p.name == "empty" }

// simple tells whether a policy needs no row to merge with.
func (p HeaderPolicy) simple() bool { return p.name == "latest" || p.name == "empty" }

// config are the settings of the application.
type config struct {
	headers bool // dsl.store.format
	policy  HeaderPolicy
	memory  bool // dsl.store.suppliers.class
	// selfJoins is topology.optimization=single.store.self.join.
	selfJoins bool
}

// BuilderOption is a setting of the whole application.
type BuilderOption func(*config) error

// StoreFormat is dsl.store.format: "DEFAULT" keeps headers only in stores that ask for
// them, "HEADERS" in all whose format has them. Upper and lower case are the same.
func StoreFormat(format string) BuilderOption {
	return func(c *config) error {
		switch strings.ToUpper(format) {
		case "DEFAULT":
			c.headers = false
		case "HEADERS":
			c.headers = true
		default:
			return fmt.Errorf("dsl.store.format is %q; it may be DEFAULT or HEADERS", format)
		}
		return nil
	}
}

// DefaultHeaderPolicy is forebay.header.policy: the policy of all stores that name none.
// Default: [Latest].
func DefaultHeaderPolicy(p HeaderPolicy) BuilderOption {
	return func(c *config) error { c.policy = p; return p.check() }
}

// StoresInMemory is dsl.store.suppliers.class with the in-memory suppliers: all stores are
// kept in memory. They keep headers as those on disk do.
func StoresInMemory() BuilderOption {
	return func(c *config) error { c.memory = true; return nil }
}
