package versioned

import (
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/family"
	"github.com/forebay-streams/forebay/internal/versions"
	"github.com/forebay-streams/forebay/store"
)

// Order is the order of a [Store.History].
type Order uint8

const (
	// Descending is from the newest version to the oldest.
	Descending Order = iota
	// Ascending is from the oldest to the newest.
	Ascending
)

// Get returns the latest version; ok is false when there is none.
func (s *Store[K, V]) Get(key K) (v Version[V], ok bool, err error) {
	if err := s.core.Check("get"); err != nil {
		return v, false, err
	}
	k, err := s.codec.LookupKey(&s.scratch, s.core.Record.Headers, key)
	if err == nil {
		v, ok, err = found(&s.codec, &s.scratch)(s.lookup.Latest(s.core.Overlay, k))
	}
	return v, ok, s.core.Fail("get", err)
}

// GetAsOf returns the version that was valid at a time; ok is false when there was none,
// or when the time is further back than the history reaches and not in the latest version.
func (s *Store[K, V]) GetAsOf(key K, at int64) (v Version[V], ok bool, err error) {
	if err := s.core.Check("get as of"); err != nil {
		return v, false, err
	}
	k, err := s.codec.LookupKey(&s.scratch, s.core.Record.Headers, key)
	if err == nil {
		v, ok, err = found(&s.codec, &s.scratch)(s.lookup.AsOf(s.core.Overlay, &s.table.now, k, at))
	}
	return v, ok, s.core.Fail("get as of", err)
}

// History walks over the versions that were valid at some time in [from, to], without
// tombstones; math.MinInt64 and math.MaxInt64 are open ends. It sees the versions as they
// are when its loop begins, and copies their rows then. Of what is further back than the history reaches it has what
// is not dropped yet.
func (s *Store[K, V]) History(key K, from, to int64, order Order) iter.Seq2[Version[V], error] {
	return s.walk(from, to, order, func(sc *family.Scratch, w *versions.Walk) error {
		k, err := s.codec.LookupKey(sc, s.core.Record.Headers, key)
		if err != nil {
			return err
		}
		return w.Read(s.core.Overlay, &s.table.now, k)
	})
}

func (s *Store[K, V]) walk(from, to int64, order Order, read func(*family.Scratch, *versions.Walk) error) iter.Seq2[Version[V], error] {
	return family.Scan(s.core, func(sc *family.Scratch) (base.Cursor, error) {
		if from > to {
			return nil, fmt.Errorf("%w: the history from %d to %d ends before it begins", store.ErrConfig, from, to)
		}
		w := &cursor{core: s.core, walk: versions.Walk{From: from, To: to, Ascending: order == Ascending, Damaged: s.report.damagedRow}}
		return w, read(sc, &w.walk)
	}, func(sc *family.Scratch, validTo []byte, row *store.Row, v *Version[V]) error {
		v.ValidTo = int64(binary.BigEndian.Uint64(validTo))
		return s.codec.DecodeValue(sc, row, &v.Value)
	})
}

// cursor shows a walk as a scan, whose keys are the ends of the versions.
type cursor struct {
	core *family.Core
	walk versions.Walk
	row  store.Row
	to   [8]byte
	err  error
}

func (c *cursor) Next() bool {
	if c.err = c.core.Check("history"); c.err != nil || !c.walk.Next() {
		return false
	}
	v := c.walk.Version()
	binary.BigEndian.PutUint64(c.to[:], uint64(v.To))
	c.row, c.err = c.core.Config.Layout.Decode(v.Value)
	c.row.Timestamp = v.From
	return c.err == nil
}

func (c *cursor) Key() []byte     { return c.to[:] }
func (c *cursor) Row() *store.Row { return &c.row }
func (c *cursor) Close()          {}

func (c *cursor) Err() error {
	if c.err != nil {
		return c.err
	}
	return c.walk.Err()
}

// found decodes the result of a look-up.
func found[K, V any](codec *family.Codec[K, V], s *family.Scratch) func(versions.Version, bool, error) (Version[V], bool, error) {
	return func(v versions.Version, ok bool, err error) (Version[V], bool, error) {
		if err != nil || !ok {
			return Version[V]{}, false, err
		}
		return decode(codec, s, v)
	}
}

// decode makes a version that owns its bytes. The header block is copied as a whole and
// not parsed.
func decode[K, V any](codec *family.Codec[K, V], s *family.Scratch, v versions.Version) (out Version[V], ok bool, err error) {
	var row store.Row
	if err := codec.Layout().DecodeBorrowed(v.Value, &row); err != nil {
		return out, false, err
	}
	row.Timestamp = v.From
	if err := codec.DecodeValue(s, &row, &out.Value); err != nil {
		return out, false, err
	}
	out.Headers, out.ValidTo = out.Headers.Clone(), v.To
	return out, true, nil
}
