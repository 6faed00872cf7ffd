package main

import (
	"encoding/json"
	"fmt"
	"iter"

	"github.com/forebay-streams/forebay/kv"
	"github.com/forebay-streams/forebay/store"
)

// keyValue is the key-value family.
type keyValue struct {
	*kv.Store[[]byte, []byte]
	layout store.Layout
}

func openKeyValue(o options, dir string, log store.Changelog) (family, error) {
	layout := layouts[o.format]
	opts := []kv.Option{kv.Format(layout), kv.Changelog(log)}
	if o.memory {
		opts = append(opts, kv.InMemory())
	}
	if o.cache > 0 {
		opts = append(opts, kv.Cache(store.NewBudget(o.cache)))
	}
	if o.guarantee == exactlyOnceV2 {
		opts = append(opts, kv.ExactlyOnce())
	}
	s, err := kv.Open(dir, storeName, store.Bytes(), store.Bytes(), opts...)
	if err != nil {
		return nil, err
	}
	return &keyValue{s, layout}, nil
}

// kvRow is a key with what is put under it.
type kvRow struct {
	K  hexBytes   `json:"k,omitzero"`
	V  hexBytes   `json:"v,omitzero"`
	TS int64      `json:"ts,omitzero"`
	H  headerList `json:"h,omitzero"`
}

// kvOp is an operation with all its arguments.
type kvOp struct {
	kvRow
	Rows []kvRow  `json:"rows,omitzero"`
	From hexBytes `json:"from,omitzero"`
	To   hexBytes `json:"to,omitzero"`
	P    hexBytes `json:"p,omitzero"`
}

func (r *kvRow) value() (v store.Value[[]byte], err error) {
	v.Data, v.Timestamp = r.V, r.TS
	v.Headers, err = r.H.headers()
	return v, err
}

func (s *keyValue) do(op string, text []byte) (any, error) {
	var a kvOp
	if err := json.Unmarshal(text, &a); err != nil {
		return nil, fmt.Errorf("%w: %w", errScript, err)
	}
	v, err := a.value()
	if err != nil {
		return nil, fmt.Errorf("%w: h: %w", errScript, err)
	}
	switch op {
	case "put":
		return nil, s.Put(a.K, v)
	case "putIfAbsent":
		return s.optional(s.PutIfAbsent(a.K, v))
	case "putAll":
		rows := make([]kv.Row[[]byte, []byte], len(a.Rows))
		for i := range a.Rows {
			rows[i].Key = a.Rows[i].K
			if rows[i].Value, err = a.Rows[i].value(); err != nil {
				return nil, fmt.Errorf("%w: rows: h: %w", errScript, err)
			}
		}
		return nil, s.PutAll(rows...)
	case "delete":
		return s.optional(s.Delete(a.K))
	case "get":
		return s.optional(s.Get(a.K))
	case "range":
		return s.list(s.Range(bounds(a)...))
	case "reverseRange":
		return s.list(s.ReverseRange(bounds(a)...))
	case "all":
		return s.list(s.All())
	case "reverseAll":
		return s.list(s.ReverseAll())
	case "prefix":
		return s.list(s.Prefix(a.P))
	}
	return nil, fmt.Errorf("%w: no operation %q for a key-value store", errScript, op)
}

func bounds(a kvOp) (b []kv.Bound[[]byte]) {
	if a.From != nil {
		b = append(b, kv.From([]byte(a.From)))
	}
	if a.To != nil {
		b = append(b, kv.To([]byte(a.To)))
	}
	return b
}

// optional answers null for no value.
func (s *keyValue) optional(v store.Value[[]byte], ok bool, err error) (any, error) {
	if err != nil || !ok {
		return nil, err
	}
	return newAnswer(s.layout, v), nil
}

func (s *keyValue) list(rows iter.Seq2[kv.Row[[]byte, []byte], error]) (any, error) {
	answer := [][2]any{}
	for row, err := range rows {
		if err != nil {
			return nil, err
		}
		answer = append(answer, [2]any{hexBytes(row.Key), newAnswer(s.layout, row.Value)})
	}
	return answer, nil
}
