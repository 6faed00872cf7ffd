package wire

import "encoding/binary"

// Unmatched is the place of records that a left or outer stream-stream join has not
// matched yet. Keys sort by time, at one time those of the right side first.
type Unmatched struct {
	Time int64
	Left bool
	Key  []byte
}

const rightSide, leftSide = 0, 1

// AppendUnmatched appends the key to dst.
func AppendUnmatched(dst []byte, u Unmatched) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(u.Time))
	side := byte(rightSide)
	if u.Left {
		side = leftSide
	}
	return append(append(dst, side), u.Key...)
}

// ParseUnmatched takes a key apart. Errors are [store.ErrCorrupt]: unmatched_truncated,
// unmatched_side.
func ParseUnmatched(b []byte) (Unmatched, error) {
	r := reader{b: b}
	u := Unmatched{Time: r.int64("unmatched_truncated")}
	side := r.byte("unmatched_truncated")
	if side > leftSide {
		r.fail("unmatched_side", timeSize)
	}
	u.Left, u.Key = side == leftSide, r.rest()
	if r.err != nil {
		return Unmatched{}, r.err
	}
	return u, nil
}
