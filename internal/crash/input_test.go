package crash

import (
	"fmt"
	"math/rand/v2"

	"github.com/forebay-streams/forebay/store"
)

// input is an endless sequence of operations that a seed determines. Applied again from
// any of its offsets they end in the same rows, as at-least-once needs.
type input struct {
	seed uint64
	keys int
	big  bool // with values that fill memtables
}

type opKind int

const (
	opPut opKind = iota
	opPutAll
	opPutIfAbsent
	opDelete
	opTombstone
	opGet
)

type op struct {
	kind   opKind
	record store.Record
	rows   []store.Change // one but for putAll
}

func (in input) at(i int64) op {
	r := rand.New(rand.NewPCG(in.seed, uint64(i)))
	o := op{record: store.Record{Topic: "in", Partition: int32(i % 2), Offset: i / 2, Timestamp: 1_700_000_000_000 + i, Headers: headers(r)}}
	n := 1
	switch p := r.IntN(100); {
	case p < 50:
		o.kind = opPut
	case p < 60:
		o.kind, n = opPutAll, r.IntN(8)
	case p < 74:
		o.kind = opPutIfAbsent
	case p < 84:
		o.kind = opDelete
	case p < 92:
		o.kind = opTombstone
	default:
		o.kind = opGet
	}
	for range n {
		c := store.Change{Key: in.key(r.IntN(in.keys))}
		if o.kind < opDelete {
			c.Value = in.value(r)
			c.Timestamp = o.record.Timestamp - r.Int64N(1000)
			c.Headers = headers(r)
		}
		o.rows = append(o.rows, c)
	}
	return o
}

// key 0 is the empty key.
func (in input) key(i int) []byte {
	if i == 0 {
		return []byte{}
	}
	return fmt.Appendf(nil, "key-%d", i)
}

// value is often as small as can be: a memtable switch then falls between any two writes.
func (in input) value(r *rand.Rand) []byte {
	n := 0
	switch p := r.IntN(100); {
	case in.big && p < 35:
		n = 128 << 10
	case p < 50:
		n = 1
	case p < 55:
		n = 0
	case p < 98:
		n = 2 + r.IntN(200)
	default:
		n = 2000 + r.IntN(20_000)
	}
	value := make([]byte, n)
	for i := range value {
		value[i] = byte(r.Uint32())
	}
	return value
}

func headers(r *rand.Rand) (h store.Headers) {
	for range r.IntN(4) {
		var value []byte
		if r.IntN(4) > 0 {
			value = fmt.Appendf([]byte{}, "%x", r.Uint32N(1<<16))[r.IntN(2):]
		}
		if err := h.Add([]string{"", "a", "trace"}[r.IntN(3)], value); err != nil {
			panic(err)
		}
	}
	return h
}

// after returns the rows that the first n operations make.
func (in input) after(n int64, layout store.Layout) rows {
	out := rows{}
	for i := range n {
		o := in.at(i)
		for _, c := range o.rows {
			if _, has := out[string(c.Key)]; o.kind == opGet || o.kind == opPutIfAbsent && has {
				continue
			}
			out.apply(c, layout)
		}
	}
	return out
}
