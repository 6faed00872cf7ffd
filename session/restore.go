package session

import (
	"github.com/forebay-streams/forebay/internal/family"
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
	places := make([]windowkey.SessionRow, 0, len(changes))
	for _, c := range changes {
		r, ok := windowkey.Session.Parse(c.Key)
		if !ok || r.Start < 0 || r.End < r.Start {
			return &store.CorruptError{Reason: "session_key", Store: s.core.Name, Key: c.Key}
		}
		places = append(places, r)
		if !l.memory {
			s.clock.Raise(r.End)
		}
	}
	out, late := make([]store.Change, 0, len(changes)), int64(0)
	for i, r := range places {
		if l.memory {
			s.clock.Raise(r.End)
		}
		if !s.live(r.End) {
			late++
			continue
		}
		s.expire(r.End)
		c := changes[i]
		c.Key = l.flat(new(family.Scratch), l.rows, r)
		out = append(out, c)
		if l.index {
			c.Key = l.flat(new(family.Scratch), windowkey.SessionIndex, r)
			out = append(out, c)
		}
	}
	if l.memory { // Kafka Streams counts these only
		s.drops.Add(s.core.Name, late, s.clock.Now().Stream)
	}
	return s.core.Overlay.Restore(out, offset)
}
