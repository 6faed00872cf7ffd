package migration

import (
	"fmt"

	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/store"
)

// Names of the column families of time-ordered window stores with headers, and of
// session stores with headers.
const (
	WindowHeadersFamily  = "windowKeyValueWithHeaders"
	SessionHeadersFamily = "sessionKeyValueWithHeaders"
)

// Index is the second kind of row in a time-ordered store: under 01 and the key first,
// beside the base rows under 00 and the time first.
type Index struct {
	// Headers says that an index row holds the headers of its base row, which itself is
	// plain; else index rows are empty, and what they hold is ignored.
	Headers bool
	// Base and Of append to dst the key of an index row's base row, and the reverse.
	Base, Of func(dst, key []byte) []byte
}

const (
	basePrefix  = 0
	indexPrefix = 1
)

// Has tells whether a key is that of an index row; i may be nil.
func (i *Index) Has(key []byte) bool { return i != nil && len(key) > 0 && key[0] == indexPrefix }

// decode reads an index row's value.
func (i *Index) decode(b []byte, row *store.Row) error {
	if !i.Headers || len(b) == 0 {
		*row = store.Row{Value: []byte{}, Timestamp: store.NoTimestamp}
		return nil
	}
	return store.Aggregation.DecodeBorrowed(b, row)
}

// encode gives an index row's value: nothing when there are no headers, as Kafka writes it.
func (i *Index) encode(row *store.Row) ([]byte, error) {
	if !i.Headers || row.Headers.Empty() {
		return nil, nil
	}
	return store.Aggregation.Encode(store.Row{Value: []byte{}, Headers: row.Headers})
}

// SessionFormats returns the formats of a session segment: plain, or aggregation for one
// with headers.
func SessionFormats(layout store.Layout) ([]Format, error) {
	switch layout {
	case store.Plain:
		return []Format{plainRows}, nil
	case store.Aggregation:
		return []Format{plainRows, sessionHeadersRows}, nil
	}
	return nil, fmt.Errorf("%w: a session store has no %s format; it has plain and headers", store.ErrConfig, layout)
}

// OrderedSessionFormats is SessionFormats for time-ordered stores. With headers their base
// rows are plain, as Kafka Streams writes them, and the index has the headers.
func OrderedSessionFormats(layout store.Layout, index Index) ([]Format, error) {
	if _, err := SessionFormats(layout); err != nil {
		return nil, err
	}
	index.Headers = layout.HasHeaders()
	plain := Format{Family: rocks.Default, Layout: store.Plain, Index: &index}
	if !index.Headers {
		return []Format{plain}, nil
	}
	return []Format{plain, {Family: SessionHeadersFamily, Layout: store.Plain, Index: &index}}, nil
}

// OrderedWindowFormats returns the formats of a segment of a time-ordered window store.
func OrderedWindowFormats(layout store.Layout, index Index) ([]Format, error) {
	timestamped := Format{Family: rocks.Default, Layout: store.Timestamped, Index: &index}
	switch layout {
	case store.Timestamped:
		return []Format{timestamped}, nil
	case store.WithHeaders:
		return []Format{timestamped, {Family: WindowHeadersFamily, Layout: store.WithHeaders, Index: &index}}, nil
	}
	return nil, fmt.Errorf("%w: a time-ordered window store has no %s format; it has timestamped and headers", store.ErrConfig, layout)
}
