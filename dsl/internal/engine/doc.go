// Package engine runs topologies whose types are gone: package dsl builds a [Graph] of nodes,
// and a [Task] runs one sub-topology of it for one partition, on one goroutine. The test
// driver and an application drive the same tasks: they differ in where records come from and
// go to.
//
// # Adding an operator
//
// An operator is a node, and a type that implements [Processor]:
//
//   - Init takes the node's [Context] and opens its stores with [Open].
//   - Process gets a [Record] and calls Context.Forward for what follows; forwards run depth
//     first, and their errors are returned.
//   - Keys and values are interfaces; nil is null. Package dsl turns them into the types of
//     user functions and back (as, box).
//   - A record of a table has its new value in Value and, if somebody downstream asked
//     for it, the one before in Old. A null Value with a null Old is a deletion of nothing.
//   - Context.Record is the record context. Before a store is written, its SetRecord gets it.
//
// A node of package dsl is added with builder.add, which takes the name from the builder's
// counter (builder.name) at the moment Kafka Streams does: the numbers are part of names of
// topics. Stores are attached with Node.Connect.
//
// Stores hold bytes: serdes are called by package dsl, which decides which headers they see
// and which are stored. A store with a cache does not forward at once: the overlay calls
// back at a flush with the row, the row before and the context of the record that wrote it.
package engine
