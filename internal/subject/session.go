package subject

import (
	"iter"

	"github.com/forebay-streams/forebay/internal/family"
	"github.com/forebay-streams/forebay/session"
	"github.com/forebay-streams/forebay/store"
)

func sessionOptions(c Config) []session.Option {
	o := []session.Option{session.Format(c.Layout), session.Retention(c.retention())}
	if c.Memory {
		o = append(o, session.InMemory())
	}
	if c.Log != nil {
		o = append(o, session.Changelog(c.Log))
	}
	if c.Budget != nil {
		o = append(o, session.Shared(c.Budget))
	}
	if c.ExactlyOnce {
		o = append(o, session.ExactlyOnce())
	}
	if c.Cache {
		o = append(o, session.Cache(c.Budget))
	}
	if c.Interval > 0 {
		o = append(o, session.SegmentInterval(c.Interval))
	}
	if c.Ordered {
		o = append(o, session.TimeOrdered(true))
	}
	return o
}

type sessionStore struct {
	sessionReader
	family.Shell
	store *session.Store[[]byte, []byte]
}

func (s sessionStore) Put(p Place, v Value) error    { return s.store.Put([]byte(p.Key), p.From, p.To, v) }
func (s sessionStore) Delete(p Place) error          { return s.store.Remove([]byte(p.Key), p.From, p.To) }
func (s sessionStore) View(i store.Isolation) Reader { return sessionReader{s.store.View(i)} }

type sessionReader struct {
	from interface {
		FetchSession(key []byte, start, end int64) (Value, bool, error)
		FetchKeys(...session.Bound[[]byte]) iter.Seq2[session.Row[[]byte, []byte], error]
		BackwardFetchKeys(...session.Bound[[]byte]) iter.Seq2[session.Row[[]byte, []byte], error]
	}
}

func (r sessionReader) Scan(reverse bool, _ []string) (out []Place, err error) {
	seq := r.from.FetchKeys()
	if reverse {
		seq = r.from.BackwardFetchKeys()
	}
	for row, err := range seq {
		if err != nil {
			return out, err
		}
		out = append(out, Place{Key: string(row.Key), From: row.Start, To: row.End})
	}
	return out, nil
}

func (r sessionReader) Get(p Place) (Value, bool, error) {
	return r.from.FetchSession([]byte(p.Key), p.From, p.To)
}

func (r sessionReader) Rows([]string) (map[Place]Value, error) {
	out := map[Place]Value{}
	for row, err := range r.from.FetchKeys() {
		if err != nil {
			return out, err
		}
		out[Place{Key: string(row.Key), From: row.Start, To: row.End}] = own(row.Value)
	}
	return out, nil
}
