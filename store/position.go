package store

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
)

// Position says how far a store has come in its input: topic, partition and the offset
// of the last record it took in (KIP-796). The zero value is the empty position. A copy
// shares the offsets: Clone makes an independent one. A Position is not safe for
// concurrent changes.
type Position struct {
	offsets map[string]map[int32]int64
}

const positionVersion = 0

// Advance notes an offset; a smaller one than known changes nothing.
func (p *Position) Advance(topic string, partition int32, offset int64) {
	parts := p.offsets[topic]
	if parts == nil {
		if p.offsets == nil {
			p.offsets = make(map[string]map[int32]int64)
		}
		parts = make(map[int32]int64)
		p.offsets[topic] = parts
	}
	if old, ok := parts[partition]; !ok || offset > old {
		parts[partition] = offset
	}
}

// Offset returns the offset of a partition and whether it is known.
func (p Position) Offset(topic string, partition int32) (int64, bool) {
	offset, ok := p.offsets[topic][partition]
	return offset, ok
}

// Empty tells whether no partition is known.
func (p Position) Empty() bool { return len(p.offsets) == 0 }

// Topics returns the topics, sorted.
func (p Position) Topics() []string { return slices.Sorted(maps.Keys(p.offsets)) }

// Partitions returns the known partitions of a topic, sorted.
func (p Position) Partitions(topic string) []int32 {
	return slices.Sorted(maps.Keys(p.offsets[topic]))
}

// Merge takes the larger offset of each partition.
func (p *Position) Merge(o Position) {
	for topic, parts := range o.offsets {
		for partition, offset := range parts {
			p.Advance(topic, partition, offset)
		}
	}
}

// Clone returns an independent copy.
func (p Position) Clone() Position {
	var c Position
	c.Merge(p)
	return c
}

// Equal compares all offsets.
func (p Position) Equal(o Position) bool {
	return maps.EqualFunc(p.offsets, o.offsets, maps.Equal)
}

// String lists topic-partition:offset.
func (p Position) String() string {
	s := "{"
	for _, topic := range p.Topics() {
		for _, partition := range p.Partitions(topic) {
			if len(s) > 1 {
				s += " "
			}
			s += fmt.Sprintf("%s-%d:%d", topic, partition, p.offsets[topic][partition])
		}
	}
	return s + "}"
}

// Bytes encodes the position, topics and partitions sorted. Kafka sizes its buffer in
// bits where bytes were meant and stores it whole; Bytes writes the same zero padding.
func (p Position) Bytes() []byte {
	size := 40
	for topic, parts := range p.offsets {
		size += 64 + len(topic) + 96*len(parts)
	}
	b := make([]byte, 0, size)
	b = append(b, positionVersion)
	b = binary.BigEndian.AppendUint32(b, uint32(len(p.offsets)))
	for _, topic := range p.Topics() {
		b = binary.BigEndian.AppendUint32(b, uint32(len(topic)))
		b = append(b, topic...)
		b = binary.BigEndian.AppendUint32(b, uint32(len(p.offsets[topic])))
		for _, partition := range p.Partitions(topic) {
			b = binary.BigEndian.AppendUint32(b, uint32(partition))
			b = binary.BigEndian.AppendUint64(b, uint64(p.offsets[topic][partition]))
		}
	}
	return b[:size]
}

// DecodePosition reads an encoded position. What follows it is padding and ignored.
// Errors are [ErrCorrupt]: position_truncated, position_version, position_count,
// position_length.
func DecodePosition(b []byte) (Position, error) {
	var p Position
	if len(b) < 1 {
		return p, corrupt("position_truncated", 0)
	}
	if b[0] != positionVersion {
		return p, corrupt("position_version", 0)
	}
	r := positionReader{b: b, off: 1}
	// The smallest topic takes 8 bytes and a pair 12: no loop runs by a claimed count alone.
	topics := r.count(8)
	for range topics {
		topic := r.topic()
		pairs := r.count(12)
		for range pairs {
			partition, offset := r.pair()
			if r.err != nil {
				return Position{}, r.err
			}
			p.Advance(topic, partition, offset)
		}
		if r.err != nil {
			return Position{}, r.err
		}
	}
	if r.err != nil {
		return Position{}, r.err
	}
	return p, nil
}

// positionReader keeps the first error; after it, reads give zeros.
type positionReader struct {
	b   []byte
	off int
	err error
}

func (r *positionReader) take(n int) []byte {
	if r.err == nil && n > len(r.b)-r.off {
		r.err = corrupt("position_truncated", r.off)
	}
	if r.err != nil {
		return nil
	}
	r.off += n
	return r.b[r.off-n : r.off]
}

func (r *positionReader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *positionReader) count(unit int) int {
	n := int(r.int32())
	if r.err == nil && (n < 0 || n > (len(r.b)-r.off)/unit) {
		r.err = corrupt("position_count", r.off-4)
		return 0
	}
	return n
}

func (r *positionReader) topic() string {
	n := int(r.int32())
	if r.err == nil && n < 0 {
		r.err = corrupt("position_length", r.off-4)
	}
	return string(r.take(n))
}

func (r *positionReader) pair() (int32, int64) {
	partition := r.int32()
	if b := r.take(8); b != nil {
		return partition, int64(binary.BigEndian.Uint64(b))
	}
	return 0, 0
}
