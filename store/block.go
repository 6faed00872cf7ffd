package store

import (
	"encoding/binary"
	"unicode/utf8"
)

// blockReader walks a header block: varint count · count × { varint keyLen · key ·
// varint valueLen · value }. It accepts only what a Kafka writer makes and allocates
// nothing. An empty block has no bytes at all, so b is never empty here.
type blockReader struct {
	b     []byte
	off   int
	first int // where the first header starts
	count int
	left  int
}

func openBlock(b []byte) (blockReader, error) {
	n, off, err := readVarint(b, 0)
	switch {
	case err != nil:
		return blockReader{}, err
	case n < 0:
		return blockReader{}, corrupt("count_negative", 0)
	case n == 0:
		return blockReader{}, corrupt("block_empty", 0)
	case 2*int64(n) > int64(len(b)-off):
		// A header takes two bytes at least, so nobody allocates for a count that lies.
		return blockReader{}, corrupt("count_too_large", 0)
	}
	return blockReader{b: b, off: off, first: off, count: int(n), left: int(n)}, nil
}

// next reads one header as sub-slices; value is nil for a null value. ok is false
// after the last one, when err says whether the block ends there.
func (r *blockReader) next() (key, value []byte, ok bool, err error) {
	if r.left == 0 {
		if r.off != len(r.b) {
			return nil, nil, false, corrupt("block_trailing_bytes", r.off)
		}
		return nil, nil, false, nil
	}
	r.left--
	at := r.off
	n, off, err := readVarint(r.b, at)
	switch {
	case err != nil:
		return nil, nil, false, err
	case n < 0:
		return nil, nil, false, corrupt("key_length_negative", at)
	case int(n) > len(r.b)-off:
		return nil, nil, false, corrupt("key_truncated", off)
	}
	key = r.b[off : off+int(n) : off+int(n)]
	if !utf8.Valid(key) {
		return nil, nil, false, corrupt("key_not_utf8", off)
	}
	at = off + int(n)
	n, off, err = readVarint(r.b, at)
	switch {
	case err != nil:
		return nil, nil, false, err
	case n < -1:
		return nil, nil, false, corrupt("value_length_negative", at)
	case n == -1:
		r.off = off
		return key, nil, true, nil
	case int(n) > len(r.b)-off:
		return nil, nil, false, corrupt("value_truncated", off)
	}
	r.off = off + int(n)
	return key, r.b[off:r.off:r.off], true, nil
}

// checkBlock walks the whole block.
func checkBlock(b []byte) (blockReader, error) {
	r, err := openBlock(b)
	for ok := true; err == nil && ok; {
		_, _, ok, err = r.next()
	}
	return r, err
}

func appendVarint(dst []byte, n int) []byte { return binary.AppendVarint(dst, int64(n)) }

// headerSize is the number of bytes of one header inside a block.
func headerSize(h Header) int {
	// A null value's length −1 takes one byte, like 0.
	return varintSize(len(h.Key)) + len(h.Key) + varintSize(len(h.Value)) + len(h.Value)
}

func appendHeader(dst []byte, h Header) []byte {
	dst = appendVarint(dst, len(h.Key))
	dst = append(dst, h.Key...)
	if h.Value == nil {
		return appendVarint(dst, -1)
	}
	dst = appendVarint(dst, len(h.Value))
	return append(dst, h.Value...)
}
