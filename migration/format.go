package migration

import (
	"fmt"
	"slices"

	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/internal/windowkey"
	"github.com/forebay-streams/forebay/store"
)

// Names of the column families that hold rows, as Kafka Streams has them. The family
// default holds plain rows.
const (
	TimestampedFamily = "keyValueWithTimestamp"
	HeadersFamily     = "keyValueWithTimestampAndHeaders"
	// VersionsFamily is forebay's own: Kafka Streams 4.4 keeps no headers in versioned stores.
	VersionsFamily = "versionedKeyValueWithHeaders"
)

// Format is a column family and the layout of its rows.
type Format struct {
	Family string
	Layout store.Layout
	Index  *Index // nil: none
	// Versions: the rows are those of a versioned store, which hold several values in the
	// layout. The table passes them on as they are.
	Versions bool
}

var (
	plainRows          = Format{Family: rocks.Default, Layout: store.Plain}
	timestampedRows    = Format{Family: TimestampedFamily, Layout: store.Timestamped}
	headersRows        = Format{Family: HeadersFamily, Layout: store.WithHeaders}
	plainVersions      = Format{Family: rocks.Default, Layout: store.Plain, Versions: true}
	headersVersions    = Format{Family: VersionsFamily, Layout: store.Aggregation, Versions: true}
	sessionHeadersRows = Format{Family: SessionHeadersFamily, Layout: store.Aggregation}
)

// Formats of each kind of store, oldest first.
var (
	keyValueRows       = []Format{plainRows, timestampedRows, headersRows}
	versionedRows      = []Format{plainVersions, headersVersions}
	sessionRows        = []Format{plainRows, sessionHeadersRows}
	orderedSessionRows = []Format{
		{Family: rocks.Default, Layout: store.Plain, Index: sessionIndex(false)},
		{Family: SessionHeadersFamily, Layout: store.Plain, Index: sessionIndex(true)},
	}
	orderedWindowRows = []Format{
		{Family: rocks.Default, Layout: store.Timestamped, Index: windowIndex},
		{Family: WindowHeadersFamily, Layout: store.WithHeaders, Index: windowIndex},
	}
)

var windowIndex = &Index{Base: windowkey.ToBase, Of: windowkey.ToIndex}

func sessionIndex(headers bool) *Index {
	return &Index{Headers: headers, Base: windowkey.SessionToBase, Of: windowkey.SessionToIndex}
}

// formatsOf returns the formats of a store that has these column families. Where default
// is the only one, rows of a time-ordered store count as plain: nothing tells windows,
// which have timestamps, from sessions.
func formatsOf(listed []string, timeOrdered bool) ([]Format, error) {
	formats := keyValueRows
	switch {
	case slices.Contains(listed, WindowHeadersFamily):
		formats = orderedWindowRows
	case timeOrdered:
		formats = orderedSessionRows
	case slices.Contains(listed, SessionHeadersFamily):
		formats = sessionRows
	case slices.Contains(listed, VersionsFamily):
		formats = versionedRows
	}
	for _, name := range listed {
		if timeOrdered && name != rocks.Offsets && find(formats, name) < 0 {
			return nil, fmt.Errorf("%w: the column family %q is none of a time-ordered store", store.ErrIncompatible, name)
		}
	}
	return formats, nil
}

// find returns the place of a family's format, -1 for one that holds no rows.
func find(formats []Format, family string) int {
	return slices.IndexFunc(formats, func(f Format) bool { return f.Family == family })
}

// keeps is the layout that has what a row keeps, in an index row or by itself.
func (f Format) keeps() store.Layout {
	if f.Index != nil && f.Index.Headers {
		return store.Aggregation
	}
	return f.Layout
}

// KeyValueFormats returns the formats of a key-value store or window segment of that
// layout: the one it writes last, before it those it can upgrade from, oldest first.
func KeyValueFormats(layout store.Layout) ([]Format, error) {
	for i, f := range keyValueRows {
		if f.Layout == layout {
			return keyValueRows[: i+1 : i+1], nil
		}
	}
	return nil, fmt.Errorf("%w: a key-value store has no %s format; it has plain, timestamped and headers", store.ErrConfig, layout)
}

// VersionedFormats returns the formats of a versioned store, as KeyValueFormats does.
func VersionedFormats(layout store.Layout) ([]Format, error) {
	switch layout {
	case store.Plain:
		return []Format{plainVersions}, nil
	case store.WithHeaders:
		return []Format{plainVersions, headersVersions}, nil
	}
	return nil, fmt.Errorf("%w: a versioned store has no %s format; it has plain and headers", store.ErrConfig, layout)
}

// plan is what the column families on disk mean for the wanted formats, before data
// was looked at.
type plan struct {
	wanted []string // families to open, in the order in which missing ones are made
	legacy []Format // families of older formats that exist, oldest first
}

// newPlan refuses families that the formats do not know: the first unwanted name in
// order of creation decides the message, as in Kafka Streams.
func newPlan(formats []Format, listed []string) (plan, error) {
	target := formats[len(formats)-1]
	var p plan
	for _, f := range formats {
		switch {
		case f == target, f.Family == rocks.Default:
			p.wanted = append(p.wanted, f.Family)
		case slices.Contains(listed, f.Family):
			p.wanted = append(p.wanted, f.Family)
		default:
			continue
		}
		if f != target && slices.Contains(listed, f.Family) {
			p.legacy = append(p.legacy, f)
		}
	}
	p.wanted = append(p.wanted, rocks.Offsets)
	for _, name := range listed {
		if !slices.Contains(p.wanted, name) {
			return plan{}, unwanted(name, target)
		}
	}
	return p, nil
}

// unwanted tells whose family it is that the wanted formats do not have.
func unwanted(name string, target Format) error {
	if name == VersionsFamily && target == plainVersions {
		return fmt.Errorf("%w: it was written by a versioned store with headers and cannot be opened as a plain one; open it with headers, or delete the local state and restore it from the changelog, which serves both formats",
			store.ErrIncompatible)
	}
	for _, f := range []Format{timestampedRows, headersRows} {
		switch {
		case f.Family != name || target.Versions:
		case target.Index != nil:
			return fmt.Errorf("%w: it was written by a %s store that is not time-ordered; open it as that, or delete the local state and restore it from the changelog, which serves both",
				store.ErrIncompatible, f.Layout)
		default:
			return fmt.Errorf("%w: it was written by a %s store and cannot be opened as a %s one; open it as %s, or delete the local state and restore it from the changelog, which serves every format",
				store.ErrIncompatible, f.Layout, target.Layout, f.Layout)
		}
	}
	kind, ok := map[string]string{
		SessionHeadersFamily: "session store with headers",
		WindowHeadersFamily:  "time-ordered window store with headers",
		VersionsFamily:       "versioned store with headers",
	}[name]
	if !ok {
		kind = "store of another kind"
	}
	return fmt.Errorf("%w: it holds the column family %q of a %s; open it as that, or delete the local state and restore it from the changelog",
		store.ErrIncompatible, name, kind)
}
