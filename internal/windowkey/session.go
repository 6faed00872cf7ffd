package windowkey

import (
	"bytes"
	"encoding/binary"
	"math"
)

// SessionRow is the place of a row of a session store.
type SessionRow struct {
	Key        []byte
	Start, End int64
}

// SessionSchema says how the keys of a session store are laid out. The end stands before
// the start.
type SessionSchema uint8

const (
	// Session is key · end · start: ordinary stores and every changelog.
	Session SessionSchema = iota
	// SessionBase is 00 · end · start · key: time-ordered stores.
	SessionBase
	// SessionIndex is 01 · key · end · start: what finds a key's base rows.
	SessionIndex
	// SessionMemory is the escaped key and the inverted start behind a prefix that is the
	// end: in memory the sessions of one end go by key, then from the latest start to the
	// earliest.
	SessionMemory
)

// Append appends a row's key to dst. The end is not part of those in memory.
func (s SessionSchema) Append(dst []byte, r SessionRow) []byte {
	switch s {
	case SessionBase:
		return append(appendTimes(append(dst, BasePrefix), r.End, r.Start), r.Key...)
	case SessionIndex:
		dst = append(dst, IndexPrefix)
	case SessionMemory:
		return binary.BigEndian.AppendUint64(escape(dst, r.Key), ^uint64(r.Start))
	}
	return appendTimes(append(dst, r.Key...), r.End, r.Start)
}

func appendTimes(dst []byte, end, start int64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, uint64(end)), uint64(start))
}

// Parse takes a key apart; ok is false when it cannot be one. Keys in memory have no
// end, which is then 0.
func (s SessionSchema) Parse(b []byte) (r SessionRow, ok bool) {
	switch s {
	case SessionMemory:
		n := len(b) - timeSize
		if n < 0 {
			return r, false
		}
		r.Key, ok = unescape(b[:n])
		r.Start = int64(^binary.BigEndian.Uint64(b[n:]))
		return r, ok
	case SessionBase:
		if len(b) < 1+2*timeSize || b[0] != BasePrefix {
			return r, false
		}
		r.End, r.Start = times(b[1:])
		r.Key = b[1+2*timeSize:]
		return r, true
	case SessionIndex:
		if len(b) == 0 || b[0] != IndexPrefix {
			return r, false
		}
		b = b[1:]
	}
	n := len(b) - 2*timeSize
	if n < 0 {
		return r, false
	}
	r.Key = b[:n]
	r.End, r.Start = times(b[n:])
	return r, true
}

func times(b []byte) (end, start int64) {
	return int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[timeSize:]))
}

// One returns the bounds, both included, of one key's rows that end no earlier than from
// and start no later than to.
func (s SessionSchema) One(key []byte, from, to int64) (low, high []byte) {
	low = s.Append([]byte{}, SessionRow{Key: key, End: max(from, 0)})
	high = s.Append([]byte{}, SessionRow{Key: key, End: math.MaxInt64, Start: to})
	if s == SessionMemory { // latest start first
		low, high = high, low
	}
	return low, high
}

// Range returns the bounds of the rows of a range of keys, nil keys being open ends, and
// nil bounds too. Other rows lie between them as well.
func (s SessionSchema) Range(first, last []byte, from, to int64) (low, high []byte) {
	switch s {
	case SessionBase:
		low, high = []byte{BasePrefix}, []byte{BasePrefix + 1}
		low = append(appendTimes(low, max(from, 0), 0), first...)
		if last != nil {
			high = s.Append(nil, SessionRow{last, to, math.MaxInt64})
		}
		return low, high
	case SessionMemory:
		if first != nil {
			low = escape([]byte{}, first)
		}
		if last != nil {
			high = s.Append(nil, SessionRow{Key: last})
		}
		return low, high
	case SessionIndex:
		low, high = []byte{IndexPrefix}, []byte{IndexPrefix + 1}
	}
	if first != nil {
		low = nonNil(appendTimes(append(low, first...), 0, 0))
	}
	if last != nil {
		high = Upper(last, appendTimes(nil, math.MaxInt64, to))
		if s == SessionIndex {
			high = append([]byte{IndexPrefix}, high...)
		}
	}
	return low, high
}

// Ends returns the bounds of base rows that end between the two times; the upper one is
// excluded.
func (s SessionSchema) Ends(from, to int64) (low, high []byte) {
	if s != SessionBase {
		return nil, nil
	}
	low = binary.BigEndian.AppendUint64([]byte{BasePrefix}, uint64(max(from, 0)))
	return low, binary.BigEndian.AppendUint64([]byte{BasePrefix}, uint64(to)+1) // no overflow: unsigned
}

// SessionToIndex and SessionToBase append the key of a base row's index row to dst, and
// the reverse.
func SessionToIndex(dst, base []byte) []byte {
	return convertSession(dst, base, SessionBase, SessionIndex)
}

// SessionToBase: see SessionToIndex.
func SessionToBase(dst, index []byte) []byte {
	return convertSession(dst, index, SessionIndex, SessionBase)
}

func convertSession(dst, key []byte, from, to SessionSchema) []byte {
	r, ok := from.Parse(key)
	if !ok {
		return append(dst, key...) // not a row's: nothing will be found
	}
	return to.Append(dst, r)
}

// An escaped key has 00 ff for each 00, and ends with 00 01: so it goes before every
// longer key that begins with it, whatever follows.
const (
	escaped = 0xff
	ending  = 1
)

func escape(dst, key []byte) []byte {
	for {
		i := bytes.IndexByte(key, 0)
		if i < 0 {
			return append(append(dst, key...), 0, ending)
		}
		dst = append(append(dst, key[:i]...), 0, escaped)
		key = key[i+1:]
	}
}

// unescape returns a part of b where it can.
func unescape(b []byte) (key []byte, ok bool) {
	n := len(b) - 2
	if n < 0 || b[n] != 0 || b[n+1] != ending {
		return nil, false
	}
	b = b[:n]
	if bytes.IndexByte(b, 0) < 0 {
		return b, true
	}
	return bytes.ReplaceAll(b, []byte{0, escaped}, []byte{0}), true
}
