package migration

import (
	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/store"
)

var _ base.Stepper = (*cursor)(nil)

// cursor decodes the rows of one family.
type cursor struct {
	source *source
	scan   *rocks.Scan
	key    []byte
	row    store.Row
	err    error
}

func (s *source) cursor(g getter, span base.Span) *cursor {
	return &cursor{source: s, scan: g.Scan(s.family, span)}
}

func (c *cursor) Next() (ok bool) {
	c.key, _, ok = c.Step()
	return ok
}

func (c *cursor) Step() (key []byte, row *store.Row, ok bool) {
	if c.err != nil {
		return nil, nil, false
	}
	key, value, ok := c.scan.Step()
	if !ok {
		return nil, nil, false
	}
	c.err = c.source.decode(key, value, &c.row)
	return key, &c.row, c.err == nil
}

func (c *cursor) Key() []byte     { return c.key }
func (c *cursor) Row() *store.Row { return &c.row }

func (c *cursor) Err() error {
	if c.err == nil {
		return c.scan.Err()
	}
	return c.err
}

func (c *cursor) Close() { c.scan.Close() }
