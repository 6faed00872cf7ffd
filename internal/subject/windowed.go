package subject

import (
	"iter"
	"time"

	"github.com/forebay-streams/forebay/internal/family"
	"github.com/forebay-streams/forebay/store"
	"github.com/forebay-streams/forebay/windowed"
)

func windowedOptions(c Config) []windowed.Option {
	o := []windowed.Option{windowed.Format(c.Layout), windowed.Retention(c.retention()), windowed.Size(windowSize)}
	if c.Memory {
		o = append(o, windowed.InMemory())
	}
	if c.Log != nil {
		o = append(o, windowed.Changelog(c.Log))
	}
	if c.Budget != nil {
		o = append(o, windowed.Shared(c.Budget))
	}
	if c.ExactlyOnce {
		o = append(o, windowed.ExactlyOnce())
	}
	if c.Cache {
		o = append(o, windowed.Cache(c.Budget))
	}
	if c.Interval > 0 {
		o = append(o, windowed.SegmentInterval(c.Interval))
	}
	if c.Ordered {
		o = append(o, windowed.TimeOrdered(true))
	}
	return o
}

const windowSize = time.Millisecond

type windowedStore struct {
	windowedReader
	family.Shell
	store *windowed.Store[[]byte, []byte]
}

func (s windowedStore) Put(p Place, v Value) error    { return s.store.Put([]byte(p.Key), p.From, v) }
func (s windowedStore) Delete(p Place) error          { return s.store.Tombstone([]byte(p.Key), p.From) }
func (s windowedStore) View(i store.Isolation) Reader { return windowedReader{s.store.View(i)} }

type windowedReader struct {
	from interface {
		Fetch([]byte, int64) (Value, bool, error)
		All() iter.Seq2[windowed.Row[[]byte, []byte], error]
		BackwardAll() iter.Seq2[windowed.Row[[]byte, []byte], error]
	}
}

func (r windowedReader) Scan(reverse bool, _ []string) (out []Place, err error) {
	seq := r.from.All()
	if reverse {
		seq = r.from.BackwardAll()
	}
	for row, err := range seq {
		if err != nil {
			return out, err
		}
		out = append(out, Place{Key: string(row.Key), From: row.Start})
	}
	return out, nil
}

func (r windowedReader) Get(p Place) (Value, bool, error) { return r.from.Fetch([]byte(p.Key), p.From) }

func (r windowedReader) Rows([]string) (map[Place]Value, error) {
	out := map[Place]Value{}
	for row, err := range r.from.All() {
		if err != nil {
			return out, err
		}
		out[Place{Key: string(row.Key), From: row.Start}] = own(row.Value)
	}
	return out, nil
}
