package migration

import (
	"bytes"
	"encoding/binary"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/store"
)

// Unopened is a database that is looked at before it is opened.
type Unopened struct{ db *rocks.DB }

// First returns the first key of a family from the given one on; not ok: there is none.
func (u Unopened) First(family string, from []byte) (key []byte, ok bool, err error) {
	f := u.db.Family(family)
	if f == nil {
		return nil, false, nil
	}
	scan := u.db.Scan(f, base.Span{From: from})
	defer scan.Close()
	ok = scan.Next()
	return bytes.Clone(scan.Key()), ok, scan.Err()
}

// Note returns a value that was stored as a [base.Note].
func (u Unopened) Note(key string) (value int64, ok bool, err error) {
	f := u.db.Family(rocks.Offsets)
	if f == nil {
		return 0, false, nil
	}
	var scratch []byte
	b, ok, err := u.db.Get(f, []byte(key), &scratch)
	if err != nil || !ok {
		return 0, false, err
	}
	if len(b) != 8 {
		return 0, false, store.Locate(&store.CorruptError{Reason: "long_size"}, "", rocks.Offsets, []byte(key))
	}
	return int64(binary.BigEndian.Uint64(b)), true, nil
}
