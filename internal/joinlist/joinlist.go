// Package joinlist is the value of the list store that buffers unmatched records of a
// left or outer stream-stream join. docs/format/join-list.md has the bytes.
package joinlist

import (
	"encoding/binary"
	"math"

	"github.com/forebay-streams/forebay/store"
)

// Element is a buffered record's value and the side of the join it came from.
type Element struct {
	Left  bool
	Value []byte
}

const (
	variableSize = 1 // the first byte: elements carry their lengths
	headSize     = 1 + 4
	right, left  = 0, 1
)

// Encode returns the list's bytes, nil for an empty list, which is a delete. The error
// is [store.ErrTooLarge].
func Encode(list []Element) ([]byte, error) {
	if len(list) == 0 {
		return nil, nil
	}
	return extend(emptyList, list...)
}

// Append returns a new slice with the element behind those of a stored list; nil is the
// empty list. A malformed list does not grow. Errors: [store.ErrCorrupt],
// [store.ErrTooLarge].
func Append(stored []byte, e Element) ([]byte, error) {
	if stored == nil {
		return extend(emptyList, e)
	}
	if err := walk(stored, func(Element) {}); err != nil {
		return nil, err
	}
	return extend(stored, e)
}

// emptyList is what a list grows from; it is never stored.
var emptyList = []byte{variableSize, 0, 0, 0, 0}

func extend(old []byte, list ...Element) ([]byte, error) {
	size := len(old)
	for _, e := range list {
		size += 4 + 1 + len(e.Value)
	}
	if size > math.MaxInt32 {
		return nil, store.ErrTooLarge
	}
	b := append(make([]byte, 0, size), old...)
	binary.BigEndian.PutUint32(b[1:], binary.BigEndian.Uint32(b[1:])+uint32(len(list)))
	for _, e := range list {
		b = binary.BigEndian.AppendUint32(b, uint32(1+len(e.Value)))
		side := byte(right)
		if e.Left {
			side = left
		}
		b = append(append(b, side), e.Value...)
	}
	return b, nil
}

// Decode reads a stored list; values are sub-slices of b. Errors are
// [store.ErrCorrupt]: list_flag, list_count, list_null_element, list_element_length,
// list_truncated, list_trailing_bytes, join_side.
func Decode(b []byte) ([]Element, error) {
	var list []Element
	err := walk(b, func(e Element) { list = append(list, e) })
	if err != nil {
		return nil, err
	}
	return list, nil
}

func walk(b []byte, visit func(Element)) error {
	if len(b) > 0 && b[0] != variableSize {
		return corrupt("list_flag", 0)
	}
	if len(b) < headSize {
		return corrupt("list_truncated", len(b))
	}
	off := headSize
	count := int(int32(binary.BigEndian.Uint32(b[1:])))
	if count < 1 || count > (len(b)-off)/4 {
		return corrupt("list_count", 1)
	}
	for range count {
		if len(b)-off < 4 {
			return corrupt("list_truncated", off)
		}
		n := int(int32(binary.BigEndian.Uint32(b[off:])))
		at := off
		off += 4
		switch {
		case n == -1:
			return corrupt("list_null_element", at)
		case n < 0:
			return corrupt("list_element_length", at)
		case n > len(b)-off:
			return corrupt("list_truncated", at)
		case n == 0 || b[off] > left:
			return corrupt("join_side", off)
		}
		visit(Element{Left: b[off] == left, Value: b[off+1 : off+n : off+n]})
		off += n
	}
	if off != len(b) {
		return corrupt("list_trailing_bytes", off)
	}
	return nil
}

func corrupt(reason string, offset int) error {
	return &store.CorruptError{Reason: reason, Offset: offset}
}
