// Package keysort sorts many items by their keys, most of which differ in their first bytes.
package keysort

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
	"unsafe"
)

// Place is an item of a list that is sorted by its keys, with the first bytes of the key: a
// sort then reads little else, which most often is in no cache any more.
type Place[T any] struct {
	Prefix uint64
	Item   T
}

// At is the place of an item.
func At[T any](key string, item T) Place[T] { return Place[T]{prefixOf(key), item} }

// String is a key that nobody changes any more, without a copy.
func String(key []byte) string { return unsafe.String(unsafe.SliceData(key), len(key)) }

// radixFrom is the length from which counting bytes is faster than comparing.
const radixFrom = 256

// Sort sorts by key; equal keys keep their order.
func Sort[T any](places []Place[T], key func(T) string) {
	if len(places) < radixFrom {
		compareSort(places, key)
		return
	}
	radixSort(places)
	runs(places, func(run []Place[T]) {
		if len(run) < radixFrom {
			compareSort(run, key)
			return
		}
		shared := sharedPrefix(run, key)
		for i := range run {
			run[i].Prefix = prefixOf(key(run[i].Item)[shared:])
		}
		if p := run[0].Prefix; !slices.ContainsFunc(run, func(x Place[T]) bool { return x.Prefix != p }) {
			compareSort(run, key) // all keys are equal, but for zeros at their ends
			return
		}
		Sort(run, key)
	})
}

// runs calls do for each run of more than one equal prefix.
func runs[T any](places []Place[T], do func([]Place[T])) {
	for from := 0; from < len(places); {
		to := from + 1
		for to < len(places) && places[to].Prefix == places[from].Prefix {
			to++
		}
		if to-from > 1 {
			do(places[from:to])
		}
		from = to
	}
}

func compareSort[T any](places []Place[T], key func(T) string) {
	slices.SortStableFunc(places, func(a, b Place[T]) int {
		if c := cmp.Compare(a.Prefix, b.Prefix); c != 0 {
			return c
		}
		return strings.Compare(key(a.Item), key(b.Item))
	})
}

// radixSort sorts by prefix, byte by byte from the last one, and keeps the order of equals.
func radixSort[T any](places []Place[T]) {
	var counts [8][256]int32
	for i := range places {
		p := places[i].Prefix
		for b := range counts {
			counts[b][byte(p>>(8*b))]++
		}
	}
	from, to := places, make([]Place[T], len(places))
	for b := range counts {
		count := &counts[b]
		if count[byte(places[0].Prefix>>(8*b))] == int32(len(places)) {
			continue // all have this byte
		}
		next := int32(0)
		for i, n := range count {
			count[i], next = next, next+n
		}
		for i := range from {
			at := &count[byte(from[i].Prefix>>(8*b))]
			to[*at] = from[i]
			*at++
		}
		from, to = to, from
	}
	if &from[0] != &places[0] {
		copy(places, from)
	}
}

// sharedPrefix is how many bytes all keys begin with: those of one segment, say.
func sharedPrefix[T any](places []Place[T], key func(T) string) int {
	first := key(places[0].Item)
	shared := len(first)
	for i := 1; i < len(places) && shared > 0; i++ {
		k := key(places[i].Item)
		if strings.HasPrefix(k, first[:shared]) {
			continue
		}
		shared = min(shared, len(k))
		for j := range shared {
			if k[j] != first[j] {
				shared = j
				break
			}
		}
	}
	return shared
}

func prefixOf(key string) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(unsafe.Slice(unsafe.StringData(key), 8))
	}
	var b [8]byte
	copy(b[:], key)
	return binary.BigEndian.Uint64(b[:])
}
