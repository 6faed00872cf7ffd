package subject

import (
	"iter"

	"github.com/forebay-streams/forebay/internal/family"
	"github.com/forebay-streams/forebay/kv"
	"github.com/forebay-streams/forebay/store"
)

func kvOptions(c Config) []kv.Option {
	o := []kv.Option{kv.Format(c.Layout)}
	if c.Memory {
		o = append(o, kv.InMemory())
	}
	if c.Log != nil {
		o = append(o, kv.Changelog(c.Log))
	}
	if c.Budget != nil {
		o = append(o, kv.Shared(c.Budget))
	}
	if c.ExactlyOnce {
		o = append(o, kv.ExactlyOnce())
	}
	if c.Cache {
		o = append(o, kv.Cache(c.Budget))
	}
	return o
}

// OpenKV also returns the store itself.
func OpenKV(dir, name string, c Config) (Store, *kv.Store[[]byte, []byte], error) {
	return openKV(dir, name, store.Bytes(), store.Bytes(), c)
}

func openKV(dir, name string, key, value store.Serde[[]byte], c Config) (Store, *kv.Store[[]byte, []byte], error) {
	s, err := kv.Open(dir, name, key, value, kvOptions(c)...)
	if err != nil {
		return nil, nil, err
	}
	return kvStore{kvReader{s}, s.Shell, s}, s, nil
}

type kvStore struct {
	kvReader
	family.Shell
	store *kv.Store[[]byte, []byte]
}

func (s kvStore) Put(p Place, v Value) error    { return s.store.Put([]byte(p.Key), v) }
func (s kvStore) Delete(p Place) error          { return s.store.Tombstone([]byte(p.Key)) }
func (s kvStore) View(i store.Isolation) Reader { return kvReader{s.store.View(i)} }

type kvReader struct {
	from interface {
		Get([]byte) (Value, bool, error)
		All() iter.Seq2[kv.Row[[]byte, []byte], error]
		ReverseAll() iter.Seq2[kv.Row[[]byte, []byte], error]
	}
}

func (r kvReader) Scan(reverse bool, _ []string) (out []Place, err error) {
	seq := r.from.All()
	if reverse {
		seq = r.from.ReverseAll()
	}
	for row, err := range seq {
		if err != nil {
			return out, err
		}
		out = append(out, Place{Key: string(row.Key)})
	}
	return out, nil
}

func (r kvReader) Get(p Place) (Value, bool, error) { return r.from.Get([]byte(p.Key)) }

func (r kvReader) Rows([]string) (map[Place]Value, error) {
	out := map[Place]Value{}
	for row, err := range r.from.All() {
		if err != nil {
			return out, err
		}
		out[Place{Key: string(row.Key)}] = own(row.Value)
	}
	return out, nil
}
