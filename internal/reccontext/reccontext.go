// Package reccontext is the record context that stands at the start of a suppress
// buffer's values. docs/format/record-context.md has the bytes.
package reccontext

import (
	"encoding/binary"
	"math"
	"unicode/utf8"

	"github.com/forebay-streams/forebay/store"
)

// minHeader is the size of a header with empty key and value.
const minHeader = 4 + 4

// Append appends the context of the record to dst. Errors: [store.ErrCorrupt] for
// malformed stored headers, [store.ErrTooLarge].
func Append(dst []byte, r store.Record) ([]byte, error) {
	if err := r.Headers.Err(); err != nil {
		return dst, err
	}
	size := 8 + 8 + 4 + len(r.Topic) + 4 + 4
	for h := range r.Headers.All() {
		size += minHeader + len(h.Key) + len(h.Value)
	}
	if size > math.MaxInt32 {
		return dst, store.ErrTooLarge
	}
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.Timestamp))
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.Offset))
	dst = appendInt32(dst, len(r.Topic))
	dst = append(dst, r.Topic...)
	dst = appendInt32(dst, int(r.Partition))
	dst = appendInt32(dst, r.Headers.Len())
	for h := range r.Headers.All() {
		dst = appendInt32(dst, len(h.Key))
		dst = append(dst, h.Key...)
		if h.Value == nil {
			dst = appendInt32(dst, -1)
			continue
		}
		dst = appendInt32(dst, len(h.Value))
		dst = append(dst, h.Value...)
	}
	return dst, nil
}

func appendInt32(dst []byte, n int) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(int32(n)))
}

// Decode reads a context at the start of b and returns what follows it. Header values
// are sub-slices of b, which must not change afterwards. Errors are [store.ErrCorrupt]:
// context_length, key_not_utf8.
func Decode(b []byte) (r store.Record, rest []byte, err error) {
	d := reader{b: b}
	r.Timestamp = d.int64()
	r.Offset = d.int64()
	r.Topic = string(d.take(d.int32()))
	r.Partition = int32(d.int32())
	count := d.int32()
	if count != -1 { // which old writers left for "no headers"
		d.check(count >= 0 && count <= (len(b)-d.off)/minHeader, d.off-4)
	}
	var list []store.Header
	for range count {
		at := d.off + 4
		key := d.take(d.int32())
		if d.err == nil && !utf8.Valid(key) {
			d.err = corrupt("key_not_utf8", at)
		}
		var value []byte
		if n := d.int32(); n != -1 {
			value = d.take(n)
		}
		if d.err != nil {
			break
		}
		list = append(list, store.Header{Key: string(key), Value: value})
	}
	if d.err != nil {
		return store.Record{}, nil, d.err
	}
	r.Headers = store.HeadersOf(list)
	return r, b[d.off:], nil
}

// reader keeps the first error; after it, reads give zeros.
type reader struct {
	b   []byte
	off int
	err error
}

func (d *reader) check(ok bool, at int) {
	if !ok && d.err == nil {
		d.err = corrupt("context_length", at)
	}
}

func (d *reader) take(n int) []byte {
	d.check(n >= 0 && n <= len(d.b)-d.off, d.off)
	if d.err != nil {
		return nil
	}
	d.off += n
	return d.b[d.off-n : d.off : d.off]
}

func (d *reader) int32() int {
	if b := d.take(4); b != nil {
		return int(int32(binary.BigEndian.Uint32(b)))
	}
	return 0
}

func (d *reader) int64() int64 {
	if b := d.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func corrupt(reason string, offset int) error {
	return &store.CorruptError{Reason: reason, Offset: offset}
}
