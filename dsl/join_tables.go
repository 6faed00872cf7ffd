package dsl

import (
	"cmp"

	"github.com/forebay-streams/forebay/dsl/internal/engine"
	"github.com/forebay-streams/forebay/store"
)

// JoinTables is the table of the keys that both tables have. The join function makes the
// value out of both; nil from it is no row. An update of either side updates the result,
// with the larger of both timestamps. The result has a store only with [As] or another
// store option. A nil serde is the one known for the type.
func JoinTables[K, L, R, V any](left *Table[K, L], right *Table[K, R], join func(left L, right R) V, value store.Serde[V], options ...StoreOption) *Table[K, V] {
	return joinTables(left, right, joiner(join), tableJoin{needLeft: true, needRight: true}, value, options).needs("JoinTables", join != nil)
}

// LeftJoinTables is [JoinTables] of all keys that the left table has. A value that the right
// one has not is the zero value for the join function: nil, if R can be nil.
func LeftJoinTables[K, L, R, V any](left *Table[K, L], right *Table[K, R], join func(left L, right R) V, value store.Serde[V], options ...StoreOption) *Table[K, V] {
	return joinTables(left, right, joiner(join), tableJoin{needLeft: true}, value, options).needs("LeftJoinTables", join != nil)
}

// OuterJoinTables is [JoinTables] of all keys that any of the tables has. A value that one of
// them has not is the zero value for the join function: nil, if its type can be nil.
func OuterJoinTables[K, L, R, V any](left *Table[K, L], right *Table[K, R], join func(left L, right R) V, value store.Serde[V], options ...StoreOption) *Table[K, V] {
	return joinTables(left, right, joiner(join), tableJoin{}, value, options).needs("OuterJoinTables", join != nil)
}

// joiner is a join function without types. What is missing is nil, and the zero value for
// the function.
func joiner[L, R, V any](join func(L, R) V) func(left, right any) any {
	return func(left, right any) any { return box(join(as[L](left), as[R](right))) }
}

// tableJoin says which sides a row of the result needs, and how it is made.
type tableJoin struct {
	needLeft, needRight bool
	join                func(left, right any) any
}

// row is the result's value, nil if there is none.
func (j *tableJoin) row(left, right any) any {
	if j.needLeft && left == nil || j.needRight && right == nil || left == nil && right == nil {
		return nil
	}
	return j.join(left, right)
}

func joinTables[K, L, R, V any](left *Table[K, L], right *Table[K, R], join func(left, right any) any, j tableJoin, value store.Serde[V], options []StoreOption) *Table[K, V] {
	left, right = left.orEmpty(), right.orEmpty()
	b, s := cmp.Or(left.b, right.b), collect(options)
	j.join = join
	if s.materialized && s.store == "" {
		s.store = b.name("KTABLE-MERGE-STATE-STORE-")
	}
	name := b.nameOr(s.name, "KTABLE-MERGE-")
	thisName := b.nameOr(suffixed(s.name, "-join-this"), "KTABLE-JOINTHIS-")
	otherName := b.nameOr(suffixed(s.name, "-join-other"), "KTABLE-JOINOTHER-")
	b.takes(name, left.b, right.b)
	value = known(value)
	if !j.needRight {
		left.state.enableOld(true)
	}
	if !j.needLeft {
		right.state.enableOld(true)
	}
	sendOld := false
	side := func(name string, this *engine.Node, other viewSource, isLeft bool) *engine.Node {
		n := b.processor(name, func() engine.Processor {
			return &tableJoinSide{join: j, left: isLeft, open: other.open, sendOld: sendOld}
		}, this)
		n.Connect(other.stores...)
		return n
	}
	leftView, rightView := left.state.view(), right.state.view()
	this := side(thisName, left.node, rightView, true)
	other := side(otherName, right.node, leftView, false)

	out := &Table[K, V]{b: b, key: left.key, value: value, windows: later(left.windows, right.windows)}
	var open opener
	out.node = b.processor(name, func() engine.Processor { return &tableSource{open: open, sendOld: sendOld} }, this, other)
	if s.store != "" {
		st, opens := keyValue(b, name, s.store, left.key, value, s)
		out.node.Connect(st)
		open = opens
		out.state = ownState(st, open, s, &sendOld)
		return out
	}
	out.state = &tableState{
		enableOld: func(force bool) bool {
			sendOld = sendOld || left.state.enableOld(force) && right.state.enableOld(force)
			return sendOld
		},
		view: func() viewSource {
			return viewSource{append(leftView.stores[:len(leftView.stores):len(leftView.stores)], rightView.stores...), func(c *engine.Context) (view, error) {
				l, err := leftView.open(c)
				if err != nil {
					return nil, err
				}
				r, err := rightView.open(c)
				return &joinView{l, r, j}, err
			}}
		},
	}
	return out
}

// later is the longer wait for windows of two tables that are joined.
func later(a, b *closing) *closing {
	if a == nil || b != nil && b.wait > a.wait {
		return b
	}
	if b != nil && b.wait == a.wait && b.inclusive {
		return b
	}
	return a
}

// tableJoinSide joins the changes of one table with the rows of the other.
type tableJoinSide struct {
	c       *engine.Context
	join    tableJoin
	left    bool // the changes are the left table's
	open    func(*engine.Context) (view, error)
	other   view
	sendOld bool
}

func (p *tableJoinSide) Init(c *engine.Context) (err error) {
	p.c = c
	p.other, err = p.open(c)
	return err
}

const stale = "not the latest of its key in a versioned table"

func (p *tableJoinSide) Process(r engine.Record) error {
	switch {
	case r.Key == nil:
		p.c.Drop(nullKey)
		return nil
	case r.Stale:
		p.c.Drop(stale)
		return nil
	}
	other, ok, err := p.other.get(p.c.Record(), r.Key)
	if err != nil {
		return err
	}
	if !ok && (p.needOther() || r.Value == nil && r.Old == nil) {
		return nil // there was no row, and there is none
	}
	if ok {
		r.Timestamp = max(r.Timestamp, other.timestamp)
	}
	r.Value = p.row(r.Value, other.value)
	if p.sendOld {
		r.Old = p.row(r.Old, other.value)
	} else {
		r.Old = nil
	}
	return p.c.Forward(r)
}

func (p *tableJoinSide) needOther() bool {
	if p.left {
		return p.join.needRight
	}
	return p.join.needLeft
}

func (p *tableJoinSide) row(this, other any) any {
	if p.left {
		return p.join.row(this, other)
	}
	return p.join.row(other, this)
}

// joinView computes rows of a join that has no store: without headers.
type joinView struct {
	left, right view
	join        tableJoin
}

func (v *joinView) get(in store.Record, key any) (row, bool, error) {
	left, leftOK, err := v.left.get(in, key)
	if err != nil {
		return row{}, false, err
	}
	right, rightOK, err := v.right.get(in, key)
	if err != nil {
		return row{}, false, err
	}
	out := row{timestamp: store.NoTimestamp}
	if leftOK {
		out.timestamp = left.timestamp
	}
	if rightOK {
		out.timestamp = max(out.timestamp, right.timestamp)
	}
	out.value = v.join.row(left.value, right.value)
	return out, out.value != nil, nil
}

// getAsOf is get: a join has no history.
func (v *joinView) getAsOf(in store.Record, key any, _ int64) (row, bool, error) {
	return v.get(in, key)
}
