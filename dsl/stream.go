package dsl

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/forebay-streams/forebay/dsl/internal/engine"
	"github.com/forebay-streams/forebay/store"
)

// Stream is a stream of records: independent facts under keys. Its methods and the
// package's functions add operators behind it and return what they make. A stream carries
// the serdes of its key and value as far as they are known; those of Go's and Kafka's
// basic types always are.
type Stream[K, V any] struct {
	b     *Builder
	node  *engine.Node
	key   store.Serde[K]
	value store.Serde[V]
	// rekeyed streams must be repartitioned before a grouping or join by key.
	rekeyed bool
}

// ReadStream reads a topic (StreamsBuilder.stream in Java). Nil serdes are those known for
// the types.
func ReadStream[K, V any](b *Builder, topic string, key store.Serde[K], value store.Serde[V], options ...SourceOption) *Stream[K, V] {
	return ReadStreams(b, []string{topic}, key, value, options...)
}

// ReadStreams reads several topics as one stream. Records of different topics come in no
// particular order. To read the same topics again, as the same types, is to get the same
// stream again, with the serdes and options of the first time.
func ReadStreams[K, V any](b *Builder, topics []string, key store.Serde[K], value store.Serde[V], options ...SourceOption) *Stream[K, V] {
	s := collect(options)
	name := b.nameOr(s.name, "KSTREAM-SOURCE-")
	if err := distinct(topics); err != nil {
		b.fail(name, err)
	}
	key, value = known(key), known(value)
	again := strings.Join(slices.Sorted(slices.Values(topics)), "\x00") // which is in no topic's name
	as := reading{key: reflect.TypeFor[K](), value: reflect.TypeFor[V]()}
	if first := b.streams[again]; first.key == as.key && first.value == as.value {
		return &Stream[K, V]{b: b, node: first.node, key: key, value: value}
	}
	as.node = b.add(&engine.Node{Name: name, Source: source(b, name, key, value, s, topics...)})
	b.streams[again] = as
	return &Stream[K, V]{b: b, node: as.node, key: key, value: value}
}

// reading is how topics are read as a stream.
type reading struct {
	node       *engine.Node
	key, value reflect.Type
}

func source[K, V any](b *Builder, operator string, key store.Serde[K], value store.Serde[V], s settings, topics ...string) *engine.Source {
	k, v := serdeFor(b, operator, "a key", key), serdeFor(b, operator, "a value", value)
	out := &engine.Source{Decode: decodePlain(k, v)}
	if s.timestamp != nil {
		extract, ok := s.timestamp.(func(K, V, int64, int64) int64)
		if !ok {
			b.fail(operator, wrongTypes[K, V]("Time", s.timestamp))
		}
		b.needs(operator, "Time", !ok || extract != nil)
		out.Timestamp = func(r engine.Record, previous int64) int64 {
			return extract(as[K](r.Key), as[V](r.Value), r.Timestamp, previous)
		}
	}
	for _, t := range topics {
		out.Topics = append(out.Topics, engine.Topic{Name: t})
	}
	return out
}

func decodePlain[K, V any](k codec[K], v codec[V]) func(string, *store.Headers, []byte, []byte) (any, any, any, error) {
	return func(topic string, h *store.Headers, key, value []byte) (any, any, any, error) {
		rk, err := k.decode(topic, h, key)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("the key cannot be read: %w", err)
		}
		rv, err := v.decode(topic, h, value)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("the value cannot be read: %w", err)
		}
		return rk, rv, nil, nil
	}
}

// WithKeySerde is the stream with another serde for its keys.
func (s *Stream[K, V]) WithKeySerde(key store.Serde[K]) *Stream[K, V] {
	out := *s
	out.key = key
	return &out
}

// WithValueSerde is the stream with another serde for its values.
func (s *Stream[K, V]) WithValueSerde(value store.Serde[V]) *Stream[K, V] {
	out := *s
	out.value = value
	return &out
}

// orEmpty puts an empty stream in the place of a nil one, so that the error comes from Build.
func (s *Stream[K, V]) orEmpty() *Stream[K, V] {
	if s != nil {
		return s
	}
	return &Stream[K, V]{node: &engine.Node{}}
}

// needs reports a nil function of the operator that made the stream.
func (s *Stream[K, V]) needs(function string, given bool) *Stream[K, V] {
	s.b.needs(s.node.Name, function, given)
	return s
}

// then adds a node behind a stream.
func (s *Stream[K, V]) then(prefix string, options []Option, make func() engine.Processor) *engine.Node {
	return s.b.processor(s.b.nameOr(collect(options).name, prefix), make, s.node)
}

// Filter keeps the records that the predicate holds for. A null value that V has no nil
// for satisfies no predicate.
func (s *Stream[K, V]) Filter(keep func(key K, value V) bool, options ...Option) *Stream[K, V] {
	return s.filter(keep, true, options).needs("Filter", keep != nil)
}

// FilterNot drops the records that the predicate holds for.
func (s *Stream[K, V]) FilterNot(drop func(key K, value V) bool, options ...Option) *Stream[K, V] {
	return s.filter(drop, false, options).needs("FilterNot", drop != nil)
}

func (s *Stream[K, V]) filter(predicate func(K, V) bool, keep bool, options []Option) *Stream[K, V] {
	out := *s
	out.node = s.then("KSTREAM-FILTER-", options, stateless(func(c *engine.Context, r engine.Record) error {
		if holds(predicate, r.Key, r.Value) != keep {
			return nil
		}
		return c.Forward(r)
	}))
	return &out
}

func holds[K, V any](predicate func(K, V) bool, key, value any) bool {
	return !unseen[V](value) && predicate(as[K](key), as[V](value))
}

// Peek calls a function for each record and passes the record on.
func (s *Stream[K, V]) Peek(look func(key K, value V), options ...Option) *Stream[K, V] {
	out := *s
	out.node = s.then("KSTREAM-PEEK-", options, stateless(func(c *engine.Context, r engine.Record) error {
		if !unseen[V](r.Value) {
			look(as[K](r.Key), as[V](r.Value))
		}
		return c.Forward(r)
	}))
	return out.needs("Peek", look != nil)
}

// MapValues turns each value into another. The key stays, and so does the partition. A null
// value that V has no nil for stays null.
func MapValues[K, V, W any](s *Stream[K, V], to func(value V) W, options ...Option) *Stream[K, W] {
	return mapValues(s, func(_ K, v V) W { return to(v) }, options).needs("MapValues", to != nil)
}

// MapValuesWithKey is MapValues with a look at the key, which must not be changed.
func MapValuesWithKey[K, V, W any](s *Stream[K, V], to func(key K, value V) W, options ...Option) *Stream[K, W] {
	return mapValues(s, to, options).needs("MapValuesWithKey", to != nil)
}

// MapNullable is MapValues for a V that has no nil: a null value, such as the deletion of a
// count, is a nil pointer.
func MapNullable[K, V, W any](s *Stream[K, V], to func(value *V) W, options ...Option) *Stream[K, W] {
	n := s.then("KSTREAM-MAPVALUES-", options, stateless(func(c *engine.Context, r engine.Record) error {
		var v *V
		if r.Value != nil {
			held := as[V](r.Value)
			v = &held
		}
		r.Value = box(to(v))
		return c.Forward(r)
	}))
	s.b.needs(n.Name, "MapNullable", to != nil)
	return &Stream[K, W]{b: s.b, node: n, key: s.key, value: sameSerde[V, W](s.value), rekeyed: s.rekeyed}
}

func mapValues[K, V, W any](s *Stream[K, V], to func(K, V) W, options []Option) *Stream[K, W] {
	n := s.then("KSTREAM-MAPVALUES-", options, stateless(func(c *engine.Context, r engine.Record) error {
		if !unseen[V](r.Value) {
			r.Value = box(to(as[K](r.Key), as[V](r.Value)))
		}
		return c.Forward(r)
	}))
	return &Stream[K, W]{b: s.b, node: n, key: s.key, value: sameSerde[V, W](s.value), rekeyed: s.rekeyed}
}

// sameSerde keeps a serde where the type stays.
func sameSerde[V, W any](s store.Serde[V]) store.Serde[W] {
	if same, ok := s.(store.Serde[W]); ok {
		return same
	}
	return known[W](nil)
}

// Pair is a key and a value.
type Pair[K, V any] struct {
	Key   K
	Value V
}

// Map turns each record into one with another key and value. What groups or joins by the
// new key goes through a repartition topic. A null value that V has no nil for is dropped.
func Map[K, V, L, W any](s *Stream[K, V], to func(key K, value V) (L, W), options ...Option) *Stream[L, W] {
	n := s.then("KSTREAM-MAP-", options, stateless(func(c *engine.Context, r engine.Record) error {
		if unseen[V](r.Value) {
			c.Drop(nullUnseen)
			return nil
		}
		k, v := to(as[K](r.Key), as[V](r.Value))
		r.Key, r.Value = box(k), box(v)
		return c.Forward(r)
	}))
	s.b.needs(n.Name, "Map", to != nil)
	return &Stream[L, W]{b: s.b, node: n, key: sameSerde[K, L](s.key), value: sameSerde[V, W](s.value), rekeyed: true}
}

const nullUnseen = "a null value, which the function's type cannot hold"

// SelectKey gives each record another key.
func SelectKey[K, V, L any](s *Stream[K, V], to func(key K, value V) L, options ...Option) *Stream[L, V] {
	return selectKey(s, to, s.b.nameOr(collect(options).name, "KSTREAM-KEY-SELECT-")).needs("SelectKey", to != nil)
}

func selectKey[K, V, L any](s *Stream[K, V], to func(K, V) L, name string) *Stream[L, V] {
	n := s.b.processor(name, stateless(func(c *engine.Context, r engine.Record) error {
		if unseen[V](r.Value) {
			c.Drop(nullUnseen)
			return nil
		}
		r.Key = box(to(as[K](r.Key), as[V](r.Value)))
		return c.Forward(r)
	}), s.node)
	return &Stream[L, V]{b: s.b, node: n, key: sameSerde[K, L](s.key), value: s.value, rekeyed: true}
}

// FlatMap turns each record into any number of records.
func FlatMap[K, V, L, W any](s *Stream[K, V], to func(key K, value V) []Pair[L, W], options ...Option) *Stream[L, W] {
	n := s.then("KSTREAM-FLATMAP-", options, stateless(func(c *engine.Context, r engine.Record) error {
		if unseen[V](r.Value) {
			c.Drop(nullUnseen)
			return nil
		}
		for _, p := range to(as[K](r.Key), as[V](r.Value)) {
			r.Key, r.Value = box(p.Key), box(p.Value)
			if err := c.Forward(r); err != nil {
				return err
			}
		}
		return nil
	}))
	s.b.needs(n.Name, "FlatMap", to != nil)
	return &Stream[L, W]{b: s.b, node: n, key: sameSerde[K, L](s.key), value: sameSerde[V, W](s.value), rekeyed: true}
}

// FlatMapValues turns each value into any number of values under the same key.
func FlatMapValues[K, V, W any](s *Stream[K, V], to func(value V) []W, options ...Option) *Stream[K, W] {
	return FlatMapValuesWithKey(s, func(_ K, v V) []W { return to(v) }, options...).needs("FlatMapValues", to != nil)
}

// FlatMapValuesWithKey is FlatMapValues with a look at the key, which must not be changed.
func FlatMapValuesWithKey[K, V, W any](s *Stream[K, V], to func(key K, value V) []W, options ...Option) *Stream[K, W] {
	n := s.then("KSTREAM-FLATMAPVALUES-", options, stateless(func(c *engine.Context, r engine.Record) error {
		if unseen[V](r.Value) {
			c.Drop(nullUnseen)
			return nil
		}
		for _, v := range to(as[K](r.Key), as[V](r.Value)) {
			r.Value = box(v)
			if err := c.Forward(r); err != nil {
				return err
			}
		}
		return nil
	}))
	s.b.needs(n.Name, "FlatMapValuesWithKey", to != nil)
	return &Stream[K, W]{b: s.b, node: n, key: s.key, value: sameSerde[V, W](s.value), rekeyed: s.rekeyed}
}

// Merge is a stream of the records of both, in no particular order between them.
func (s *Stream[K, V]) Merge(o *Stream[K, V], options ...Option) *Stream[K, V] {
	out := *s
	o = o.orEmpty()
	name := s.b.nameOr(collect(options).name, "KSTREAM-MERGE-")
	s.b.takes(name, o.b)
	out.node = s.b.processor(name, stateless(func(c *engine.Context, r engine.Record) error { return c.Forward(r) }), s.node, o.node)
	out.rekeyed = s.rekeyed || o.rekeyed
	return &out
}

// function is a processor without state.
type function struct {
	c *engine.Context
	f func(*engine.Context, engine.Record) error
}

func stateless(f func(*engine.Context, engine.Record) error) func() engine.Processor {
	return func() engine.Processor { return &function{f: f} }
}

func (p *function) Init(c *engine.Context) error  { p.c = c; return nil }
func (p *function) Process(r engine.Record) error { return p.f(p.c, r) }
