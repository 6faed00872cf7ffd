package session

import (
	"bytes"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/family"
	"github.com/forebay-streams/forebay/internal/segment"
	"github.com/forebay-streams/forebay/internal/windowkey"
	"github.com/forebay-streams/forebay/store"
)

// layout is where a store's rows lie: which keys they have, and what a query looks at.
type layout struct {
	clock          *segment.Clock
	memory, byTime bool // byTime: sessions can be found by their end alone
	index, headers bool
	rows           windowkey.SessionSchema // of the rows themselves
}

func newLayout(c *config, clock *segment.Clock) layout {
	l := layout{clock: clock, memory: c.Memory, byTime: c.ordered || c.Memory, index: c.index, headers: c.Layout.HasHeaders()}
	switch {
	case c.Memory:
		l.rows = windowkey.SessionMemory
	case c.ordered:
		l.rows = windowkey.SessionBase
	}
	return l
}

// flat makes the key of the flat keyspace, in the key buffer of a scratch.
func (l *layout) flat(s *family.Scratch, schema windowkey.SessionSchema, r windowkey.SessionRow) []byte {
	s.Key = schema.Append(segment.Key(s.Key[:0], l.clock.ID(r.End)), r)
	return s.Key
}

// parse takes a flat key apart.
func (l *layout) parse(schema windowkey.SessionSchema, flat []byte) (windowkey.SessionRow, error) {
	id, own := segment.Split(flat)
	r, ok := schema.Parse(own)
	if !ok {
		return r, &store.CorruptError{Reason: "key_size", Key: bytes.Clone(own)}
	}
	if l.memory {
		r.End = id
	}
	return r, nil
}

// logKey is the key of a row's changelog record: that of an ordinary store, whatever the
// layout.
func (l *layout) logKey(flat []byte) ([]byte, bool) {
	own := flat[base.PrefixSize:]
	if l.rows == windowkey.Session {
		return own, true
	}
	if l.index && own[0] == windowkey.IndexPrefix {
		return nil, false
	}
	r, err := l.parse(l.rows, flat)
	if err != nil {
		return nil, false // unreachable: it was made here
	}
	return windowkey.Session.Append(nil, r), true
}

// oldest is the oldest end that a read shows.
func (l *layout) oldest(at segment.State) int64 { return max(l.clock.Expired(at.Stream)+1, 0) }
