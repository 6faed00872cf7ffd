package dsl

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"

	"github.com/forebay-streams/forebay/dsl/internal/engine"
	"github.com/forebay-streams/forebay/store"
)

// GlobalTable is a table that every instance of the application has as a whole, so that a
// stream can be joined by any key without a repartition.
type GlobalTable[K, V any] struct {
	b     *Builder
	key   store.Serde[K]
	value store.Serde[V]
	view  viewSource
}

// ReadGlobalTable reads all partitions of a topic as a table (StreamsBuilder.globalTable in
// Java): a null value deletes its key, a record without key is dropped. It cannot be
// versioned. The topic itself is what the store is restored from, so that only the header
// policies [Latest] and [Empty] are possible. Nil serdes are those known for the types.
func ReadGlobalTable[K, V any](b *Builder, topic string, key store.Serde[K], value store.Serde[V], options ...TableOption) *GlobalTable[K, V] {
	s := collect(options)
	if s.store == "" {
		s.store = b.name(topic + "-STATE-STORE-")
	}
	sourceName := b.nameOr(suffixed(s.name, "-source"), "KSTREAM-SOURCE-")
	name := b.nameOr(s.name, "KTABLE-SOURCE-")
	if err := distinct([]string{topic}); err != nil {
		b.fail(name, err)
	}
	if s.history != nil {
		b.fail(name, errors.New("a global table cannot be versioned"))
		s.history = nil
	}
	b.restorable(name, &s)
	s.unlogged, s.uncached = true, true
	key, value = known(key), known(value)
	n := b.add(&engine.Node{Name: sourceName, Global: true, Source: source(b, sourceName, key, value, s, topic)})
	st, open := keyValue(b, name, s.store, key, value, s)
	st.Global = true
	p := b.add(&engine.Node{Name: name, Global: true, Parents: []*engine.Node{n}, New: func() engine.Processor { return &tableSource{open: open} }})
	p.Connect(st)
	return &GlobalTable[K, V]{b: b, key: key, value: value, view: storeView(st, open)}
}

// restorable sees to it that the rows of a table can be restored from its source topic, which
// has each record's headers and nothing of those before.
func (b *Builder) restorable(operator string, s *settings) {
	switch {
	case s.policy != nil && !s.policy.simple():
		b.fail(operator, fmt.Errorf("the header policy %v needs a changelog of its own: use Latest or Empty", s.policy))
	case s.policy == nil && !s.noHeaders && b.config.headers && !b.config.policy.simple():
		slog.Warn("the table is restored from its source topic: the header policy is latest", "operator", operator, "policy", b.config.policy.String())
		latest := Latest()
		s.policy = &latest
	}
}

// JoinGlobal gives each record of the stream the global table's row under a key that is made
// of the record. Records without a value, a key made of them, or a row are dropped. What
// comes out has the stream record's key, timestamp and headers.
func JoinGlobal[K, V, L, T, R any](s *Stream[K, V], t *GlobalTable[L, T], by func(key K, value V) L, join func(value V, row T) R, options ...Option) *Stream[K, R] {
	return joinGlobal(s, t, by, join, false, options).needs("by of JoinGlobal", by != nil).needs("join of JoinGlobal", join != nil)
}

// LeftJoinGlobal is [JoinGlobal] of all records with a value. A row that the table has not is
// the zero value for the join function: nil, if T can be nil.
func LeftJoinGlobal[K, V, L, T, R any](s *Stream[K, V], t *GlobalTable[L, T], by func(key K, value V) L, join func(value V, row T) R, options ...Option) *Stream[K, R] {
	return joinGlobal(s, t, by, join, true, options).needs("by of LeftJoinGlobal", by != nil).needs("join of LeftJoinGlobal", join != nil)
}

func joinGlobal[K, V, L, T, R any](s *Stream[K, V], t *GlobalTable[L, T], by func(K, V) L, join func(V, T) R, isLeft bool, options []Option) *Stream[K, R] {
	s = s.orEmpty()
	if t == nil {
		t = &GlobalTable[L, T]{}
	}
	b := cmp.Or(s.b, t.b)
	name := b.nameOr(collect(options).name, "KSTREAM-LEFTJOIN-") // of inner joins too
	b.takes(name, s.b, t.b)
	e := enrich{
		open: t.view.open, left: isLeft, join: joiner(join),
		key: func(r engine.Record) any { return box(by(as[K](r.Key), as[V](r.Value))) },
	}
	n := b.processor(name, func() engine.Processor { own := e; return &own }, s.node)
	n.Connect(t.view.stores...)
	n.NullKeys = isLeft
	return &Stream[K, R]{b: b, node: n, key: s.key, value: sameSerde[V, R](s.value), rekeyed: s.rekeyed}
}
