package versioned

import (
	"bytes"
	"fmt"

	"github.com/forebay-streams/forebay/internal/versions"
	"github.com/forebay-streams/forebay/store"
)

// Placed is where a put went: [Latest], [TooOld], or else into the past of the key, and
// then it is the time when the new version ended.
type Placed int64

const (
	// Latest: the version is the key's latest, or deletes it.
	Latest Placed = Placed(versions.PutLatest)
	// TooOld: the timestamp is further back than the history reaches, and nothing was
	// written or logged.
	TooOld Placed = -1 << 63
)

// ValidTo is when the version ended; not ok: it is the latest, or was not stored.
func (p Placed) ValidTo() (at int64, ok bool) { return int64(p), p >= 0 }

func (p Placed) String() string {
	switch p {
	case Latest:
		return "latest"
	case TooOld:
		return "too old"
	}
	return fmt.Sprintf("valid to %d", int64(p))
}

// Put stores a value that the key has from v.Timestamp on, with its headers. A version of
// the same key and timestamp is replaced. Timestamps may come in any order, but none that
// is older than stream time less [History]. What the serializers add to the headers is
// stored and logged, and not seen by the caller. A value that its serializer turns into nil
// is a delete.
func (s *Store[K, V]) Put(key K, v store.Value[V]) (placed Placed, err error) {
	if err := s.core.Check("put"); err != nil {
		return 0, err
	}
	k, row, err := s.codec.Encode(&s.scratch, &s.core.Record, key, &v)
	if err == nil {
		row.Timestamp = v.Timestamp
		placed, err = s.put(k, row)
	}
	return placed, s.core.Fail("put", err)
}

// Tombstone deletes the key's value from a time on, without reading what it had
// (put(key, null) of Kafka Streams). A store with headers logs it with the headers of the
// record being processed.
func (s *Store[K, V]) Tombstone(key K, timestamp int64) (placed Placed, err error) {
	err = s.core.Do("tombstone", func() error {
		k, row, err := s.codec.Tombstone(&s.scratch, &s.core.Record, key)
		if err != nil {
			return err
		}
		row.Timestamp = timestamp
		placed, err = s.put(k, row)
		return err
	})
	return placed, err
}

// Delete is Tombstone that returns the version that was valid at the time; present is
// false if there was none, or the delete came too late.
func (s *Store[K, V]) Delete(key K, timestamp int64) (old Version[V], present bool, err error) {
	err = s.core.Do("delete", func() error {
		k, row, err := s.codec.Tombstone(&s.scratch, &s.core.Record, key)
		if err != nil {
			return err
		}
		row.Timestamp = timestamp
		if timestamp >= 0 && s.table.now.Late(timestamp) {
			s.report.tooOld(timestamp, &s.table.now)
			return nil
		}
		v, ok, err := s.lookup.AsOf(s.core.Overlay, &s.table.now, k, timestamp)
		if err != nil {
			return err
		}
		if ok {
			if old, present, err = decode(&s.codec, &s.scratch, v); err != nil {
				return err
			}
		}
		_, err = s.put(k, row)
		return err
	})
	return old, present, err
}

// put writes a version. Every row it touches is staged at once, and a commit writes
// them in one batch: a put is never cut in half.
func (s *Store[K, V]) put(key []byte, row store.Row) (Placed, error) {
	if row.Timestamp < 0 {
		return 0, fmt.Errorf("%w: a version cannot begin at %d", store.ErrNegativeTimestamp, row.Timestamp)
	}
	times := s.table.now
	if times.Late(row.Timestamp) {
		s.report.tooOld(row.Timestamp, &times)
		s.core.Overlay.Stage(nil, &s.core.Record)
		return TooOld, nil
	}
	times.Advance(row.Timestamp)
	value, err := s.encode(row)
	if err != nil {
		return 0, err
	}
	changes, placed, err := s.editor.Put(s.core.Overlay, &times, key, value, row.Timestamp)
	if err != nil {
		return 0, err
	}
	if log := s.core.Config.Log; log != nil {
		if row.Headers, err = row.Headers.Pack(); err != nil { // the changelog keeps them
			return 0, err
		}
		if err := log.Append(store.Change{Key: bytes.Clone(key), Row: row}); err != nil {
			return 0, err
		}
	}
	s.report.sizes(changes)
	s.table.set(times)
	s.core.Overlay.Stage(changes, &s.core.Record)
	return Placed(placed), nil
}

// encode returns what stands for the version in its row: nil for a tombstone, else bytes
// that are valid until the next call.
func (s *Store[K, V]) encode(row store.Row) (value []byte, err error) {
	if row.Tombstone() {
		return nil, nil
	}
	s.stored, err = s.core.Config.Layout.Append(s.stored[:0], row)
	return s.stored, err
}
