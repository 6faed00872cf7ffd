package kv

import (
	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/store"
)

// codec turns typed rows into bytes and back. Which headers a serde sees is part of the
// format: a schema id that one call writes must be there for the other.
type codec[K, V any] struct {
	topic  string
	layout store.Layout
	strict bool
	logged bool
	key    store.Serde[K]
	value  store.Serde[V]

	appendKey          store.Appender[K] // nil: none
	keyFree, valueFree bool              // the serde takes no headers
}

func newCodec[K, V any](c config, key store.Serde[K], value store.Serde[V]) codec[K, V] {
	out := codec[K, V]{topic: c.topic, layout: c.layout, strict: c.strict, logged: c.log != nil, key: key, value: value}
	_, out.valueFree = value.(store.HeaderFree)
	if _, out.keyFree = key.(store.HeaderFree); out.keyFree {
		out.appendKey, _ = key.(store.Appender[K])
	}
	return out
}

// scratch are the buffers of one reader. headers is the private list that serdes see:
// a field, because a pointer to it goes through an interface.
type scratch struct {
	key, value []byte
	headers    store.Headers
}

// lent returns the headers for a serde, nil for one that takes none.
func (s *scratch) lent(free bool) *store.Headers {
	if free {
		return nil
	}
	return &s.headers
}

// lookupKey serializes the key of a look-up. The serializer sees a private copy of the
// current headers: a look-up must not change the input record.
func (c *codec[K, V]) lookupKey(s *scratch, headers store.Headers, key K) ([]byte, error) {
	s.headers = headers.Copy()
	return c.keyBytes(s, key)
}

// keyBytes may use the scratch's key buffer; the overlay copies keys.
func (c *codec[K, V]) keyBytes(s *scratch, key K) (k []byte, err error) {
	if c.appendKey != nil {
		if s.key == nil {
			s.key = make([]byte, 0, 64) // not nil, so that an empty key is none
		}
		if k, err = c.appendKey.Append(s.key[:0], key); err == nil {
			s.key = k
		}
		return k, err
	}
	k, err = c.key.Serialize(c.topic, s.lent(c.keyFree), key)
	if err == nil && k == nil {
		err = store.ErrNilKey
	}
	return k, err
}

// encode serializes a put: key, then value, both with the row's headers where the store
// keeps them, else with the record's. What they add belongs to the row.
func (c *codec[K, V]) encode(s *scratch, record *store.Record, key K, v *store.Value[V]) ([]byte, store.Row, error) {
	s.headers = record.Headers.Copy()
	if c.layout.HasHeaders() {
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
		return c.tombstone(s, record, key)
	}
	row := store.Row{Value: data, Timestamp: store.NoTimestamp}
	if c.layout.HasTimestamp() {
		row.Timestamp = v.Timestamp
	}
	if c.layout.HasHeaders() {
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

// tombstone serializes a delete. Its headers are a copy of the record's, and the key
// serializer adds to that copy.
func (c *codec[K, V]) tombstone(s *scratch, record *store.Record, key K) ([]byte, store.Row, error) {
	k, err := c.lookupKey(s, record.Headers, key)
	row := store.Row{Timestamp: store.NoTimestamp}
	if c.layout.HasHeaders() {
		row.Headers = s.headers
	}
	return k, row, err
}

// reader is the overlay or a view of it.
type reader interface {
	Get(key []byte, scratch *[]byte) (store.Row, bool, error)
	Scan(base.Span) base.Cursor
}

// get reads and decodes a row that owns its bytes.
func (c *codec[K, V]) get(r reader, key []byte, s *scratch) (v store.Value[V], ok bool, err error) {
	row, ok, err := r.Get(key, &s.value)
	if err != nil || !ok {
		return v, false, err
	}
	v, err = c.decodeValue(s, row)
	v.Headers = v.Headers.Clone()
	return v, err == nil, err
}

// decodeValue gives the value serde a private view of the row's headers.
func (c *codec[K, V]) decodeValue(s *scratch, row store.Row) (store.Value[V], error) {
	if c.strict || !c.valueFree {
		if err := row.Headers.Err(); err != nil {
			return store.Value[V]{}, err
		}
	}
	s.headers = row.Headers
	data, err := c.value.Deserialize(c.topic, s.lent(c.valueFree), row.Value)
	return store.Value[V]{Data: data, Timestamp: row.Timestamp, Headers: row.Headers}, err
}

// decode reads a row of a scan: the value first, then the key, which sees the headers of
// the entry (KAFKA-20798).
func (c *codec[K, V]) decode(s *scratch, key []byte, row store.Row) (Row[K, V], error) {
	v, err := c.decodeValue(s, row)
	if err != nil {
		return Row[K, V]{}, err
	}
	s.headers = row.Headers
	k, err := c.key.Deserialize(c.topic, s.lent(c.keyFree), key)
	return Row[K, V]{k, v}, err
}
