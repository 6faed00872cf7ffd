package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// Serde turns a type into bytes and back. Every call gets the topic (the store's
// changelog topic, also when logging is off) and the headers that ride beside the
// bytes. A serializer may add to them: what it adds is stored and logged with the row,
// and nobody else sees it.
type Serde[T any] interface {
	// Serialize returns the bytes of v; nil means null, which deletes. The store may keep
	// the slice: it must not change afterwards.
	Serialize(topic string, headers *Headers, v T) ([]byte, error)
	// Deserialize reads data, which is not nil, and must copy what it keeps of it.
	Deserialize(topic string, headers *Headers, data []byte) (T, error)
}

// HeaderFree is what a [Serde] may implement to say that it takes no headers: it is
// called with nil headers, and a store does not check a row's header block before it
// calls Deserialize.
type HeaderFree interface{ HeaderFree() }

// Appender is what a [Serde] may implement beside [HeaderFree] so that look-ups
// serialize their key into a reused buffer instead of a new slice.
type Appender[T any] interface {
	// Append appends the bytes that Serialize would return to dst.
	Append(dst []byte, v T) ([]byte, error)
}

// SerdeFuncs makes a [Serde] that takes no headers of two plain functions.
func SerdeFuncs[T any](encode func(T) ([]byte, error), decode func([]byte) (T, error)) Serde[T] {
	return funcs[T]{encode, decode}
}

type funcs[T any] struct {
	encode func(T) ([]byte, error)
	decode func([]byte) (T, error)
}

// Check tells what is missing.
func (f funcs[T]) Check() error {
	if f.encode == nil || f.decode == nil {
		return errors.New("SerdeFuncs needs both functions")
	}
	return nil
}

func (funcs[T]) HeaderFree()                                             {}
func (f funcs[T]) Serialize(_ string, _ *Headers, v T) ([]byte, error)   { return f.encode(v) }
func (f funcs[T]) Deserialize(_ string, _ *Headers, b []byte) (T, error) { return f.decode(b) }

// appending is a header-free serde whose form can be appended.
type appending[T any] struct {
	append func(dst []byte, v T) []byte
	decode func([]byte) (T, error)
}

func (appending[T]) HeaderFree() {}

func (s appending[T]) Append(dst []byte, v T) ([]byte, error) { return s.append(dst, v), nil }

func (s appending[T]) Serialize(_ string, _ *Headers, v T) ([]byte, error) {
	return s.append([]byte{}, v), nil
}

func (s appending[T]) Deserialize(_ string, _ *Headers, b []byte) (T, error) { return s.decode(b) }

// Bytes is the serde of raw bytes, copied both ways. Nil is null.
func Bytes() Serde[[]byte] { return bytesSerde{} }

type bytesSerde struct{}

func (bytesSerde) HeaderFree() {}

func (bytesSerde) Serialize(_ string, _ *Headers, v []byte) ([]byte, error) {
	return bytes.Clone(v), nil
}

func (bytesSerde) Deserialize(_ string, _ *Headers, b []byte) ([]byte, error) {
	return bytes.Clone(b), nil
}

func (bytesSerde) Append(dst []byte, v []byte) ([]byte, error) {
	if v == nil {
		return dst, ErrNilKey
	}
	return append(dst, v...), nil
}

// RawBytes is Bytes without the copies, for those who can keep its rules: a slice that
// was put must never change again, and one that was read is valid until the next call
// of the store, or the next step of the scan.
func RawBytes() Serde[[]byte] { return rawBytesSerde{} }

type rawBytesSerde struct{ bytesSerde }

func (rawBytesSerde) Serialize(_ string, _ *Headers, v []byte) ([]byte, error)   { return v, nil }
func (rawBytesSerde) Deserialize(_ string, _ *Headers, b []byte) ([]byte, error) { return b, nil }

// String is the serde of strings: their bytes, as Kafka's UTF-8 StringSerializer.
func String() Serde[string] {
	return appending[string]{
		append: func(dst []byte, v string) []byte { return append(dst, v...) },
		decode: func(b []byte) (string, error) { return string(b), nil },
	}
}

// Int32 is the serde of Kafka's IntegerSerializer: 4 bytes, big-endian.
func Int32() Serde[int32] {
	return appending[int32]{
		append: func(dst []byte, v int32) []byte { return binary.BigEndian.AppendUint32(dst, uint32(v)) },
		decode: fixed(4, func(b []byte) int32 { return int32(binary.BigEndian.Uint32(b)) }),
	}
}

// Int64 is the serde of Kafka's LongSerializer: 8 bytes, big-endian.
func Int64() Serde[int64] {
	return appending[int64]{
		append: func(dst []byte, v int64) []byte { return binary.BigEndian.AppendUint64(dst, uint64(v)) },
		decode: fixed(8, func(b []byte) int64 { return int64(binary.BigEndian.Uint64(b)) }),
	}
}

// Float64 is the serde of Kafka's DoubleSerializer: IEEE 754 bits, 8 bytes, big-endian.
func Float64() Serde[float64] {
	return appending[float64]{
		append: func(dst []byte, v float64) []byte {
			bits := math.Float64bits(v)
			if v != v {
				bits = 0x7ff8 << 48 // Java writes every NaN as this one; Go's differs
			}
			return binary.BigEndian.AppendUint64(dst, bits)
		},
		decode: fixed(8, func(b []byte) float64 { return math.Float64frombits(binary.BigEndian.Uint64(b)) }),
	}
}

func fixed[T any](size int, decode func([]byte) T) func([]byte) (T, error) {
	return func(b []byte) (T, error) {
		if len(b) != size {
			var zero T
			return zero, fmt.Errorf("%d bytes where the type has %d", len(b), size)
		}
		return decode(b), nil
	}
}

// JSON is the serde of encoding/json. A nil pointer, map or slice is the JSON value
// null, not a tombstone.
func JSON[T any]() Serde[T] {
	return SerdeFuncs(
		func(v T) ([]byte, error) { return json.Marshal(v) },
		func(b []byte) (v T, err error) {
			err = json.Unmarshal(b, &v)
			return v, err
		})
}
