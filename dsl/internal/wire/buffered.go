package wire

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/forebay-streams/forebay/internal/reccontext"
	"github.com/forebay-streams/forebay/internal/windowkey"
	"github.com/forebay-streams/forebay/store"
)

// Buffered is a row of a suppress buffer.
type Buffered struct {
	// Context is the record of the row's last update; New belongs to it.
	Context store.Record
	// Prior is what the key had before it was first buffered, Old what it had before the
	// last update. A nil value is none.
	Prior, Old store.Row
	// New is the value; nil deletes the key.
	New []byte
	// Time is the place in the buffer.
	Time int64
}

// SamePrior tells whether the old value is the prior one: it is then kept once.
func (b *Buffered) SamePrior() bool { return sameValue(b.Prior.Value, b.Old.Value) }

// Headers of a suppress buffer's changelog records.
const (
	versionHeader = "v"
	priorHeader   = "vh.prior"
	oldHeader     = "vh.old"
)

// Versions of a suppress buffer's changelog records. The first wrote no header.
const (
	bufferedV0 = iota
	bufferedV1
	bufferedV2
	bufferedV3
)

// samePrior is the length of an old value that equals the prior one.
const samePrior = -2

// EncodeBuffered returns value and headers of the row's changelog record. With parts the
// headers say timestamp and headers of prior and old value (Kafka 4.4 with
// dsl.store.format=HEADERS). Errors: [store.ErrTooLarge]; [store.ErrCorrupt] for
// malformed stored headers.
func EncodeBuffered(b Buffered, parts bool) (value []byte, headers store.Headers, err error) {
	if value, err = appendValues(nil, b.Context, b.Prior.Value, b.Old.Value, b.New); err != nil {
		return nil, store.Headers{}, err
	}
	value = binary.BigEndian.AppendUint64(value, uint64(b.Time))
	list := []store.Header{{Key: versionHeader, Value: []byte{bufferedV3}}}
	if parts {
		if b.Prior.Value != nil && !sameRow(b.Prior, b.Old) {
			if list, err = appendPart(list, priorHeader, b.Prior); err != nil {
				return nil, store.Headers{}, err
			}
		}
		if b.Old.Value != nil {
			if list, err = appendPart(list, oldHeader, b.Old); err != nil {
				return nil, store.Headers{}, err
			}
		}
	}
	return value, store.HeadersOf(list), nil
}

func appendValues(dst []byte, context store.Record, prior, old, value []byte) ([]byte, error) {
	if err := fits(prior, old, value); err != nil {
		return dst, err
	}
	dst, err := reccontext.Append(dst, context)
	if err != nil {
		return dst, err
	}
	dst = appendSized(dst, prior)
	if sameValue(prior, old) {
		dst = appendLength(dst, samePrior)
	} else {
		dst = appendSized(dst, old)
	}
	if dst = appendSized(dst, value); len(dst) > math.MaxInt32-timeSize {
		return dst, store.ErrTooLarge
	}
	return dst, nil
}

func sameValue(prior, old []byte) bool {
	return prior != nil && old != nil && bytes.Equal(prior, old)
}

func sameRow(prior, old store.Row) bool {
	return sameValue(prior.Value, old.Value) && prior.Timestamp == old.Timestamp && prior.Headers.Equal(old.Headers)
}

func appendPart(list []store.Header, name string, part store.Row) ([]store.Header, error) {
	part.Value = []byte{}
	b, err := store.WithHeaders.Append(nil, part)
	return append(list, store.Header{Key: name, Value: b}), err
}

// DecodeBuffered reads a changelog record that is no tombstone. The oldest version keeps
// no context and takes the record's. Versions 0 and 1 have no prior value: it is that of
// previous, the row the record replaces, or else the old value. Errors are
// [store.ErrCorrupt]: buffered_version, buffered_length, buffered_part, and those of the
// record context.
func DecodeBuffered(record store.Record, value []byte, previous *Buffered) (Buffered, error) {
	version := bufferedV0
	if h, ok := record.Headers.Last(versionHeader); ok {
		if len(h.Value) != 1 || h.Value[0] < bufferedV1 || h.Value[0] > bufferedV3 {
			return Buffered{}, corrupt("buffered_version", 0)
		}
		version = int(h.Value[0])
	}
	switch version {
	case bufferedV0, bufferedV1:
		return decodeTimeFirst(version, record, value, previous)
	case bufferedV2:
		// Kafka Streams 2.4.0 to 2.5.0 wrote version 3 under this number.
		if b, err := decodeV2(value); err == nil {
			return b, nil
		}
	}
	b, rest, err := decodeValues(value)
	if err != nil {
		return Buffered{}, err
	}
	r := reader{b: rest}
	b.Time = r.int64("buffered_length")
	if r.err != nil {
		return Buffered{}, r.err
	}
	if err := b.takeParts(record.Headers); err != nil {
		return Buffered{}, err
	}
	return b, nil
}

// decodeTimeFirst reads versions 0 and 1: the time, a context in version 1, old and new.
func decodeTimeFirst(version int, record store.Record, value []byte, previous *Buffered) (Buffered, error) {
	r := reader{b: value}
	b := Buffered{Time: r.int64("buffered_length"), Context: record}
	change := r.rest()
	if r.err == nil && version == bufferedV1 {
		var sized []byte
		if b.Context, sized, r.err = reccontext.Decode(change); r.err != nil {
			return Buffered{}, r.err
		}
		r := reader{b: sized}
		if change = r.sized("buffered_length"); r.err != nil {
			return Buffered{}, r.err
		}
	}
	if r.err != nil {
		return Buffered{}, r.err
	}
	if err := b.takeOldNew(change); err != nil {
		return Buffered{}, err
	}
	b.Prior = b.Old
	if previous != nil {
		b.Prior = previous.Prior
	}
	return b, nil
}

// decodeV2 reads a context, old and new in one sized field, the prior value and the time.
func decodeV2(value []byte) (Buffered, error) {
	context, rest, err := reccontext.Decode(value)
	if err != nil {
		return Buffered{}, err
	}
	b := Buffered{Context: context}
	r := reader{b: rest}
	change := r.sized("buffered_length")
	b.Prior = b.row(r.sized("buffered_length"))
	b.Time = r.int64("buffered_length")
	if r.err == nil && len(r.rest()) > 0 {
		r.fail("buffered_length", r.off)
	}
	if r.err != nil {
		return Buffered{}, r.err
	}
	return b, b.takeOldNew(change)
}

// takeOldNew reads what versions before 3 had in one field.
func (b *Buffered) takeOldNew(change []byte) error {
	r := reader{b: change}
	b.Old = b.row(r.sized("buffered_length"))
	b.New = r.sized("buffered_length")
	if len(r.rest()) > 0 {
		r.fail("buffered_length", r.off)
	}
	return r.err
}

// row is a part that nothing says more about: it takes the context's timestamp.
func (b *Buffered) row(value []byte) store.Row {
	if value == nil {
		return store.Row{}
	}
	return store.Row{Value: value, Timestamp: b.Context.Timestamp}
}

// decodeValues reads what appendValues wrote.
func decodeValues(value []byte) (b Buffered, rest []byte, err error) {
	if b.Context, rest, err = reccontext.Decode(value); err != nil {
		return Buffered{}, nil, err
	}
	r := reader{b: rest}
	b.Prior = b.row(r.sized("buffered_length"))
	switch n := r.int32("buffered_length"); n {
	case samePrior:
		if b.Prior.Value == nil {
			r.fail("buffered_length", r.off)
		}
		b.Old = b.Prior
	case null:
	default:
		b.Old = b.row(r.bytes(n, "buffered_length"))
	}
	b.New = r.sized("buffered_length")
	if r.err != nil {
		return Buffered{}, nil, r.err
	}
	return b, r.rest(), nil
}

// takeParts reads timestamp and headers of prior and old value, if the record has them.
func (b *Buffered) takeParts(headers store.Headers) error {
	same := sameValue(b.Prior.Value, b.Old.Value)
	if err := takePart(&b.Old, headers, oldHeader); err != nil {
		return err
	}
	if _, ok := headers.Last(priorHeader); !ok && same {
		b.Prior = b.Old
		return nil
	}
	return takePart(&b.Prior, headers, priorHeader)
}

func takePart(part *store.Row, headers store.Headers, name string) error {
	h, ok := headers.Last(name)
	if !ok || part.Value == nil {
		return nil
	}
	if h.Value == nil {
		return corrupt("buffered_part", 0)
	}
	row, err := store.WithHeaders.Decode(h.Value)
	if err != nil {
		return err
	}
	if len(row.Value) > 0 {
		return corrupt("buffered_part", len(h.Value)-len(row.Value))
	}
	part.Timestamp, part.Headers = row.Timestamp, row.Headers
	return nil
}

// Delayed is a row of the buffer of a stream-table join with a grace period.
type Delayed struct {
	// Context is the buffered record.
	Context store.Record
	Value   []byte
}

// EncodeDelayed returns the row's changelog value; see [LocalDelayed].
func EncodeDelayed(d Delayed) ([]byte, error) {
	value, err := appendValues(nil, d.Context, nil, nil, d.Value)
	return append(value, make([]byte, timeSize)...), err
}

// DecodeDelayed reads a local row or a changelog value: what follows the value is
// ignored.
func DecodeDelayed(value []byte) (Delayed, error) {
	b, _, err := decodeValues(value)
	return Delayed{Context: b.Context, Value: b.New}, err
}

// LocalDelayed is the part of a changelog value that the local row has.
func LocalDelayed(value []byte) ([]byte, error) {
	_, rest, err := decodeValues(value)
	return value[: len(value)-len(rest) : len(value)-len(rest)], err
}

// DelayedKey is the place of a row in the buffer: its time, its key, and its number among
// those that were buffered.
type DelayedKey = windowkey.Row

// AppendDelayedKey appends the key, local and in the changelog, to dst.
func AppendDelayedKey(dst []byte, k DelayedKey) []byte { return windowkey.Base.Append(dst, k) }

// ParseDelayedKey takes a key apart. (Kafka's restore reads the changelog's keys as if
// the time stood behind the key, and loses the rows.) The error is [store.ErrCorrupt]:
// delayed_key.
func ParseDelayedKey(b []byte) (DelayedKey, error) {
	row, ok := windowkey.Base.Parse(b)
	if !ok {
		return DelayedKey{}, corrupt("delayed_key", 0)
	}
	return row, nil
}
