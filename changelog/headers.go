package changelog

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-streams/forebay/store"
)

// Headers returns a record's headers. It copies the list but not the values, so nobody
// may change the record's header values afterwards.
func Headers(r *kgo.Record) store.Headers {
	if len(r.Headers) == 0 {
		return store.Headers{}
	}
	list := make([]store.Header, len(r.Headers))
	for i, h := range r.Headers {
		list[i] = store.Header(h)
	}
	return store.HeadersOf(list)
}

// RecordHeaders returns headers as a new list for a record, nil when there are none. The
// values are shared, not copied. A malformed stored block is store.ErrCorrupt.
func RecordHeaders(h store.Headers) ([]kgo.RecordHeader, error) {
	if h.Empty() {
		return nil, nil
	}
	if err := h.Err(); err != nil {
		return nil, err
	}
	list := make([]kgo.RecordHeader, 0, h.Len())
	for x := range h.All() {
		list = append(list, kgo.RecordHeader(x))
	}
	return list, nil
}

// RecordOf returns what a store needs to know of an input record while it is processed.
// The header values are shared with the record.
func RecordOf(r *kgo.Record) store.Record {
	return store.Record{
		Topic:     r.Topic,
		Partition: r.Partition,
		Offset:    r.Offset,
		Timestamp: millis(r.Timestamp),
		Headers:   Headers(r),
	}
}

// millis is the timestamp in milliseconds. Records of the oldest message format have
// none: kgo gives the zero time.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return store.NoTimestamp
	}
	return t.UnixMilli()
}

// cutPosition takes off the pair of headers that Kafka Streams appends to every changelog
// record while it tracks positions: v with the one byte 00, then c with a position. Only
// the last two headers are looked at, so a user's own header of that name stays.
func cutPosition(list []kgo.RecordHeader) ([]kgo.RecordHeader, store.Position, bool) {
	n := len(list) - 2
	if n < 0 || list[n].Key != "v" || list[n+1].Key != "c" || len(list[n].Value) != 1 || list[n].Value[0] != 0 {
		return list, store.Position{}, false
	}
	p, err := store.DecodePosition(list[n+1].Value)
	if err != nil {
		return list, store.Position{}, false
	}
	return list[:n], p, true
}
