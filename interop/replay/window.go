package main

import (
	"encoding/json"
	"fmt"
	"iter"

	"github.com/forebay-streams/forebay/store"
	"github.com/forebay-streams/forebay/windowed"
)

// window is the window family.
type window struct {
	*windowed.Store[[]byte, []byte]
	layout store.Layout
}

type windowRow = windowed.Row[[]byte, []byte]

func openWindow(o options, dir string, log store.Changelog) (family, error) {
	layout := layouts[o.format]
	opts := []windowed.Option{
		windowed.Format(layout), windowed.Changelog(log),
		windowed.Size(milliseconds(o.size)), windowed.Retention(milliseconds(o.retention)),
	}
	if o.segment > 0 {
		opts = append(opts, windowed.SegmentInterval(milliseconds(o.segment)))
	}
	if o.duplicates {
		opts = append(opts, windowed.RetainDuplicates())
	}
	if o.ordered != "" {
		opts = append(opts, windowed.TimeOrdered(o.ordered == "index"))
	}
	if o.memory {
		opts = append(opts, windowed.InMemory())
	}
	if o.cache > 0 {
		opts = append(opts, windowed.Cache(store.NewBudget(o.cache)))
	}
	if o.guarantee == exactlyOnceV2 {
		opts = append(opts, windowed.ExactlyOnce())
	}
	s, err := windowed.Open(dir, storeName, store.Bytes(), store.Bytes(), opts...)
	if err != nil {
		return nil, err
	}
	return &window{s, layout}, nil
}

// windowOp is an operation with all its arguments.
type windowOp struct {
	kvRow
	Start int64    `json:"start"`
	K1    hexBytes `json:"k1"`
	K2    hexBytes `json:"k2"`
	From  int64    `json:"from"`
	To    int64    `json:"to"`
	Back  bool     `json:"back"`
}

func (s *window) do(op string, text []byte) (any, error) {
	var a windowOp
	if err := json.Unmarshal(text, &a); err != nil {
		return nil, fmt.Errorf("%w: %w", errScript, err)
	}
	switch op {
	case "put":
		v, err := a.value()
		if err != nil {
			return nil, fmt.Errorf("%w: h: %w", errScript, err)
		}
		return nil, s.Put(a.K, a.Start, v)
	case "fetch":
		v, ok, err := s.Fetch(a.K, a.Start)
		if err != nil || !ok {
			return nil, err
		}
		return newAnswer(s.layout, v), nil
	case "fetchRange":
		rows := s.FetchRange(a.K, a.From, a.To)
		if a.Back {
			rows = s.BackwardFetchRange(a.K, a.From, a.To)
		}
		return list(rows, func(r windowRow) any { return [2]any{r.Start, newAnswer(s.layout, r.Value)} })
	case "fetchKeys":
		if a.Back {
			return s.windows(s.BackwardFetchKeys(a.From, a.To, a.bounds()...))
		}
		return s.windows(s.FetchKeys(a.From, a.To, a.bounds()...))
	case "all":
		if a.Back {
			return s.windows(s.BackwardAll())
		}
		return s.windows(s.All())
	case "fetchAll":
		if a.Back {
			return s.windows(s.BackwardFetchAll(a.From, a.To))
		}
		return s.windows(s.FetchAll(a.From, a.To))
	}
	return nil, fmt.Errorf("%w: no operation %q for a window store", errScript, op)
}

func (a *windowOp) bounds() (b []windowed.Bound[[]byte]) {
	if a.K1 != nil {
		b = append(b, windowed.From([]byte(a.K1)))
	}
	if a.K2 != nil {
		b = append(b, windowed.To([]byte(a.K2)))
	}
	return b
}

func (s *window) windows(rows iter.Seq2[windowRow, error]) (any, error) {
	return list(rows, func(r windowRow) any {
		return [4]any{hexBytes(r.Key), r.Start, r.End, newAnswer(s.layout, r.Value)}
	})
}

// list answers with all rows.
func list[R any](rows iter.Seq2[R, error], answer func(R) any) (any, error) {
	out := []any{}
	for row, err := range rows {
		if err != nil {
			return nil, err
		}
		out = append(out, answer(row))
	}
	return out, nil
}
