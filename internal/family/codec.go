package family

import (
	"github.com/forebay-streams/forebay/internal/overlay"
	"github.com/forebay-streams/forebay/store"
)

// Codec turns typed keys and values into bytes and back. Which headers a serde sees is
// part of the format: a schema id that one call writes must be there for the other.
type Codec[K, V any] struct {
	topic  string
	layout store.Layout
	strict bool
	logged bool
	rides  bool // headers go with the row, to the changelog at least
	key    store.Serde[K]
	value  store.Serde[V]

	appendKey          store.Appender[K] // nil: none
	keyFree, valueFree bool              // the serde takes no headers
}

// NewCodec makes the codec of a store.
func NewCodec[K, V any](c Config, key store.Serde[K], value store.Serde[V]) Codec[K, V] {
	out := Codec[K, V]{topic: c.Topic, layout: c.Layout, strict: c.Strict, logged: c.Log != nil, key: key, value: value}
	out.rides = c.Layout.HasHeaders() || c.LogHeaders
	_, out.valueFree = value.(store.HeaderFree)
	if _, out.keyFree = key.(store.HeaderFree); out.keyFree {
		out.appendKey, _ = key.(store.Appender[K])
	}
	return out
}

// Layout is that of the rows.
func (c *Codec[K, V]) Layout() store.Layout { return c.layout }

// Scratch are the buffers of one reader.
type Scratch struct {
	Key, Value []byte
	// headers is the private list that serdes see: a field, because a pointer to it goes
	// through an interface.
	headers store.Headers
}

// Inner runs a flush listener: it may call the store while one of the store's operations,
// which uses the scratch, is under way.
func (s *Scratch) Inner(spare *Scratch, call func() error) error {
	outer := *s
	*s, *spare = *spare, Scratch{}
	defer func() { *spare, *s = *s, outer }()
	return call()
}

// lent returns the headers for a serde, nil for one that takes none.
func (s *Scratch) lent(free bool) *store.Headers {
	if free {
		return nil
	}
	return &s.headers
}

// lend is lent with a copy of the headers, for a serde that takes some.
func (s *Scratch) lend(headers *store.Headers) *store.Headers {
	s.headers = *headers
	return &s.headers
}

// LookupKey serializes the key of a look-up, perhaps into the scratch's key buffer. The
// serializer sees a private copy of the headers: a look-up must not change the record.
func (c *Codec[K, V]) LookupKey(s *Scratch, headers store.Headers, key K) ([]byte, error) {
	s.headers = headers.Copy()
	return c.keyBytes(s, key)
}

func (c *Codec[K, V]) keyBytes(s *Scratch, key K) (k []byte, err error) {
	if c.appendKey != nil {
		if s.Key == nil {
			s.Key = make([]byte, 0, 64) // not nil, so that an empty key is none
		}
		if k, err = c.appendKey.Append(s.Key[:0], key); err == nil {
			s.Key = k
		}
		return k, err
	}
	k, err = c.key.Serialize(c.topic, s.lent(c.keyFree), key)
	if err == nil && k == nil {
		err = store.ErrNilKey
	}
	return k, err
}

// Encode serializes a put: key, then value, both with the row's headers where the store
// keeps or logs them, else with the record's. What they add belongs to the row. A value that its
// serializer makes nil gives a tombstone.
func (c *Codec[K, V]) Encode(s *Scratch, record *store.Record, key K, v *store.Value[V]) ([]byte, store.Row, error) {
	s.headers = record.Headers.Copy()
	if c.rides {
		s.headers = v.Headers.Copy()
	}
	k, err := c.keyBytes(s, key)
	if err != nil {
		return nil, store.Row{}, err
	}
	data, err := c.value.Serialize(c.topic, s.lent(c.valueFree), v.Data)
	if err != nil {
		return nil, store.Row{}, err
	}
	if data == nil {
		return c.Tombstone(s, record, key)
	}
	row := store.Row{Value: data, Timestamp: store.NoTimestamp}
	if c.layout.HasTimestamp() {
		row.Timestamp = v.Timestamp
	}
	if c.rides {
		// The changelog needs the headers one by one, so a block that was passed through
		// unparsed must be found malformed before anything is written.
		if c.logged {
			if err := s.headers.Err(); err != nil {
				return nil, store.Row{}, err
			}
		}
		row.Headers = s.headers
	}
	return k, row, nil
}

// Tombstone serializes a delete. Its headers are a copy of the record's, and the key
// serializer adds to that copy.
func (c *Codec[K, V]) Tombstone(s *Scratch, record *store.Record, key K) ([]byte, store.Row, error) {
	k, err := c.LookupKey(s, record.Headers, key)
	row := store.Row{Timestamp: store.NoTimestamp}
	if c.rides {
		row.Headers = s.headers
	}
	return k, row, err
}

// Get reads and decodes a row; the result owns its bytes.
func (c *Codec[K, V]) Get(r Reader, key []byte, s *Scratch) (v store.Value[V], ok bool, err error) {
	row, ok, err := r.Get(key, &s.Value)
	if err != nil || !ok {
		return v, false, err
	}
	err = c.DecodeValue(s, &row, &v)
	v.Headers = v.Headers.Clone()
	return v, err == nil, err
}

// DecodeValue sets every field of v. It gives the value serde a private view of the row's
// headers.
func (c *Codec[K, V]) DecodeValue(s *Scratch, row *store.Row, v *store.Value[V]) (err error) {
	if c.strict || !c.valueFree {
		if err := row.Headers.Err(); err != nil {
			return err
		}
	}
	var lent *store.Headers
	if !c.valueFree {
		lent = s.lend(&row.Headers)
	}
	v.Data, err = c.value.Deserialize(c.topic, lent, row.Value)
	v.Timestamp = row.Timestamp
	row.Headers.CopyTo(&v.Headers)
	return err
}

// DecodeKey reads the key of a scan's row, after its value: the serde sees the headers of
// the entry (KAFKA-20798).
func (c *Codec[K, V]) DecodeKey(s *Scratch, key []byte, headers *store.Headers) (K, error) {
	var lent *store.Headers
	if !c.keyFree {
		lent = s.lend(headers)
	}
	return c.key.Deserialize(c.topic, lent, key)
}

// DecodeFlushed decodes a flushed write, whose stored key is given. The key serde sees the
// headers that the key was written with.
func (c *Codec[K, V]) DecodeFlushed(s *Scratch, key []byte, f *overlay.Forwarded) (k K, out store.Flushed[V], err error) {
	out.Record = f.Record
	for _, side := range []struct {
		row store.Row
		to  **store.Value[V]
	}{{f.Old, &out.Old}, {f.New, &out.New}} {
		if side.row.Tombstone() {
			continue
		}
		var v store.Value[V]
		if err := c.DecodeValue(s, &side.row, &v); err != nil {
			return k, out, err
		}
		v.Headers = v.Headers.Clone()
		*side.to = &v
	}
	headers := f.Record.Headers
	if c.layout.HasHeaders() {
		headers = f.New.Headers
	}
	k, err = c.DecodeKey(s, key, &headers)
	return k, out, err
}
