package main

import (
	"encoding/json"
	"fmt"

	"github.com/forebay-streams/forebay/session"
	"github.com/forebay-streams/forebay/store"
)

// sessions is the session family.
type sessions struct {
	*session.Store[[]byte, []byte]
	layout store.Layout
}

type sessionRow = session.Row[[]byte, []byte]

func openSession(o options, dir string, log store.Changelog) (family, error) {
	opts := []session.Option{
		session.Format(layouts[o.format]), session.Changelog(log), session.Retention(milliseconds(o.retention)),
	}
	if o.segment > 0 {
		opts = append(opts, session.SegmentInterval(milliseconds(o.segment)))
	}
	if o.ordered != "" {
		opts = append(opts, session.TimeOrdered(o.ordered == "index"))
	}
	if o.memory {
		opts = append(opts, session.InMemory())
	}
	if o.cache > 0 {
		opts = append(opts, session.Cache(store.NewBudget(o.cache)))
	}
	if o.guarantee == exactlyOnceV2 {
		opts = append(opts, session.ExactlyOnce())
	}
	s, err := session.Open(dir, storeName, store.Bytes(), store.Bytes(), opts...)
	if err != nil {
		return nil, err
	}
	return &sessions{s, sessionLayout(o.format)}, nil
}

// sessionLayout is what an answer shows: no session has a timestamp.
func sessionLayout(format string) store.Layout {
	if layouts[format].HasHeaders() {
		return store.Aggregation
	}
	return store.Plain
}

// sessionOp is an operation with all its arguments.
type sessionOp struct {
	kvRow
	Start  int64    `json:"start"` // of finds: the latest start
	End    int64    `json:"end"`   // of finds: the earliest end
	Latest int64    `json:"latest"`
	K1     hexBytes `json:"k1"`
	K2     hexBytes `json:"k2"`
	Back   bool     `json:"back"`
}

func (s *sessions) do(op string, text []byte) (any, error) {
	var a sessionOp
	if err := json.Unmarshal(text, &a); err != nil {
		return nil, fmt.Errorf("%w: %w", errScript, err)
	}
	switch op {
	case "put":
		v, err := a.value()
		if err != nil {
			return nil, fmt.Errorf("%w: h: %w", errScript, err)
		}
		return nil, s.Put(a.K, a.Start, a.End, v)
	case "remove":
		return nil, s.Remove(a.K, a.Start, a.End)
	case "fetchSession":
		v, ok, err := s.FetchSession(a.K, a.Start, a.End)
		if err != nil || !ok {
			return nil, err
		}
		return newAnswer(s.layout, v), nil
	}
	find, findKeys, fetch, fetchKeys := s.FindSessions, s.FindKeys, s.Fetch, s.FetchKeys
	if a.Back {
		find, findKeys, fetch, fetchKeys = s.BackwardFindSessions, s.BackwardFindKeys, s.BackwardFetch, s.BackwardFetchKeys
	}
	switch op {
	case "find":
		return list(find(a.K, a.End, a.Start), s.answer)
	case "findKeys":
		return list(findKeys(a.End, a.Start, a.bounds()...), s.answer)
	case "fetchKey":
		return list(fetch(a.K), s.answer)
	case "fetchKeys":
		return list(fetchKeys(a.bounds()...), s.answer)
	case "findTime":
		return list(s.FindByEnd(a.End, a.Latest), s.answer)
	}
	return nil, fmt.Errorf("%w: no operation %q for a session store", errScript, op)
}

func (a *sessionOp) bounds() (b []session.Bound[[]byte]) {
	if a.K1 != nil {
		b = append(b, session.From([]byte(a.K1)))
	}
	if a.K2 != nil {
		b = append(b, session.To([]byte(a.K2)))
	}
	return b
}

func (s *sessions) answer(r sessionRow) any {
	return [4]any{hexBytes(r.Key), r.Start, r.End, newAnswer(s.layout, r.Value)}
}
