// Package dsl describes stream processing as Kafka Streams' DSL does: streams, tables,
// groupings, windows and joins, with the same names of nodes, stores and internal topics,
// and the same bytes on them. A step that keeps the types of key and value is a method, one
// that changes a type is a function; a topology reads from top to bottom like its Java
// original.
//
//	b := dsl.NewBuilder(dsl.StoreFormat("HEADERS"))
//	orders := dsl.ReadStream(b, "orders", store.String(), store.JSON[Order]())
//	dsl.GroupBy(orders, func(_ string, o Order) string { return o.Tenant }, nil).
//		Count(dsl.As("orders-per-tenant")).
//		ToStream().
//		To("counts")
//	topology, err := b.Build()
//
// # Headers
//
// A store keeps record headers beside its rows if the application's [StoreFormat] is HEADERS
// or the operator has the option [Headers]; which ones, a [HeaderPolicy] says. Nothing in
// between mentions them.
//
// # Null
//
// A V that can be nil (a pointer, slice, map or interface) is nil for a null value. Other
// types never see one: MapValues and Peek pass a null value on, it satisfies no predicate, and
// functions that need the value (Map, SelectKey, GroupBy, aggregators) have the record
// dropped, counted and logged. [MapNullable] and streams of pointers ([Nullable]) see every
// null. A null key is the zero value of K.
package dsl
