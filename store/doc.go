// Package store holds what every forebay state store shares: the bytes-level
// [Row] with its [Headers], the [Layout] a row has inside a column family, the
// [Serde] contract, the [Position] of a store in its input topics, and the errors.
//
// It imports neither a Kafka client nor RocksDB, so code that only talks about rows
// stays light. The formats are Kafka Streams' own (KIP-1271, KIP-1285, KIP-1035);
// docs/format has them to the byte.
//
// # Iterators
//
// Scans are range-over-func sequences of (row, error). The error, if any, is the last
// element and its row is zero. Running out, breaking the loop or a panic in its body
// closes the scan. A row borrows the scan's buffer: its headers are valid until the
// loop's next step. Row types have a Clone method for those who keep them.
//
// # Goroutines
//
// A store has one owner, which is the only one to write. Reads from other goroutines
// go through a view of the store.
package store
