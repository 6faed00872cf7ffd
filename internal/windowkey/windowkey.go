// Package windowkey is the keys of window and session stores inside a segment, and the
// bounds between which the rows of a query lie. docs/format/windowed.md has the bytes.
package windowkey

import (
	"bytes"
	"encoding/binary"
	"math"
)

// Row is the place of a row of a window store.
type Row struct {
	Key   []byte
	Start int64
	Seq   int32
}

// Schema says how the keys of a window store are laid out. Every one but Window and
// Memory has a first byte of its own.
type Schema uint8

const (
	// Window is key · start · sequence: ordinary stores and every changelog.
	Window Schema = iota
	// Base is 00 · start · key · sequence: time-ordered stores.
	Base
	// Index is 01 · key · start · sequence: what finds a key's base rows.
	Index
	// Memory is key behind a prefix that is the start.
	Memory
	// MemorySequence is key · sequence behind such a prefix.
	MemorySequence
)

// First bytes of time-ordered keys.
const (
	BasePrefix  = 0
	IndexPrefix = 1
)

const (
	timeSize = 8
	seqSize  = 4
)

// Append appends a row's key to dst. The start is not part of those in memory.
func (s Schema) Append(dst []byte, r Row) []byte {
	switch s {
	case Base:
		dst = append(dst, BasePrefix)
		dst = binary.BigEndian.AppendUint64(dst, uint64(r.Start))
		dst = append(dst, r.Key...)
		return binary.BigEndian.AppendUint32(dst, uint32(r.Seq))
	case Index:
		dst = append(dst, IndexPrefix)
	case Memory:
		return append(dst, r.Key...)
	case MemorySequence:
		dst = append(dst, r.Key...)
		return binary.BigEndian.AppendUint32(dst, uint32(r.Seq))
	}
	dst = append(dst, r.Key...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.Start))
	return binary.BigEndian.AppendUint32(dst, uint32(r.Seq))
}

// Parse takes a key apart; ok is false when it cannot be one. Keys in memory have no
// start, which is then 0.
func (s Schema) Parse(b []byte) (r Row, ok bool) {
	switch s {
	case Memory:
		return Row{Key: b}, true
	case MemorySequence:
		if len(b) < seqSize {
			return r, false
		}
		return Row{Key: b[:len(b)-seqSize], Seq: seq(b)}, true
	case Base, Index:
		if len(b) == 0 || b[0] != s.first() {
			return r, false
		}
		b = b[1:]
	}
	end := len(b) - timeSize - seqSize
	if end < 0 {
		return r, false
	}
	if s == Base {
		return Row{b[timeSize : timeSize+end], int64(binary.BigEndian.Uint64(b)), seq(b)}, true
	}
	return Row{b[:end], int64(binary.BigEndian.Uint64(b[end:])), seq(b)}, true
}

func (s Schema) first() byte {
	if s == Index {
		return IndexPrefix
	}
	return BasePrefix
}

func seq(b []byte) int32 { return int32(binary.BigEndian.Uint32(b[len(b)-seqSize:])) }

// One returns the bounds of one key's rows, both included.
func (s Schema) One(key []byte, from, to int64) (low, high []byte) {
	return s.Append([]byte{}, Row{key, max(from, 0), 0}), s.Append([]byte{}, Row{key, to, math.MaxInt32})
}

// Range returns the bounds of the rows of a range of keys, nil keys being open ends, and
// nil bounds too. Other rows lie between them as well.
func (s Schema) Range(first, last []byte, from, to int64) (low, high []byte) {
	from = max(from, 0)
	if s == Base {
		low = append(binary.BigEndian.AppendUint64([]byte{BasePrefix}, uint64(from)), first...)
		if last == nil {
			return low, []byte{BasePrefix + 1}
		}
		high = binary.BigEndian.AppendUint64([]byte{BasePrefix}, uint64(to))
		high = append(high, bytes.Repeat([]byte{0xff}, len(last))...)
		return low, binary.BigEndian.AppendUint32(high, math.MaxInt32)
	}
	if s == Index {
		low, high = []byte{IndexPrefix}, []byte{IndexPrefix + 1}
	}
	if first != nil {
		low = append(low, first...)
		switch s {
		case Window, Index:
			low = append(low, make([]byte, timeSize+seqSize)...)
		case MemorySequence:
			low = append(low, make([]byte, seqSize)...)
		}
		low = nonNil(low)
	}
	if last == nil {
		return low, high
	}
	switch s {
	case Window:
		high = Upper(last, windowSuffix(to))
	case Index:
		high = append([]byte{IndexPrefix}, Upper(last, windowSuffix(to))...)
	case Memory:
		high = nonNil(bytes.Clone(last))
	case MemorySequence:
		high = Upper(last, binary.BigEndian.AppendUint32(nil, math.MaxInt32))
	}
	return low, high
}

func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func windowSuffix(to int64) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, uint64(to)), math.MaxInt32)
}

// Upper is the largest of prefix and suffix over all prefixes of key that are not empty.
// No row of a key up to this one, followed by at most suffix, lies above it: a shorter
// key may be followed by bytes above the rest of a longer one. (Kafka Streams compares
// with one prefix only and misses such rows.)
func Upper(key, suffix []byte) []byte {
	best := append(bytes.Clone(key[:min(1, len(key))]), suffix...)
	for n := 2; n <= len(key); n++ {
		if candidate := append(bytes.Clone(key[:n]), suffix...); bytes.Compare(candidate, best) > 0 {
			best = candidate
		}
	}
	return best
}

// ToIndex and ToBase append the key of a base row's index row to dst, and the reverse.
func ToIndex(dst, base []byte) []byte { return convert(dst, base, Base, Index) }

// ToBase: see ToIndex.
func ToBase(dst, index []byte) []byte { return convert(dst, index, Index, Base) }

func convert(dst, key []byte, from, to Schema) []byte {
	r, ok := from.Parse(key)
	if !ok {
		return append(dst, key...) // not a row's: nothing will be found
	}
	return to.Append(dst, r)
}
