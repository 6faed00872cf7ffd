package engine

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
)

// Metadata is what is committed with an input offset, as Kafka Streams writes it: how far
// the partition's time has come, and the task's marks.
type Metadata struct {
	Time  int64 // -1: not known
	Marks map[string]int64
}

// The versions of the string. The first has the time only.
const (
	metadataV1 = 1
	metadataV2 = 2
)

var errMetadata = errors.New("not the metadata of an offset that a stream processing application committed")

// String is base64 of version, time and marks, sorted by name.
func (m Metadata) String() string {
	b := []byte{metadataV2}
	b = binary.BigEndian.AppendUint64(b, uint64(m.Time))
	if len(m.Marks) > 0 {
		b = binary.BigEndian.AppendUint32(b, uint32(len(m.Marks)))
		for _, name := range slices.Sorted(maps.Keys(m.Marks)) {
			b = binary.BigEndian.AppendUint32(b, uint32(len(name)))
			b = append(b, name...)
			b = binary.BigEndian.AppendUint64(b, uint64(m.Marks[name]))
		}
	}
	return base64.StdEncoding.EncodeToString(b)
}

// ParseMetadata reads the string. An empty one knows nothing, and so does one that is not
// understood, with an error to warn of.
func ParseMetadata(s string) (Metadata, error) {
	none := Metadata{Time: -1}
	if s == "" {
		return none, nil
	}
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil || len(b) < 9 || b[0] != metadataV1 && b[0] != metadataV2 {
		return none, errMetadata
	}
	out := Metadata{Time: int64(binary.BigEndian.Uint64(b[1:]))}
	if b[0] == metadataV1 || len(b) == 9 {
		return out, nil
	}
	if b = b[9:]; len(b) < 4 {
		return none, errMetadata
	}
	n, b := int32(binary.BigEndian.Uint32(b)), b[4:]
	out.Marks = map[string]int64{}
	for range n {
		if len(b) < 4 {
			return none, errMetadata
		}
		size := int64(int32(binary.BigEndian.Uint32(b)))
		if b = b[4:]; size < 0 || size > int64(len(b))-8 {
			return none, errMetadata
		}
		out.Marks[string(b[:size])] = int64(binary.BigEndian.Uint64(b[size:]))
		b = b[size+8:]
	}
	return out, nil
}
