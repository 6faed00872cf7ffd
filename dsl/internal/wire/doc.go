// Package wire is the bytes that the DSL's operators exchange over internal topics and
// log for their buffers: changes of grouped tables, windowed keys, subscriptions and
// responses of foreign-key joins, buffered rows. docs/format/dsl.md has them with
// vectors. Keys of window and session stores are in internal/windowkey, lists of
// unmatched join rows in internal/joinlist.
//
// Decoded keys and values are sub-slices of what was decoded. Malformed bytes are
// [store.ErrCorrupt], what does not fit into a length [store.ErrTooLarge].
package wire

import (
	"encoding/binary"
	"math"

	"github.com/forebay-streams/forebay/store"
)

func corrupt(reason string, offset int) error {
	return &store.CorruptError{Reason: reason, Offset: offset}
}

const (
	timeSize   = 8
	lengthSize = 4
)

// null is the length of a value that is null.
const null = -1

// appendSized appends a value behind its 4-byte length.
func appendSized(dst, value []byte) []byte {
	if value == nil {
		return appendLength(dst, null)
	}
	return append(appendLength(dst, len(value)), value...)
}

func appendLength(dst []byte, n int) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(int32(n)))
}

// fits refuses values whose lengths an int32 cannot say, together.
func fits(values ...[]byte) error {
	size := 0
	for _, v := range values {
		size += len(v)
	}
	if size > math.MaxInt32 {
		return store.ErrTooLarge
	}
	return nil
}

// reader cuts fields off b and keeps the first error; after it, fields are zero.
type reader struct {
	b   []byte
	off int
	err error
}

func (r *reader) fail(reason string, at int) {
	if r.err == nil {
		r.err = corrupt(reason, at)
	}
}

// bytes cuts n bytes off.
func (r *reader) bytes(n int, reason string) []byte {
	if n < 0 || n > len(r.b)-r.off {
		r.fail(reason, r.off)
	}
	if r.err != nil {
		return nil
	}
	r.off += n
	return r.b[r.off-n : r.off : r.off]
}

func (r *reader) byte(reason string) byte {
	if b := r.bytes(1, reason); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) int32(reason string) int {
	if b := r.bytes(lengthSize, reason); b != nil {
		return int(int32(binary.BigEndian.Uint32(b)))
	}
	return 0
}

func (r *reader) int64(reason string) int64 {
	if b := r.bytes(timeSize, reason); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// sized cuts a value off that appendSized wrote.
func (r *reader) sized(reason string) []byte {
	if n := r.int32(reason); n != null {
		return r.bytes(n, reason)
	}
	return nil
}

// rest is everything that is left.
func (r *reader) rest() []byte {
	if r.err != nil {
		return nil
	}
	return r.b[r.off:len(r.b):len(r.b)]
}
