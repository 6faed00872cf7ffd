package wire

import (
	"encoding/binary"

	"github.com/forebay-streams/forebay/store"
)

// Change is what a grouped table sends to its aggregation: the value to take out of a
// group, the one to add, or both. Nil is none.
type Change struct {
	New, Old []byte
}

// The last byte of a change. Those with isLatest have one byte more before it: newer
// than the rest of the format, they are read and never written.
const (
	changeOld = iota
	changeNew
	changeBoth
	changeOldLatest
	changeNewLatest
	changeBothLatest
)

// AppendChange appends the change to dst. One with neither value is
// [store.ErrUnencodable].
func AppendChange(dst []byte, c Change) ([]byte, error) {
	if err := fits(c.New, c.Old); err != nil {
		return dst, err
	}
	switch {
	case c.New != nil && c.Old != nil:
		dst = binary.AppendVarint(dst, int64(len(c.New)))
		return append(append(append(dst, c.New...), c.Old...), changeBoth), nil
	case c.New != nil:
		return append(append(dst, c.New...), changeNew), nil
	case c.Old != nil:
		return append(append(dst, c.Old...), changeOld), nil
	}
	return dst, store.ErrUnencodable
}

// DecodeChange reads a change. Errors are [store.ErrCorrupt]: change_flag, change_latest,
// change_length.
func DecodeChange(b []byte) (Change, error) {
	last := len(b) - 1
	if last < 0 || b[last] > changeBothLatest {
		return Change{}, corrupt("change_flag", max(last, 0))
	}
	flag := b[last]
	if flag >= changeOldLatest {
		last--
		if last < 0 || b[last] > 1 {
			return Change{}, corrupt("change_latest", max(last, 0))
		}
		flag -= changeOldLatest
	}
	b = b[:last:last]
	switch flag {
	case changeOld:
		return Change{Old: b}, nil
	case changeNew:
		return Change{New: b}, nil
	}
	n, size := binary.Varint(b)
	if size <= 0 || n < 0 || n > int64(len(b)-size) {
		return Change{}, corrupt("change_length", 0)
	}
	end := size + int(n)
	return Change{New: b[size:end:end], Old: b[end:]}, nil
}
