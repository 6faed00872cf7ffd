package store

import (
	"fmt"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
)

// UUID is the serde of Kafka's UUIDSerializer: the 36 characters of the canonical text.
func UUID() Serde[uuid.UUID] {
	return appending[uuid.UUID]{
		append: func(dst []byte, v uuid.UUID) []byte { return append(dst, v.String()...) },
		decode: func(b []byte) (uuid.UUID, error) {
			if len(b) != 36 {
				return uuid.UUID{}, fmt.Errorf("%d bytes where a UUID's text has 36", len(b))
			}
			return uuid.ParseBytes(b)
		},
	}
}

// Protobuf is the serde of a protobuf message type, such as *orderpb.Order: its plain
// wire form, deterministic so that equal keys have equal bytes within one build. A nil
// message is null.
func Protobuf[T proto.Message]() Serde[T] {
	options := proto.MarshalOptions{Deterministic: true}
	return SerdeFuncs(
		func(v T) ([]byte, error) {
			if !v.ProtoReflect().IsValid() {
				return nil, nil
			}
			return options.MarshalAppend([]byte{}, v)
		},
		func(b []byte) (T, error) {
			var zero T
			v := zero.ProtoReflect().New().Interface().(T)
			return v, proto.Unmarshal(b, v)
		})
}
