package windowed

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
	clock                              *segment.Clock
	size                               int64
	memory, duplicates, ordered, index bool
	rows                               windowkey.Schema // of the rows themselves
}

func newLayout(c *config, t times, clock *segment.Clock) layout {
	l := layout{clock: clock, size: t.size, memory: c.Memory, duplicates: c.duplicates, ordered: c.ordered, index: c.index}
	switch {
	case c.Memory && c.duplicates:
		l.rows = windowkey.MemorySequence
	case c.Memory:
		l.rows = windowkey.Memory
	case c.ordered:
		l.rows = windowkey.Base
	}
	return l
}

// flat makes the key of the flat keyspace, in the key buffer of a scratch.
func (l *layout) flat(s *family.Scratch, schema windowkey.Schema, r windowkey.Row) []byte {
	s.Key = schema.Append(segment.Key(s.Key[:0], l.clock.ID(r.Start)), r)
	return s.Key
}

// parse takes a flat key apart.
func (l *layout) parse(schema windowkey.Schema, flat []byte) (windowkey.Row, error) {
	id, own := segment.Split(flat)
	r, ok := schema.Parse(own)
	if !ok {
		return r, &store.CorruptError{Reason: "key_size", Key: bytes.Clone(own)}
	}
	if l.memory {
		r.Start = id
	}
	return r, nil
}

// logKey is the key of a row's changelog record: that of an ordinary store, whatever the
// layout. Duplicates are numbered as they are logged.
func (l *layout) logKey(flat []byte) ([]byte, bool) {
	own := flat[base.PrefixSize:]
	if l.index && own[0] == windowkey.IndexPrefix {
		return nil, false
	}
	if l.rows == windowkey.Window && !l.duplicates {
		return own, true
	}
	r, err := l.parse(l.rows, flat)
	if err != nil {
		return nil, false // unreachable: it was made here
	}
	r.Seq = 0
	if l.duplicates {
		r.Seq = l.clock.Now().Logged
	}
	return windowkey.Window.Append(nil, r), true
}

// oldest is the oldest window start that a read shows.
func (l *layout) oldest(at segment.State) int64 {
	limit := l.clock.Expired(at.Stream)
	if l.ordered {
		return limit // with a retention of no more than the grace, windows that close are still found
	}
	return limit + 1
}
