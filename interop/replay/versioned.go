package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/forebay-streams/forebay/store"
	"github.com/forebay-streams/forebay/versioned"
)

// versionedStore is the versioned family.
type versionedStore struct {
	*versioned.Store[[]byte, []byte]
	layout store.Layout
}

func openVersioned(o options, dir string, log store.Changelog) (family, error) {
	layout := layouts[o.format]
	opts := []versioned.Option{versioned.Format(layout), versioned.Changelog(log), versioned.History(milliseconds(o.retention))}
	if o.segment > 0 {
		opts = append(opts, versioned.SegmentInterval(milliseconds(o.segment)))
	}
	if o.memory {
		opts = append(opts, versioned.InMemory())
	}
	if o.guarantee == exactlyOnceV2 {
		opts = append(opts, versioned.ExactlyOnce())
	}
	s, err := versioned.Open(dir, storeName, store.Bytes(), store.Bytes(), opts...)
	if err != nil {
		return nil, err
	}
	return &versionedStore{s, layout}, nil
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// versionedOp is an operation with all its arguments.
type versionedOp struct {
	kvRow
	AsOf  int64  `json:"asOf"`
	From  int64  `json:"from"`
	To    int64  `json:"to"`
	Order string `json:"order"`
}

func (s *versionedStore) do(op string, text []byte) (any, error) {
	var a versionedOp
	if err := json.Unmarshal(text, &a); err != nil {
		return nil, fmt.Errorf("%w: %w", errScript, err)
	}
	switch op {
	case "put":
		v, err := a.value()
		if err != nil {
			return nil, fmt.Errorf("%w: h: %w", errScript, err)
		}
		placed, err := s.Put(a.K, v)
		return int64(placed), err // the number that Kafka Streams answers
	case "delete":
		return s.optional(s.Delete(a.K, a.TS))
	case "get":
		return s.optional(s.Get(a.K))
	case "getAsOf":
		return s.optional(s.GetAsOf(a.K, a.AsOf))
	case "history":
		order := versioned.Descending
		if a.Order == "asc" {
			order = versioned.Ascending
		}
		answer := []*answerVersion{}
		for v, err := range s.History(a.K, a.From, a.To, order) {
			if err != nil {
				return nil, err
			}
			answer = append(answer, s.answer(v))
		}
		return answer, nil
	}
	return nil, fmt.Errorf("%w: no operation %q for a versioned store", errScript, op)
}

// answerVersion is a version in an answer.
type answerVersion struct {
	V  hexBytes    `json:"v"`
	TS int64       `json:"ts"`
	To *int64      `json:"to,omitempty"`
	H  *headerList `json:"h,omitempty"`
}

func (s *versionedStore) answer(v versioned.Version[[]byte]) *answerVersion {
	a := &answerVersion{V: v.Data, TS: v.Timestamp}
	if !v.Latest() {
		a.To = &v.ValidTo
	}
	if s.layout.HasHeaders() {
		h := listHeaders(v.Headers)
		a.H = &h
	}
	return a
}

// optional answers null for no version.
func (s *versionedStore) optional(v versioned.Version[[]byte], ok bool, err error) (any, error) {
	if err != nil || !ok {
		return nil, err
	}
	return s.answer(v), nil
}
