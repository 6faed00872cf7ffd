package crash

import (
	"fmt"
	"maps"

	"github.com/forebay-streams/forebay/internal/subject"
	"github.com/forebay-streams/forebay/kv"
	"github.com/forebay-streams/forebay/store"
)

// rowsContent is that of a key-value store.
type rowsContent struct {
	*worker
	kv    *kv.Store[[]byte, []byte]
	input input
	base  origin
	// shadow is what the store's owner must see, undo what it saw of changed keys at the
	// last commit.
	shadow rows
	undo   map[string]*store.Row
}

func (c *rowsContent) open(config subject.Config) (s subject.Store, err error) {
	v := c.Variant
	c.input = input{v.InputSeed, v.Keys, v.Big}
	c.undo = map[string]*store.Row{}
	c.base.offset = c.Base
	if c.base.rows, err = readRows(c.path("base")); err != nil {
		return nil, err
	}
	s, c.kv, err = subject.OpenKV(taskDir(c.Dir), storeName, config)
	return s, err
}

func (c *rowsContent) load(log view, from int64) error {
	c.shadow = c.base.replay(log, from, c.Layout)
	return c.check(fmt.Sprintf("before the restore, at changelog offset %d", from))
}

func (c *rowsContent) restored(r logged) { c.shadow.apply(r.change, c.Layout) }

func (c *rowsContent) whole(when string, n int64) error {
	same := equal
	if len(c.Eras) > 0 {
		same = sameValue
	}
	return differ(compare(c.input.after(n, c.Layout), c.shadow, same), "%s: the rows are not those of the input up to %d", when, n)
}

func (c *rowsContent) settle(committed bool) {
	if !committed {
		c.shadow = c.lastCommit()
	}
	clear(c.undo)
}

// lastCommit is the shadow as of the last commit.
func (c *rowsContent) lastCommit() rows {
	out := maps.Clone(c.shadow)
	for key, row := range c.undo {
		if row == nil {
			delete(out, key)
		} else {
			out[key] = *row
		}
	}
	return out
}

func (c *rowsContent) check(when string) error {
	return c.compare(when+": the store's rows", c.shadow, c.store)
}

func (c *rowsContent) committed(when string) error {
	return c.compare(when+": the committed rows", c.lastCommit(), c.store.View(store.ReadCommitted))
}

func (c *rowsContent) failedCommit(when string) error { return c.committed(when) }

func (c *rowsContent) compare(what string, want rows, from subject.Reader) error {
	all, err := from.Rows(nil)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	got := rows{}
	for place, v := range all {
		got[place.Key] = rowOf(v)
	}
	return differ(compare(want, got, equal), "%s are not those of the model", what)
}

func rowOf(v subject.Value) store.Row {
	return store.Row{Value: v.Data, Timestamp: v.Timestamp, Headers: v.Headers}
}

// step does an operation, and compares what it says with the shadow.
func (c *rowsContent) step(n int64) error {
	s, o := c.kv, c.input.at(n)
	s.SetRecord(o.record)
	if o.kind == opPutAll {
		list := make([]kv.Row[[]byte, []byte], len(o.rows))
		for i, row := range o.rows {
			list[i] = kv.Row[[]byte, []byte]{Key: row.Key, Value: valueOf(row.Row)}
			c.write(o, row)
		}
		return s.PutAll(list...)
	}
	row := o.rows[0]
	var old store.Value[[]byte]
	var present, answers bool
	var err error
	switch o.kind {
	case opPut:
		err = s.Put(row.Key, valueOf(row.Row))
	case opPutIfAbsent:
		old, present, err = s.PutIfAbsent(row.Key, valueOf(row.Row))
		answers = true
	case opDelete:
		old, present, err = s.Delete(row.Key)
		answers = true
	case opTombstone:
		err = s.Tombstone(row.Key)
	case opGet:
		old, present, err = s.Get(row.Key)
		answers = true
	}
	if err != nil {
		return err
	}
	if answers {
		want, got := rows{}, rows{}
		if r, ok := c.shadow[string(row.Key)]; ok {
			want[string(row.Key)] = r
		}
		if present {
			got[string(row.Key)] = rowOf(old)
		}
		if d := compare(want, got, equal); d.any() {
			return differ(d, "input %d: the store answered with another row", n)
		}
	}
	if o.kind != opGet && !(o.kind == opPutIfAbsent && present) {
		c.write(o, row)
	}
	return nil
}

func valueOf(r store.Row) store.Value[[]byte] {
	return store.Value[[]byte]{Data: r.Value, Timestamp: r.Timestamp, Headers: r.Headers}
}

func (c *rowsContent) write(o op, change store.Change) {
	key := string(change.Key)
	if _, ok := c.undo[key]; !ok {
		c.undo[key] = nil
		if row, ok := c.shadow[key]; ok {
			c.undo[key] = &row
		}
	}
	c.shadow.apply(change, c.Layout)
	c.position.Advance(o.record.Topic, o.record.Partition, o.record.Offset)
}
