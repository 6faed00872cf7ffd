package dsl

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/forebay-streams/forebay/dsl/internal/engine"
	"github.com/forebay-streams/forebay/dsl/internal/wire"
	"github.com/forebay-streams/forebay/store"
)

// To writes the stream to a topic, with the records' timestamps and headers.
func (s *Stream[K, V]) To(topic string, options ...SinkOption) {
	o := collect(options)
	name := s.b.nameOr(o.name, "KSTREAM-SINK-")
	if topic == "" {
		s.b.fail(name, errors.New("the topic's name is empty"))
	}
	s.b.add(&engine.Node{Name: name, Parents: []*engine.Node{s.node}, Sink: sink(s, name, engine.Topic{Name: topic}, o)})
}

// ToTopics writes each record to the topic that a function names. The topics must exist.
func (s *Stream[K, V]) ToTopics(choose func(key K, value V, r store.Record) string, options ...SinkOption) {
	o := collect(options)
	name := s.b.nameOr(o.name, "KSTREAM-SINK-")
	s.b.needs(name, "ToTopics", choose != nil)
	out := sink(s, name, engine.Topic{}, o)
	out.Dynamic = func(c store.Record, r engine.Record) string { return choose(as[K](r.Key), as[V](r.Value), c) }
	s.b.add(&engine.Node{Name: name, Parents: []*engine.Node{s.node}, Sink: out})
}

func sink[K, V any](s *Stream[K, V], operator string, topic engine.Topic, o settings) *engine.Sink {
	k, v := serdeFor(s.b, operator, "a key", s.key), serdeFor(s.b, operator, "a value", s.value)
	return &engine.Sink{Topic: topic, Encode: encodePlain(k, v), Partition: partition[K, V](s.b, operator, o, s.key)}
}

func encodePlain[K, V any](k codec[K], v codec[V]) func(string, *store.Headers, engine.Record) ([]byte, []byte, error) {
	return func(topic string, h *store.Headers, r engine.Record) (key, value []byte, err error) {
		if key, err = k.encode(topic, h, r.Key); err != nil {
			return nil, nil, fmt.Errorf("the key cannot be written: %w", err)
		}
		if value, err = v.encode(topic, h, r.Value); err != nil {
			return nil, nil, fmt.Errorf("the value cannot be written: %w", err)
		}
		return key, value, nil
	}
}

// partition is how a sink chooses: as the user says, or by the hash of the key; of a
// windowed key only the inner one counts.
func partition[K, V any](b *Builder, operator string, o settings, key store.Serde[K]) func(string, engine.Record, []byte, int32) int32 {
	if o.partitioner != nil {
		choose, ok := o.partitioner.(func(string, K, V, int32) int32)
		if !ok {
			b.fail(operator, wrongTypes[K, V]("Partitioner", o.partitioner))
		}
		b.needs(operator, "Partitioner", !ok || choose != nil)
		return func(topic string, r engine.Record, _ []byte, n int32) int32 {
			return choose(topic, as[K](r.Key), as[V](r.Value), n)
		}
	}
	inner := func(b []byte) []byte { return b }
	if w, ok := key.(interface{ inner([]byte) []byte }); ok {
		inner = w.inner
	}
	return func(_ string, _ engine.Record, key []byte, n int32) int32 {
		if key == nil {
			return engine.AnyPartition
		}
		return wire.Partition(inner(key), n)
	}
}

// Repartition writes the stream to an internal topic and reads it back, so that records of
// a key are in one partition. Records without a key are dropped, unless something
// downstream keeps them: a left or outer join.
func (s *Stream[K, V]) Repartition(options ...RepartitionOption) *Stream[K, V] {
	o := collect(options)
	base := o.name
	if base == "" {
		base = s.b.name("KSTREAM-REPARTITION-")
	}
	return repartitioned(s, base, o)
}

// generated are the names that a builder's counter gives to topics.
var generated = regexp.MustCompile(`^KSTREAM.*-[0-9]{10}$`)

// repartitioned goes through the topic <base>-repartition. Its nodes are named after it if
// the name is the user's; three numbers are taken in any case.
func repartitioned[K, V any](s *Stream[K, V], base string, o settings) *Stream[K, V] {
	given := func(suffix string) string {
		if generated.MatchString(base) {
			return ""
		}
		return base + "-repartition-" + suffix
	}
	sinkName := s.b.nameOr(given("sink"), "KSTREAM-SINK-")
	filterName := s.b.nameOr(given("filter"), "KSTREAM-FILTER-")
	sourceName := s.b.nameOr(given("source"), "KSTREAM-SOURCE-")
	topic := engine.Topic{Name: base + "-repartition", Internal: true, Partitions: o.partitions}

	keepNull := false // whether something downstream makes use of records without a key
	filter := s.b.processor(filterName, stateless(func(c *engine.Context, r engine.Record) error {
		if r.Key == nil && !keepNull {
			return nil
		}
		return c.Forward(r)
	}), s.node)
	s.b.late = append(s.b.late, func() {
		keepNull = s.b.graph.Downstream(filter, func(n *engine.Node) bool { return n.NullKeys })
	})
	s.b.add(&engine.Node{Name: sinkName, Parents: []*engine.Node{filter}, Sink: sink(s, sinkName, topic, o)})
	k, v := serdeFor(s.b, sourceName, "a key", s.key), serdeFor(s.b, sourceName, "a value", s.value)
	out := *s
	out.node = s.b.add(&engine.Node{Name: sourceName, Source: &engine.Source{Topics: []engine.Topic{topic}, Decode: decodePlain(k, v)}})
	out.rekeyed = false
	return &out
}
