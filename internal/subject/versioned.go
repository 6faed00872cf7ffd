package subject

import (
	"iter"
	"math"

	"github.com/forebay-streams/forebay/internal/family"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
	"github.com/forebay-streams/forebay/versioned"
)

func versionedOptions(c Config) []versioned.Option {
	o := []versioned.Option{versioned.Format(c.Layout), versioned.History(c.retention())}
	if c.Memory {
		o = append(o, versioned.InMemory())
	}
	if c.Log != nil {
		o = append(o, versioned.Changelog(c.Log))
	}
	if c.Budget != nil {
		o = append(o, versioned.Shared(c.Budget))
	}
	if c.ExactlyOnce {
		o = append(o, versioned.ExactlyOnce())
	}
	if c.Interval > 0 {
		o = append(o, versioned.SegmentInterval(c.Interval))
	}
	return o
}

type versionedStore struct {
	versionedReader
	family.Shell
	store *versioned.Store[[]byte, []byte]
}

func (s versionedStore) Put(p Place, v Value) error {
	v.Timestamp = p.From
	_, err := s.store.Put([]byte(p.Key), v)
	return err
}

func (s versionedStore) Delete(p Place) error {
	_, err := s.store.Tombstone([]byte(p.Key), p.From)
	return err
}

func (s versionedStore) Abort() { s.store.Abort() }

func (s versionedStore) RestoreBatch(changes []store.Change, offset int64) error {
	return s.store.RestoreBatch(changes, offset)
}

func (s versionedStore) Migration() (migration.Stats, error) { return s.store.Migration() }

func (s versionedStore) View(i store.Isolation) Reader { return versionedReader{s.store.View(i)} }

type versionedReader struct {
	from interface {
		GetAsOf(key []byte, at int64) (versioned.Version[[]byte], bool, error)
		History(key []byte, from, to int64, order versioned.Order) iter.Seq2[versioned.Version[[]byte], error]
	}
}

// Scan goes over the keys as they are given.
func (r versionedReader) Scan(reverse bool, keys []string) (out []Place, err error) {
	order := versioned.Ascending
	if reverse {
		order = versioned.Descending
	}
	for _, key := range keys {
		for v, err := range r.from.History([]byte(key), math.MinInt64, math.MaxInt64, order) {
			if err != nil {
				return out, err
			}
			out = append(out, Place{Key: key, From: v.Timestamp})
		}
	}
	return out, nil
}

func (r versionedReader) Get(p Place) (Value, bool, error) {
	v, ok, err := r.from.GetAsOf([]byte(p.Key), p.From)
	return v.Value, ok && v.Timestamp == p.From, err
}

func (r versionedReader) Rows(keys []string) (map[Place]Value, error) {
	out := map[Place]Value{}
	for _, key := range keys {
		for v, err := range r.from.History([]byte(key), math.MinInt64, math.MaxInt64, versioned.Ascending) {
			if err != nil {
				return out, err
			}
			out[Place{Key: key, From: v.Timestamp}] = own(v.Value)
		}
	}
	return out, nil
}
