package dsl

import (
	"errors"

	"github.com/google/uuid"

	"github.com/forebay-streams/forebay/store"
)

// Nullable is the serde of a pointer: nil is null, anything else is what the serde makes of
// the value it points to. Streams of pointers let functions see null values.
func Nullable[T any](s store.Serde[T]) store.Serde[*T] {
	if _, free := s.(store.HeaderFree); free {
		return freeNullable[T]{nullable[T]{s}}
	}
	return nullable[T]{s}
}

type nullable[T any] struct{ of store.Serde[T] }

func (s nullable[T]) Serialize(topic string, h *store.Headers, v *T) ([]byte, error) {
	if v == nil {
		return nil, nil
	}
	return s.of.Serialize(topic, h, *v)
}

func (s nullable[T]) Deserialize(topic string, h *store.Headers, b []byte) (*T, error) {
	v, err := s.of.Deserialize(topic, h, b)
	if err != nil {
		return nil, err
	}
	return &v, nil
}

type freeNullable[T any] struct{ nullable[T] }

func (freeNullable[T]) HeaderFree() {}

// knownSerdes are those of types that Kafka has serdes for.
var knownSerdes = []any{
	store.String(), store.Int32(), store.Int64(), store.Float64(), store.Bytes(), store.UUID(),
	Nullable(store.String()), Nullable(store.Int32()), Nullable(store.Int64()), Nullable(store.Float64()), Nullable[uuid.UUID](store.UUID()),
}

// known returns the serde, or the one that goes with its type if it is nil, or nil.
func known[T any](s store.Serde[T]) store.Serde[T] {
	if s != nil {
		return s
	}
	for _, k := range knownSerdes {
		if s, ok := k.(store.Serde[T]); ok {
			return s
		}
	}
	return nil
}

// codec is a serde for what travels between nodes.
type codec[T any] struct {
	serde store.Serde[T]
	free  bool
}

func newCodec[T any](s store.Serde[T]) codec[T] {
	_, free := s.(store.HeaderFree)
	return codec[T]{s, free}
}

func (c codec[T]) headers(h *store.Headers) *store.Headers {
	if c.free {
		return nil
	}
	return h
}

// encode returns nil for null.
func (c codec[T]) encode(topic string, h *store.Headers, v any) ([]byte, error) {
	if v == nil {
		return nil, nil
	}
	return c.serde.Serialize(topic, c.headers(h), v.(T))
}

// decode returns nil for null.
func (c codec[T]) decode(topic string, h *store.Headers, b []byte) (any, error) {
	if b == nil {
		return nil, nil
	}
	v, err := c.serde.Deserialize(topic, c.headers(h), b)
	if err != nil {
		return nil, err
	}
	return box(v), nil
}

var errNoSerde = errors.New("no serde is known for this type; give one with WithKeySerde, WithValueSerde, or in the call")
