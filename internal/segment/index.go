package segment

import (
	"bytes"
	"slices"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

// Key ranges of time-ordered segments.
var (
	baseRows  = base.Prefix([]byte{0})
	indexRows = base.Prefix([]byte{1})
)

// lacksIndex tells whether the older rows were written by a store without an index.
func (t *Table) lacksIndex(table *migration.Table) (bool, error) {
	based, err := table.HasLegacy(baseRows)
	if err != nil || !based {
		return false, err
	}
	indexed, err := table.HasLegacy(indexRows)
	return !indexed, err
}

// enter opens the scan of a part. A scan over index rows shows them with the rows that
// they stand for.
func (t *Table) enter(p *part) base.Cursor {
	switch {
	case t.index.Has(p.span.From) && p.segment.unindexed && p.segment.Migrating():
		return t.reindex(p.snapshot, p.span)
	case t.index.Has(p.span.From):
		return &indexed{Cursor: p.snapshot.Scan(p.span), table: t, reader: p.snapshot}
	case t.index != nil && t.index.Headers:
		return &whole{Cursor: p.snapshot.Scan(p.span), table: t, reader: p.snapshot}
	}
	return p.snapshot.Scan(p.span)
}

// indexed shows an index row as the base row it stands for, and passes over those that
// stand for none: Kafka Streams leaves them behind when a window is deleted.
type indexed struct {
	base.Cursor
	table        *Table
	reader       base.Reader
	key, scratch []byte
	row          store.Row
	err          error
}

func (c *indexed) Next() bool {
	for c.err == nil && c.Cursor.Next() {
		index := c.table.index
		c.key = index.Base(c.key[:0], c.Cursor.Key())
		var ok bool
		if c.row, ok, c.err = c.reader.Get(c.key, &c.scratch); !ok {
			continue
		}
		if index.Headers {
			c.row.Headers = c.Cursor.Row().Headers
		}
		return true
	}
	return false
}

func (c *indexed) Row() *store.Row { return &c.row }

func (c *indexed) Err() error {
	if c.err != nil {
		return c.err
	}
	return c.Cursor.Err()
}

// whole shows base rows with the headers that their index rows have.
type whole struct {
	base.Cursor
	table   *Table
	reader  base.Reader
	key     []byte
	scratch []byte
	row     store.Row
	err     error
}

func (c *whole) Next() bool {
	if c.err != nil || !c.Cursor.Next() {
		return false
	}
	c.row = *c.Cursor.Row()
	if c.table.index.Has(c.Cursor.Key()) {
		return true
	}
	c.key = c.table.index.Of(c.key[:0], c.Cursor.Key())
	entry, ok, err := c.reader.Get(c.key, &c.scratch)
	if c.err = err; ok {
		c.row.Headers = entry.Headers
	}
	return err == nil
}

func (c *whole) Row() *store.Row { return &c.row }

func (c *whole) Err() error {
	if c.err != nil {
		return c.err
	}
	return c.Cursor.Err()
}

// reindex serves a scan over index rows in a segment that has none for its older rows:
// from the base rows, sorted.
func (t *Table) reindex(r base.Reader, span base.Span) base.Cursor {
	scan := r.Scan(baseRows)
	if t.index.Headers { // rows that were written since the upgrade have some
		scan = &whole{Cursor: scan, table: t, reader: r}
	}
	defer scan.Close()
	var rows []store.Change
	for scan.Next() {
		if key := t.index.Of(nil, scan.Key()); span.Contains(key) {
			rows = append(rows, store.Change{Key: key, Row: scan.Row().Clone()})
		}
	}
	if err := scan.Err(); err != nil {
		return base.Failed(err)
	}
	slices.SortFunc(rows, func(a, b store.Change) int { return bytes.Compare(a.Key, b.Key) })
	if span.Reverse {
		slices.Reverse(rows)
	}
	return base.Slice(rows)
}
