package store

import "math"

// readVarint reads a signed 32-bit zigzag varint at b[off:], the form of every count
// and length of a header block. binary.Varint would accept 64 bits and longer forms
// than needed, which no Kafka writer makes.
func readVarint(b []byte, off int) (value int32, next int, err error) {
	if off < len(b) && b[off] < 0x80 { // nearly all are this short
		return unzigzag(uint32(b[off])), off + 1, nil
	}
	return readLongVarint(b, off)
}

func readLongVarint(b []byte, off int) (value int32, next int, err error) {
	if off+1 < len(b) && b[off+1]-1 < 0x7f { // two bytes: sizes of most header blocks
		return unzigzag(uint32(b[off]&0x7f) | uint32(b[off+1])<<7), off + 2, nil
	}
	var z uint32
	for i := range 5 {
		if off+i >= len(b) {
			return 0, 0, corrupt("varint_truncated", off+i)
		}
		c := b[off+i]
		if i == 4 && c > 0x0f {
			return 0, 0, corrupt("varint_overflow", off+i)
		}
		z |= uint32(c&0x7f) << (7 * i)
		if c < 0x80 {
			if i > 0 && c == 0 {
				return 0, 0, corrupt("varint_not_minimal", off+i)
			}
			return unzigzag(z), off + i + 1, nil
		}
	}
	panic("unreachable: a fifth byte is at most 0f")
}

func unzigzag(z uint32) int32 { return int32(z>>1) ^ -int32(z&1) }

// varintSize is the number of bytes of n ≥ 0 as a varint.
func varintSize(n int) int {
	size := 1
	for z := uint64(n) << 1; z > 0x7f; z >>= 7 {
		size++
	}
	return size
}

// checkSize refuses what an int32 length cannot say.
func checkSize(n int) error {
	if n > math.MaxInt32 {
		return ErrTooLarge
	}
	return nil
}
