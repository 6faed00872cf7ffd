// Package policy merges the headers of a stored row with those of the record that updates
// it. Nothing here looks at keys, values or serdes.
package policy

import (
	"fmt"
	"math/bits"

	"github.com/forebay-streams/forebay/store"
)

// Merge returns the headers that a row keeps when a record updates it. stored is nil when
// there is no row, and the empty list when there is one without headers. The result is
// independent of both. It is called only when the update leaves a row. The error is
// [store.ErrCorrupt] for malformed stored headers.
type Merge func(stored *store.Headers, incoming store.Headers) (store.Headers, error)

// Latest keeps the record's headers, and does not look at the stored ones.
func Latest(_ *store.Headers, incoming store.Headers) (store.Headers, error) {
	return incoming.Copy(), nil
}

// Empty keeps none.
func Empty(*store.Headers, store.Headers) (store.Headers, error) { return store.Headers{}, nil }

// First keeps what the row has, even if it has none, and the record's headers for a new
// row.
func First(stored *store.Headers, incoming store.Headers) (store.Headers, error) {
	if stored != nil {
		return stored.Copy(), nil
	}
	return incoming.Copy(), nil
}

// Limits of Union.
const (
	DefaultMaxHeaders = 64
	DefaultMaxBytes   = 8192
)

// Union keeps the row's headers followed by the record's. Of headers that are equal, value
// included, only the last stays. Then headers are dropped from the front until there are
// at most maxHeaders, and the encoded block has at most maxBytes. trimmed, which may be
// nil, is told how many. Limits below 1 are [store.ErrConfig].
func Union(maxHeaders, maxBytes int, trimmed func(headers int)) (Merge, error) {
	if maxHeaders < 1 || maxBytes < 1 {
		return nil, fmt.Errorf("%w: Union keeps at most %d headers of %d bytes; both must be at least 1", store.ErrConfig, maxHeaders, maxBytes)
	}
	return func(stored *store.Headers, incoming store.Headers) (store.Headers, error) {
		var list []store.Header
		if stored != nil {
			if err := stored.Err(); err != nil {
				return store.Headers{}, err
			}
			list = stored.AppendTo(list)
		}
		if err := incoming.Err(); err != nil {
			return store.Headers{}, err
		}
		list = lastOfEqual(incoming.AppendTo(list))
		drop := excess(list, maxHeaders, maxBytes)
		if drop > 0 && trimmed != nil {
			trimmed(drop)
		}
		return store.HeadersOf(list[drop:]), nil
	}, nil
}

// lastOfEqual keeps, in place, the last of headers with one key and value. A null value
// and an empty one differ.
func lastOfEqual(list []store.Header) []store.Header {
	type identity struct {
		key, value string
		null       bool
	}
	seen := make(map[identity]bool, len(list))
	at := len(list)
	for i := len(list) - 1; i >= 0; i-- {
		h := list[i]
		id := identity{h.Key, string(h.Value), h.Value == nil}
		if seen[id] {
			continue
		}
		seen[id] = true
		at--
		list[at] = h
	}
	return list[at:]
}

// excess is how many headers at the front are too many.
func excess(list []store.Header, maxHeaders, maxBytes int) int {
	drop := max(0, len(list)-maxHeaders)
	size := 0
	for _, h := range list[drop:] {
		size += headerSize(h)
	}
	for drop < len(list) && varintSize(len(list)-drop)+size > maxBytes {
		size -= headerSize(list[drop])
		drop++
	}
	return drop
}

// headerSize is the size of a header in a block. A null value has the length −1, which
// takes one byte.
func headerSize(h store.Header) int {
	return varintSize(len(h.Key)) + len(h.Key) + varintSize(len(h.Value)) + len(h.Value)
}

// varintSize is the size of n ≥ 0 as a zig-zag varint.
func varintSize(n int) int { return max(1, (bits.Len64(uint64(n)<<1)+6)/7) }

// Func is a user's merge. It gets read-only copies, and its result is copied.
func Func(f func(stored *store.Headers, incoming store.Headers) store.Headers) Merge {
	return func(stored *store.Headers, incoming store.Headers) (store.Headers, error) {
		if err := incoming.Err(); err != nil {
			return store.Headers{}, err
		}
		var old *store.Headers
		if stored != nil {
			if err := stored.Err(); err != nil {
				return store.Headers{}, err
			}
			h := readOnly(*stored)
			old = &h
		}
		return f(old, readOnly(incoming)).Copy(), nil
	}
}

func readOnly(h store.Headers) store.Headers {
	h = h.Copy()
	h.SetReadOnly()
	return h
}

// Fold merges the headers of absorbed sessions, in the order in which they were found: the
// first is the row, each other one updates it. Nothing found is nil.
func Fold(merge Merge, found []store.Headers) (*store.Headers, error) {
	if len(found) == 0 {
		return nil, nil
	}
	folded := found[0]
	for _, next := range found[1:] {
		var err error
		if folded, err = merge(&folded, next); err != nil {
			return nil, err
		}
	}
	return &folded, nil
}
