package family

import (
	"iter"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/store"
)

// Reader is the overlay or a view of it.
type Reader interface {
	Get(key []byte, scratch *[]byte) (store.Row, bool, error)
	Scan(base.Span) base.Cursor
}

// Scan is a sequence of typed rows. open is called when the loop begins; the cursor is
// closed however the loop is left.
func Scan[R any](c *Core, open func(*Scratch) (base.Cursor, error), decode func(s *Scratch, key []byte, row *store.Row, out *R) error) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		var none R
		if err := c.Check("scan"); err != nil {
			yield(none, err)
			return
		}
		var s Scratch
		var row R // decode sets all of it
		cursor, err := open(&s)
		if err != nil {
			yield(none, c.Fail("scan", err))
			return
		}
		c.open.Add(1)
		defer func() {
			cursor.Close()
			c.open.Add(-1)
		}()
		stepper, _ := cursor.(base.Stepper)
		for {
			key, found, ok := step(cursor, stepper)
			if !ok {
				break
			}
			if err := decode(&s, key, found, &row); err != nil {
				yield(none, c.Fail("scan", err))
				return
			}
			if !yield(row, nil) {
				return
			}
		}
		if err := cursor.Err(); err != nil {
			yield(none, c.Fail("scan", err))
		}
	}
}

func step(c base.Cursor, s base.Stepper) (key []byte, row *store.Row, ok bool) {
	if s != nil {
		return s.Step()
	}
	if !c.Next() {
		return nil, nil, false
	}
	return c.Key(), c.Row(), true
}
