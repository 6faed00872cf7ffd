package migration

import (
	"fmt"
	"slices"

	"github.com/forebay-streams/forebay/internal/rocks"
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

// KeyValueFormats returns the formats of a key-value store or window segment of that
// layout: the one it writes last, before it those it can upgrade from, oldest first.
func KeyValueFormats(layout store.Layout) ([]Format, error) {
	all := []Format{plainRows, timestampedRows, headersRows}
	for i, f := range all {
		if f.Layout == layout {
			return all[: i+1 : i+1], nil
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

func unwanted(name string, target Format) error {
	if name == VersionsFamily && target == plainVersions {
		return fmt.Errorf("%w: it was written by a versioned store with headers and cannot be opened as a plain one; open it with headers, or delete the local state and restore it from the changelog, which serves both formats",
			store.ErrIncompatible)
	}
	for _, f := range []Format{timestampedRows, headersRows} {
		if f.Family == name && !target.Versions {
			return fmt.Errorf("%w: it was written by a %s store and cannot be opened as a %s one; open it as %s, or delete the local state and restore it from the changelog, which serves every format",
				store.ErrIncompatible, f.Layout, target.Layout, f.Layout)
		}
	}
	return fmt.Errorf("%w: it holds the column family %q of a store of another kind; open it as that, or delete the local state and restore it from the changelog", store.ErrIncompatible, name)
}
