package engine

import "github.com/forebay-streams/forebay/store"

// Record travels between nodes. Key and value are what the serdes made of the bytes; a nil
// interface is null, and a typed nil never gets here (see package dsl's box).
type Record struct {
	Key, Value any
	// Old is, in the record of a table, the value before; nil if there was none, or if
	// nobody downstream asked for it.
	Old any
	// Stale marks a table's record that is not the key's latest: a versioned store filed it
	// into the past.
	Stale     bool
	Timestamp int64
	Headers   store.Headers
}

// Input is a record as it was consumed.
type Input struct {
	Topic      string
	Partition  int32
	Offset     int64
	Timestamp  int64
	Headers    store.Headers
	Key, Value []byte // nil: null
}

// Produced is a record for a producer: of a sink, or of a changelog.
type Produced struct {
	Topic string
	// Partition is [AnyPartition] if the producer is to choose.
	Partition  int32
	Timestamp  int64
	Headers    store.Headers
	Key, Value []byte // nil: null
}

// AnyPartition leaves the partition to the producer.
const AnyPartition int32 = -1
