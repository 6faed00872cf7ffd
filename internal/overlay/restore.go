package overlay

import (
	"bytes"

	"github.com/forebay-streams/forebay/internal/keysort"
	"github.com/forebay-streams/forebay/store"
)

// lastOfEach sorts changes by key and leaves the last of each key.
func lastOfEach(changes []store.Change) []store.Change {
	places := make([]keysort.Place[int32], len(changes))
	for i := range changes {
		places[i] = keysort.At(keysort.String(changes[i].Key), int32(i))
	}
	keysort.Sort(places, func(i int32) string { return keysort.String(changes[i].Key) })
	out := make([]store.Change, 0, len(changes))
	for i, p := range places {
		c := changes[p.Item]
		if i+1 < len(places) && bytes.Equal(c.Key, changes[places[i+1].Item].Key) {
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
