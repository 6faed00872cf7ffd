package memory

import (
	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/store"
)

// comb walks over the teeth of a comb, from one that has rows to the next.
type comb struct {
	cursor
	comb base.Comb
	buf  []byte // of seeks
}

func (c *comb) Next() bool {
	if c.done || c.err != nil {
		return false
	}
	var ok bool
	switch {
	case !c.started:
		c.started = true
		ok = c.seek(c.comb.Start(c.buf))
	case c.comb.Reverse:
		ok = c.iter.Prev()
	default:
		ok = c.iter.Next()
	}
	for ok {
		step, seek := c.comb.Step(c.buf, c.iter.Item().Key)
		if step == base.CombTake {
			c.item = c.iter.Item()
			return true
		}
		ok = step == base.CombSeek && c.seek(seek)
	}
	c.done, c.item = true, store.Change{}
	return false
}

func (c *comb) seek(key []byte) bool {
	if key != nil {
		c.buf = key
	}
	switch {
	case !c.comb.Reverse:
		return c.iter.Seek(store.Change{Key: key})
	case key == nil || !c.iter.Seek(store.Change{Key: key}):
		return c.iter.Last()
	}
	return c.iter.Prev()
}
