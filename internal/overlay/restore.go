package overlay

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/forebay-streams/forebay/store"
)

// lastOfEach sorts changes by key and leaves the last of each key.
func lastOfEach(changes []store.Change) []store.Change {
	type ref struct {
		prefix uint64
		index  int32
	}
	refs := make([]ref, len(changes))
	for i := range changes {
		var b [8]byte
		copy(b[:], changes[i].Key)
		refs[i] = ref{binary.BigEndian.Uint64(b[:]), int32(i)}
	}
	slices.SortFunc(refs, func(a, b ref) int {
		if a.prefix != b.prefix {
			if a.prefix < b.prefix {
				return -1
			}
			return 1
		}
		if c := bytes.Compare(changes[a.index].Key, changes[b.index].Key); c != 0 {
			return c
		}
		return int(a.index - b.index)
	})
	out := make([]store.Change, 0, len(changes))
	for i, r := range refs {
		c := changes[r.index]
		if i+1 < len(refs) && bytes.Equal(c.Key, changes[refs[i+1].index].Key) {
			continue
		}
		out = append(out, c)
	}
	return out
}

// owned copies a change: its bytes are parts of a fetch's buffers, of which one row kept
// would keep all.
func owned(c store.Change) (_ store.Change, err error) {
	c = c.Clone()
	c.Headers, err = c.Headers.Pack()
	return c, err
}
