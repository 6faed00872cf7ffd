package windowed

import (
	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/segment"
	"github.com/forebay-streams/forebay/internal/windowkey"
	"github.com/forebay-streams/forebay/store"
)

// restore takes changes of the changelog, whose keys are those of an ordinary store.
// Stream time rises to the newest of a batch before a row is judged (in memory it rises
// row by row): else a segment could expire while rows for it are still to come.
func (s *Store[K, V]) restore(changes []store.Change, offset int64) (err error) {
	if err := s.core.Overlay.Settled(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.clock.Aborted()
		} else {
			s.clock.Committed()
		}
	}()
	l := &s.layout
	schemas := []windowkey.Schema{l.rows}
	if l.index {
		schemas = append(schemas, windowkey.Index)
	}
	places := make([]windowkey.Row, 0, len(changes))
	size := 0
	for _, c := range changes {
		size += 2 * (len(c.Key) + base.PrefixSize + 1)
		r, ok := windowkey.Window.Parse(c.Key)
		if !ok {
			return &store.CorruptError{Reason: "key_size", Store: s.core.Name, Key: c.Key}
		}
		places = append(places, r)
		if !l.memory {
			s.clock.Raise(r.Start)
		}
	}
	out, late := make([]store.Change, 0, len(changes)), int64(0)
	keys := make([]byte, 0, size) // of all rows: a slice of its own for each would show
	for i, r := range places {
		c := changes[i]
		if l.memory {
			s.clock.Raise(r.Start)
		}
		if r.Start < 0 || !s.live(r.Start) { // Kafka Streams logs negative starts, and shows them to no scan
			late++
			continue
		}
		s.expire(r.Start)
		switch {
		case l.duplicates && l.memory && c.Tombstone():
			continue
		case l.duplicates && l.memory:
			r.Seq = s.clock.NextSequence()
		}
		for _, schema := range schemas {
			from := len(keys)
			keys = schema.Append(segment.Key(keys, l.clock.ID(r.Start)), r)
			c.Key = keys[from:len(keys):len(keys)]
			out = append(out, c)
		}
	}
	if l.memory {
		s.drops.Add(s.core.Name, late, s.clock.Now().Stream)
	}
	return s.core.Overlay.Restore(out, offset)
}
