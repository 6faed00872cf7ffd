package store

import (
	"encoding/binary"
	"fmt"
)

// Layout says how a [Row] looks inside a column family. Nothing in the bytes names it:
// the family decides, never a guess.
type Layout uint8

// The layouts of Kafka Streams 4.4; H is the header block, its size a varint.
const (
	// Plain is value: key-value, window and session stores without headers.
	Plain Layout = iota + 1
	// Timestamped is ts8 · value: timestamped key-value and window stores (KIP-258).
	Timestamped
	// WithHeaders is size · H · ts8 · value: key-value and window stores (KIP-1271).
	WithHeaders
	// Aggregation is size · H · value: session stores with headers (KIP-1285), and the
	// versions of forebay's versioned stores with headers.
	Aggregation
)

const timestampSize = 8

// String is the layout's name in options and messages.
func (l Layout) String() string {
	switch l {
	case Plain:
		return "plain"
	case Timestamped:
		return "timestamped"
	case WithHeaders:
		return "headers"
	case Aggregation:
		return "aggregation"
	}
	return fmt.Sprintf("layout(%d)", uint8(l))
}

// HasTimestamp tells whether the layout keeps the row's timestamp.
func (l Layout) HasTimestamp() bool { return l == Timestamped || l == WithHeaders }

// HasHeaders tells whether the layout keeps the row's headers.
func (l Layout) HasHeaders() bool { return l == WithHeaders || l == Aggregation }

// Append appends the stored bytes of the row to dst. What the layout cannot hold is
// left out. The row must not be a tombstone, which has no stored bytes. Errors:
// [ErrTooLarge]; [ErrCorrupt] when headers were added to a malformed block.
func (l Layout) Append(dst []byte, r Row) ([]byte, error) {
	var e encoding
	size := len(r.Value)
	if l.HasHeaders() {
		var err error
		if e, err = r.Headers.encoding(); err != nil {
			return dst, err
		}
		size += varintSize(e.size) + e.size
	}
	if l.HasTimestamp() {
		size += timestampSize
	}
	if err := checkSize(size); err != nil {
		return dst, err
	}
	if l.HasHeaders() {
		dst = r.Headers.appendAs(appendVarint(dst, e.size), &e)
	}
	if l.HasTimestamp() {
		dst = binary.BigEndian.AppendUint64(dst, uint64(r.Timestamp))
	}
	return append(dst, r.Value...), nil
}

// Encode returns the stored bytes of the row, nil for a tombstone.
func (l Layout) Encode(r Row) ([]byte, error) {
	if r.Tombstone() {
		return nil, nil
	}
	return l.Append(make([]byte, 0, r.Size()+14), r)
}

// Decode reads stored bytes; nil gives a tombstone. Value and headers are sub-slices of
// b, and the headers are not parsed: a malformed block shows at the first look. Sizes
// are checked here. The error is [ErrCorrupt].
func (l Layout) Decode(b []byte) (r Row, err error) {
	err = l.decode(b, &r)
	return r, err
}

// decode sets every field of r, one by one and in place: copies of a row whose fields
// were just written cost a scan more than the decoding.
func (l Layout) decode(b []byte, r *Row) error {
	var at offsets
	if l == WithHeaders && twoByteSize(b) { // most rows that have headers
		at.block = 2
		at.ts = at.block + int(b[1])<<6 + int(b[0]&0x7f)>>1
		at.value = at.ts + timestampSize
	}
	if at.value == 0 || at.value > len(b) {
		*r = Row{Timestamp: NoTimestamp}
		if b == nil {
			return nil
		}
		var err error
		if at, err = l.split(b); err != nil {
			return err
		}
	}
	r.Value = b[at.value:len(b):len(b)]
	r.Timestamp = NoTimestamp
	if at.value > at.ts {
		r.Timestamp = int64(binary.BigEndian.Uint64(b[at.ts:]))
	}
	r.Headers.more, r.Headers.count, r.Headers.flags = nil, 0, 0
	r.Headers.block = nil
	if at.ts > at.block {
		r.Headers.block = b[at.block:at.ts:at.ts]
	}
	return nil
}

// twoByteSize tells whether b begins with a varint of two bytes that is not negative.
func twoByteSize(b []byte) bool {
	return len(b) > 1 && b[0]&0x81 == 0x80 && b[1]-1 < 0x7f
}

// DecodeBorrowed is Decode into r, for a buffer that will be reused: the row's headers
// copy what a look returns, and [Row.Clone] keeps the row.
func (l Layout) DecodeBorrowed(b []byte, r *Row) error {
	err := l.decode(b, r)
	if len(r.Headers.block) > 0 {
		r.Headers.flags = borrowed
	}
	return err
}

// offsets are where the parts of stored bytes begin; a part that is not there is empty.
type offsets struct{ block, ts, value int }

func (l Layout) split(b []byte) (at offsets, err error) {
	if l.HasHeaders() {
		n, next, err := readVarint(b, 0)
		switch {
		case err != nil:
			return at, err
		case n < 0:
			return at, corrupt("size_negative", 0)
		case int(n) > len(b)-next:
			return at, corrupt("size_too_large", 0)
		}
		at.block, at.ts = next, next+int(n)
	}
	at.value = at.ts
	if l.HasTimestamp() {
		if len(b)-at.ts < timestampSize {
			return at, corrupt("timestamp_truncated", at.ts)
		}
		at.value += timestampSize
	}
	return at, nil
}

// Convert appends to dst the bytes of layout to for stored bytes b of layout l, which
// must not be nil. What l does not hold becomes no headers and [NoTimestamp]; what to
// does not hold is dropped. Outer sizes are checked, header blocks pass unparsed.
func (l Layout) Convert(dst []byte, to Layout, b []byte) ([]byte, error) {
	at, err := l.split(b)
	if err != nil {
		return dst, err
	}
	if l == to {
		return append(dst, b...), nil
	}
	if to.HasHeaders() {
		dst = appendVarint(dst, at.ts-at.block)
		dst = append(dst, b[at.block:at.ts]...)
	}
	if to.HasTimestamp() {
		if l.HasTimestamp() {
			dst = append(dst, b[at.ts:at.value]...)
		} else {
			dst = binary.BigEndian.AppendUint64(dst, 1<<64-1) // NoTimestamp
		}
	}
	return append(dst, b[at.value:]...), nil
}

// Prefix returns what stands before the value in stored bytes of the layout, as a
// sub-slice: size, headers and timestamp. A suppress buffer keeps it for old values.
// Nil has nil.
func (l Layout) Prefix(b []byte) ([]byte, error) {
	if b == nil {
		return nil, nil
	}
	at, err := l.split(b)
	if err != nil {
		return nil, err
	}
	return b[:at.value:at.value], nil
}
