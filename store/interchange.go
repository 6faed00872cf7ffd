package store

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// InterchangeOption changes what [AppendInterchange] accepts.
type InterchangeOption uint8

// NullAsEmpty writes a null header value as an empty one, which no reader can tell
// from an empty one any more.
const NullAsEmpty InterchangeOption = 1

// minInterchangeHeader is the size of a header with empty name and value.
const minInterchangeHeader = 2 + 4

// AppendInterchange appends the headers to dst as an interchange block, the form of
// MoonMQ's record format: u16 count · count × { u16 nameLen · name · u32 valueLen ·
// value }. The bytes do not name their order, so both sides must agree on it;
// binary.BigEndian is the usual one. Errors: [ErrUnencodable] for a null value unless
// [NullAsEmpty] is given, [ErrTooLarge] above 65,535 headers or bytes of a name,
// [ErrCorrupt] for a malformed stored block.
func AppendInterchange(dst []byte, h Headers, order binary.AppendByteOrder, options ...InterchangeOption) ([]byte, error) {
	if err := h.Err(); err != nil {
		return dst, err
	}
	n := h.Len()
	if n > math.MaxUint16 {
		return dst, fmt.Errorf("%d headers in an interchange block: %w", n, ErrTooLarge)
	}
	out := order.AppendUint16(dst, uint16(n))
	for x := range h.All() {
		switch {
		case len(x.Key) > math.MaxUint16:
			return dst, fmt.Errorf("header name of %d bytes in an interchange block: %w", len(x.Key), ErrTooLarge)
		case len(x.Value) > math.MaxInt32:
			return dst, fmt.Errorf("value of header %q in an interchange block: %w", x.Key, ErrTooLarge)
		case x.Value == nil && !slices.Contains(options, NullAsEmpty):
			return dst, fmt.Errorf("null value of header %q in an interchange block: %w", x.Key, ErrUnencodable)
		}
		out = append(order.AppendUint16(out, uint16(len(x.Key))), x.Key...)
		out = append(order.AppendUint32(out, uint32(len(x.Value))), x.Value...)
	}
	return out, nil
}

// ParseInterchange reads an interchange block that fills b. The headers share no bytes
// with b. Errors: [ErrTooLarge] for headers that no store can hold, else [ErrCorrupt]:
// interchange_truncated, key_not_utf8, interchange_trailing_bytes.
func ParseInterchange(b []byte, order binary.ByteOrder) (Headers, error) {
	h, rest, err := CutInterchange(b, order)
	if err == nil && len(rest) > 0 {
		return Headers{}, corrupt("interchange_trailing_bytes", len(b)-len(rest))
	}
	return h, err
}

// CutInterchange is [ParseInterchange] for a block with something behind it, which it
// returns.
func CutInterchange(b []byte, order binary.ByteOrder) (h Headers, rest []byte, err error) {
	if len(b) < 2 {
		return Headers{}, nil, corrupt("interchange_truncated", 0)
	}
	count, off := int(order.Uint16(b)), 2
	if count*minInterchangeHeader > len(b)-off {
		return Headers{}, nil, corrupt("interchange_truncated", off)
	}
	if count == 0 {
		return Headers{}, b[off:], nil
	}
	block := appendVarint(nil, count)
	for range count {
		if len(b)-off < 2 {
			return Headers{}, nil, corrupt("interchange_truncated", off)
		}
		n := int(order.Uint16(b[off:]))
		off += 2
		if len(b)-off < n+4 {
			return Headers{}, nil, corrupt("interchange_truncated", off)
		}
		name := b[off : off+n]
		if !utf8.Valid(name) {
			return Headers{}, nil, corrupt("key_not_utf8", off)
		}
		off += n
		size := int64(order.Uint32(b[off:]))
		off += 4
		if int64(len(b)-off) < size {
			return Headers{}, nil, corrupt("interchange_truncated", off)
		}
		block = append(appendVarint(block, n), name...)
		block = append(appendVarint(block, int(size)), b[off:off+int(size)]...)
		off += int(size)
		if err := checkSize(len(block)); err != nil {
			return Headers{}, nil, err
		}
	}
	return Headers{block: block}, b[off:], nil
}
