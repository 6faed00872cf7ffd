// Bench sets forebay beside raw RocksDB and beside Kafka Streams: the same rows, the same
// operations, the same RocksDB options, in one run, in rounds that alternate. It prints a
// table, ends with a RATIO line a figure, and keeps both below docs/bench.
//
//	bench -rows n -rounds r -broker address -classpath file -out dir
//
// Every measurement runs in a process of its own, so that processor time, memory and what
// was cached before belong to it alone. Each begins with up to 200,000 operations that do
// not count, puts into a store of their own. Between writing and reading the databases of all
// three are opened once by RocksDB itself until no flush and no compaction is left.
//
// What is compared with what:
//
//   - raw: RocksDB through the Go wrapper, a crossing per call, values encoded once,
//     batches of 10,000. It is the limit. For windows and sessions it holds the same bytes
//     in one database instead of one a segment; it has no versions.
//   - kafka: Kafka Streams in a running application, logging off, its own defaults but for
//     the sizes of the caches, which are the same on all sides.
package main
