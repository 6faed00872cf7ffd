package migration

import (
	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/store"
)

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

func (c *cursor) Next() bool {
	if c.err != nil {
		return false
	}
	key, value, ok := c.scan.Step()
	c.key = key
	if !ok {
		return false
	}
	c.err = c.source.decode(key, value, &c.row)
	return c.err == nil
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
