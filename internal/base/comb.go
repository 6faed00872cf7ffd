package base

import (
	"bytes"
	"encoding/binary"
	"math"
)

// PrefixSize is the number of bytes that keys of segmented stores have before the
// store's own key.
const PrefixSize = 8

// Comb is one span behind each prefix of a range: what a segmented store asks for, whose
// keys begin with the number of their segment. It costs nothing for a prefix without
// rows. The span's direction is also that of the prefixes.
type Comb struct {
	First, Last uint64 // both included
	Span               // of the keys behind the prefix
}

// Combed is a reader of keys that begin with a prefix.
type Combed interface{ Comb(Comb) Cursor }

// CombStep says how to go on from a key of an ordered set.
type CombStep uint8

const (
	CombTake CombStep = iota // the key belongs to the comb
	CombSeek                 // go on where the seek key says
	CombEnd
)

// Start is where a walk over an ordered set begins: forward at the first key that is
// not below the returned one, in reverse at the last key below it (nil: the very last).
// It lies in buf if that is large enough.
func (c Comb) Start(buf []byte) []byte {
	if c.Reverse {
		return c.tooth(buf, c.Last)
	}
	return c.tooth(buf, c.First)
}

// tooth is where the walk enters the span of a prefix, as Start has it.
func (c Comb) tooth(buf []byte, prefix uint64) []byte {
	switch {
	case !c.Reverse:
		return append(binary.BigEndian.AppendUint64(buf[:0], prefix), c.From...)
	case c.To != nil:
		return append(binary.BigEndian.AppendUint64(buf[:0], prefix), c.Upper()...)
	case prefix == math.MaxUint64:
		return nil
	}
	return binary.BigEndian.AppendUint64(buf[:0], prefix+1)
}

// Step judges a key that the walk stands at. Every seek moves on, to a key as Start
// returns it.
func (c Comb) Step(buf, key []byte) (step CombStep, seek []byte) {
	prefix, rest := binary.BigEndian.Uint64(key), key[PrefixSize:]
	before, behind := c.From != nil && bytes.Compare(rest, c.From) < 0, !c.Below(rest)
	at, last := c.First, c.Last
	if c.Reverse {
		at, last = last, at
		before, behind = behind, before
	}
	out := func(limit uint64) bool { // whether the prefix lies beyond the limit, as the walk goes
		if c.Reverse {
			return prefix < limit
		}
		return prefix > limit
	}
	switch {
	case prefix != at && !out(at):
		return CombSeek, c.tooth(buf, at)
	case out(last):
		return CombEnd, nil
	case before:
		return CombSeek, c.tooth(buf, prefix)
	case behind && prefix == last:
		return CombEnd, nil
	case behind && c.Reverse:
		return CombSeek, c.tooth(buf, prefix-1)
	case behind:
		return CombSeek, c.tooth(buf, prefix+1)
	}
	return CombTake, nil
}
