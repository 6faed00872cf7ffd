package dsl

import "time"

// settings is what the options of one operator say.
type settings struct {
	name string // of the node, or what names derive from

	// Stores.
	materialized bool // any option of a store was given
	store        string
	memory       bool
	uncached     bool
	unlogged     bool
	policy       *HeaderPolicy
	noHeaders    bool
	retention    *time.Duration
	history      *time.Duration // versioned

	stores []StateStore // of a processor

	// Topics.
	partitions  int
	partitioner any // func(topic string, key K, value V, partitions int32) int32
	timestamp   any // func(key K, value V, timestamp, previous int64) int64

	// Joins.
	grace *time.Duration
}

// Each kind of operator takes the options that mean something to it; the compiler refuses
// the others.
type (
	// Option is for operators without a store: [Named].
	Option interface {
		set(*settings)
		ofNode()
	}
	// StoreOption is for operators with a store (Materialized in Java).
	StoreOption interface {
		set(*settings)
		ofStore()
	}
	// SourceOption is for what reads a stream (Consumed in Java).
	SourceOption interface {
		set(*settings)
		ofSource()
	}
	// TableOption is for what reads a table: all of SourceOption and StoreOption.
	TableOption interface {
		set(*settings)
		ofTable()
	}
	// SinkOption is for To (Produced in Java).
	SinkOption interface {
		set(*settings)
		ofSink()
	}
	// GroupOption is for groupings (Grouped in Java).
	GroupOption interface {
		set(*settings)
		ofGroup()
	}
	// RepartitionOption is for Repartition (Repartitioned in Java).
	RepartitionOption interface {
		set(*settings)
		ofRepartition()
	}
)

func collect[O interface{ set(*settings) }](options []O) (s settings) {
	for _, o := range options {
		o.set(&s)
	}
	return s
}

// NameOption names any operator.
type NameOption string

// Named names an operator's node. A grouping's, repartition's or join's name is also what
// the names of its internal topics derive from. Without a name the builder's counter gives
// one, so that inserting an operator renames topics and stores that follow.
func Named(name string) NameOption { return NameOption(name) }

func (o NameOption) set(s *settings) { s.name = string(o) }
func (NameOption) ofNode()           {}
func (NameOption) ofStore()          {}
func (NameOption) ofSource()         {}
func (NameOption) ofTable()          {}
func (NameOption) ofSink()           {}
func (NameOption) ofGroup()          {}
func (NameOption) ofRepartition()    {}

// MaterializedOption is a [StoreOption], and goes with [ReadTable] too.
type MaterializedOption func(*settings)

func (o MaterializedOption) set(s *settings) { s.materialized = true; o(s) }
func (MaterializedOption) ofStore()          {}
func (MaterializedOption) ofTable()          {}

// Materialized asks for a store with nothing special about it. It matters where there would
// be none (a table's Filter, MapValues or Join), and to names: see package documentation.
func Materialized() MaterializedOption { return func(*settings) {} }

// As names the operator's store, and so its changelog topic. Only a named store can be
// looked into.
func As(store string) MaterializedOption { return func(s *settings) { s.store = store } }

// InMemory keeps the operator's store in memory.
func InMemory() MaterializedOption { return func(s *settings) { s.memory = true } }

// WithoutCache turns the operator's record cache off: each change is forwarded at once.
func WithoutCache() MaterializedOption { return func(s *settings) { s.uncached = true } }

// WithoutChangelog does not log the store: what it holds is lost with its disk, and a crash
// loses what the last minute's commits have not flushed, since there is no log to replay.
func WithoutChangelog() MaterializedOption { return func(s *settings) { s.unlogged = true } }

// Headers keeps record headers beside the rows of this store, by the given policy.
func Headers(p HeaderPolicy) MaterializedOption { return func(s *settings) { s.policy = &p } }

// NoHeaders keeps none in this store, whatever the application's [StoreFormat] is.
func NoHeaders() MaterializedOption { return func(s *settings) { s.noHeaders = true } }

// Retention sets how long a windowed or session store keeps its rows, in stream time.
// Default: as long as the windows and their grace need it.
func Retention(d time.Duration) MaterializedOption { return func(s *settings) { s.retention = &d } }

// Versioned keeps the history of each key for so long, so that a join can look up what was
// valid at the time of a stream's record. Versioned stores have no cache.
func Versioned(history time.Duration) MaterializedOption {
	return func(s *settings) { s.history = &history }
}

// ConsumedOption is a [SourceOption], and goes with [ReadTable] too.
type ConsumedOption func(*settings)

func (o ConsumedOption) set(s *settings) { o(s) }
func (ConsumedOption) ofSource()         {}
func (ConsumedOption) ofTable()          {}

// Time sets where a record's timestamp (ms) comes from, instead of the record: the record
// is dropped if the function answers a negative one. previous is the largest timestamp of
// the partition so far, -1 at first. K and V must be those of the stream.
func Time[K, V any](extract func(key K, value V, timestamp, previous int64) int64) ConsumedOption {
	return func(s *settings) { s.timestamp = extract }
}

// PartitionOption is a [SinkOption] and a [RepartitionOption].
type PartitionOption func(*settings)

func (o PartitionOption) set(s *settings) { o(s) }
func (PartitionOption) ofSink()           {}
func (PartitionOption) ofRepartition()    {}

// Partitioner chooses a record's partition. Default: by the hash of the serialized key, as
// Kafka's producer does. K and V must be those of the stream.
func Partitioner[K, V any](choose func(topic string, key K, value V, partitions int32) int32) PartitionOption {
	return func(s *settings) { s.partitioner = choose }
}

// Partitions is the number of partitions of a repartition topic. Default: as many as its
// input has.
func Partitions(n int) RepartitionOption { return partitions(n) }

type partitions int

func (o partitions) set(s *settings) { s.partitions = int(o) }
func (partitions) ofRepartition()    {}
