// Package versions is the form of a versioned store's rows: physical keys, the row of a
// key's latest version, the rows of older ones by segment, and what a put and a read do
// with them. It is pure code over a [Reader] of rows. docs/format/versioned.md has the
// bytes.
package versions

import (
	"encoding/binary"
	"math"
)

// Latest is the segment id that the rows of latest versions have. It sorts last.
const Latest int64 = -1

const prefixSize = 8

// AppendKey appends the physical key of a key's row in a segment.
func AppendKey(dst []byte, segment int64, key []byte) []byte {
	return append(binary.BigEndian.AppendUint64(dst, uint64(segment)), key...)
}

// SplitKey takes a physical key apart. Not ok: it is none of a store with that segment
// interval.
func SplitKey(physical []byte, interval int64) (segment int64, key []byte, ok bool) {
	if len(physical) < prefixSize {
		return 0, nil, false
	}
	segment = int64(binary.BigEndian.Uint64(physical))
	return segment, physical[prefixSize:], segment >= Latest && segment <= math.MaxInt64/interval
}

// IsLatest tells which of the two kinds of row a physical key has.
func IsLatest(physical []byte) bool {
	return len(physical) >= prefixSize && int64(binary.BigEndian.Uint64(physical)) == Latest
}
