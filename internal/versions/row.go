package versions

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/forebay-streams/forebay/store"
)

const (
	timestampSize = 8
	headSize      = 2 * timestampSize // of a segment row: next, min
	entrySize     = timestampSize + 4
	minRow        = headSize + entrySize
)

// Entry is a version in a segment row: the time it began and its value, nil for a
// tombstone.
type Entry struct {
	From  int64
	Value []byte
}

// Row is the row of a key in a segment: versions that follow each other without a gap,
// newest first and never none. Next is when the newest ended. If no version began then,
// Next is itself a tombstone.
//
// A single tombstone that ends where it begins is a placeholder: "deleted then, and
// nothing is known of what came next".
type Row struct {
	Next    int64
	Entries []Entry
}

// Min is the begin of the oldest version.
func (r *Row) Min() int64 { return r.Entries[len(r.Entries)-1].From }

func (r *Row) placeholder() bool {
	return len(r.Entries) == 1 && r.Entries[0].Value == nil && r.Entries[0].From == r.Next
}

// Decode reads a segment row. Values are sub-slices of b; the entries go into the given
// slice. Kafka Streams stops at the entry that begins at the row's minimum; rows that a
// restart of it left out of order have entries behind that one. They are read too, damaged
// tells so, and the row comes in the right order.
func Decode(b []byte, entries []Entry) (r Row, damaged bool, err error) {
	n, damaged, err := measure(b)
	if err != nil {
		return r, false, err
	}
	r = split(b, n, entries)
	if damaged {
		// Of equals the first in the row counts: it is the one that Kafka shows.
		slices.SortStableFunc(r.Entries, func(a, b Entry) int { return cmp.Compare(b.From, a.From) })
		r.Entries = slices.CompactFunc(r.Entries, func(a, b Entry) bool { return a.From == b.From })
	}
	return r, damaged, nil
}

// split reads the n entries as they stand.
func split(b []byte, n int, entries []Entry) Row {
	r := Row{long(b, 0), slices.Grow(entries[:0], n)}
	end := len(b)
	for i := range n {
		e := Entry{From: entryFrom(b, i)}
		if size := entryValue(b, i); size >= 0 {
			e.Value = b[end-size : end : end]
			end -= size
		}
		r.Entries = append(r.Entries, e)
	}
	return r
}

// measure counts entries until they and their values fill the row exactly, which can be
// so for one number only.
func measure(b []byte) (n int, damaged bool, err error) {
	if len(b) < minRow {
		return 0, false, corrupt("row_truncated", len(b))
	}
	values := 0
	for n = 0; ; n++ {
		at := headSize + n*entrySize
		switch fill := at + values; {
		case n > 0 && fill == len(b):
			return n, damaged || entryFrom(b, n-1) != long(b, timestampSize), nil
		case fill > len(b):
			return 0, false, corrupt("values_too_long", at-4)
		case len(b)-at < entrySize:
			return 0, false, corrupt("entry_truncated", at)
		}
		values += max(entryValue(b, n), 0)
		damaged = damaged || n > 0 && entryFrom(b, n) >= entryFrom(b, n-1)
	}
}

func long(b []byte, at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }

func entryFrom(b []byte, i int) int64 { return long(b, headSize+i*entrySize) }

// entryValue is the size of entry i's value, negative for a tombstone.
func entryValue(b []byte, i int) int {
	return int(int32(binary.BigEndian.Uint32(b[headSize+i*entrySize+timestampSize:])))
}

// Encode returns the bytes of the row.
func (r *Row) Encode() ([]byte, error) { return r.encode(r.Min()) }

func (r *Row) encode(oldest int64) ([]byte, error) {
	size := headSize + entrySize*len(r.Entries)
	for _, e := range r.Entries {
		size += len(e.Value)
	}
	if err := checkSize(size); err != nil {
		return nil, err
	}
	b := make([]byte, 0, size)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Next))
	b = binary.BigEndian.AppendUint64(b, uint64(oldest))
	for _, e := range r.Entries {
		b = binary.BigEndian.AppendUint64(b, uint64(e.From))
		n := uint32(len(e.Value))
		if e.Value == nil {
			n = math.MaxUint32 // −1
		}
		b = binary.BigEndian.AppendUint32(b, n)
	}
	for _, e := range slices.Backward(r.Entries) {
		b = append(b, e.Value...)
	}
	return b, nil
}

// EncodeLatest returns the row of a latest version.
func EncodeLatest(from int64, value []byte) ([]byte, error) {
	size := timestampSize + len(value)
	if err := checkSize(size); err != nil {
		return nil, err
	}
	b := make([]byte, 0, size)
	return append(binary.BigEndian.AppendUint64(b, uint64(from)), value...), nil
}

// DecodeLatest reads one; the value is a sub-slice and never nil.
func DecodeLatest(b []byte) (Entry, error) {
	if len(b) < timestampSize {
		return Entry{}, corrupt("row_truncated", len(b))
	}
	return Entry{long(b, 0), b[timestampSize:len(b):len(b)]}, nil
}

func corrupt(reason string, offset int) error {
	return &store.CorruptError{Reason: reason, Offset: offset}
}

func checkSize(n int) error {
	if n > math.MaxInt32 {
		return fmt.Errorf("%w: a row of %d bytes", store.ErrTooLarge, n)
	}
	return nil
}
