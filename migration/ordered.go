package migration

import (
	"fmt"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/internal/windowkey"
	"github.com/forebay-streams/forebay/store"
)

// Session stores with headers have one family name for two kinds of rows. That of a
// time-ordered store is known by its rows: each base row has an index row, whose value is
// empty or headers alone.

// refuseKind fails when the rows of a session store with headers are of the other kind.
func refuseKind(db *rocks.DB, f Format) error {
	if f != sessionHeadersRows {
		return nil // rows of the other kind are refused one by one
	}
	ordered, err := timeOrdered(db, db.Family(f.Family))
	if err == nil && ordered {
		err = fmt.Errorf("%w: these are the rows of a time-ordered store; say so with TimeOrdered", store.ErrIncompatible)
	}
	return err
}

// timeOrdered tells whether all rows can be those of a time-ordered session store, and
// one of them can be nothing else.
func timeOrdered(db *rocks.DB, f *rocks.Family) (yes bool, err error) {
	scan := db.Scan(f, base.Span{})
	defer scan.Close()
	for scan.Next() {
		fits, err := fitsTimeOrdered(db, scan.Key(), scan.Value())
		if err != nil || !fits {
			return false, err
		}
		// With an empty key, which no record has, the rows would look like those of the keys
		// 00 and 01.
		r, ok := windowkey.SessionBase.Parse(scan.Key())
		yes = yes || ok && len(r.Key) > 0
	}
	return yes, scan.Err()
}

func fitsTimeOrdered(db *rocks.DB, key, value []byte) (bool, error) {
	if r, ok := windowkey.SessionBase.Parse(key); ok {
		return hasSession(db, windowkey.SessionIndex.Append(nil, r))
	}
	r, ok := windowkey.SessionIndex.Parse(key)
	if !ok || len(value) == 0 {
		return ok, nil // Kafka Streams leaves some behind whose base row is gone
	}
	if row, err := store.Aggregation.Decode(value); err != nil || len(row.Value) > 0 {
		return false, nil
	}
	return hasSession(db, windowkey.SessionBase.Append(nil, r))
}

// hasSession looks into both families: an interrupted downgrade has moved base rows first.
func hasSession(db *rocks.DB, key []byte) (ok bool, err error) {
	for _, f := range sessionRows {
		if family := db.Family(f.Family); family != nil && !ok && err == nil {
			ok, err = db.Has(family, key)
		}
	}
	return ok, err
}

// refuseRow fails when a row cannot be one of its format's kind of store.
func (f Format) refuseRow(db *rocks.DB, key, value []byte) (err error) {
	fits := f.Index.fits(key)
	if fits && f.Index != nil && f.Index.Headers {
		fits, err = fitsTimeOrdered(db, key, value)
	}
	if err == nil && !fits {
		err = fmt.Errorf("%w: the row %x is none of a time-ordered store, as its column family or TimeOrdered says", store.ErrIncompatible, key)
	}
	return err
}

// fits tells whether a key can be that of a base or an index row; i may be nil.
func (i *Index) fits(key []byte) bool {
	switch {
	case i == nil:
		return true
	case i.Has(key):
		b := i.Base(nil, key)
		return b[0] == basePrefix
	}
	return i.Has(i.Of(nil, key))
}
