package dsl

import (
	"github.com/forebay-streams/forebay/dsl/internal/engine"
	"github.com/forebay-streams/forebay/dsl/internal/window"
)

// slidingAggregate folds records into sliding windows.
type slidingAggregate struct {
	windowAggregate
	plan window.Sliding
}

func (p *slidingAggregate) Process(r engine.Record) error {
	if r.Key == nil || r.Value == nil {
		p.c.Drop(nullKeyOrValue)
		return nil
	}
	p.streamTime = max(p.streamTime, r.Timestamp)
	if p.plan.Late(r.Timestamp, p.streamTime) {
		p.c.Drop(tooLate)
		return nil
	}
	if p.final && p.plan.EmitsAt(r.Timestamp) {
		// Before this record is put: its put may hide, or expire, what closes now.
		if err := p.emission.due(p.plan.CloseTime(p.streamTime), r.Timestamp+1-p.retention, p.plan.Emit, p.emit); err != nil {
			return err
		}
	}
	found, rows, err := p.find(r)
	if err != nil {
		return err
	}
	for _, step := range p.plan.Plan(found, r.Timestamp, p.streamTime) {
		if err := p.step(r, step, rows); err != nil {
			return err
		}
	}
	return nil
}

// find reads the windows around a record.
func (p *slidingAggregate) find(r engine.Record) (found []window.Found, rows []row, err error) {
	in := p.c.Record()
	k, err := p.rows.lookup(p.rows.topic, in.Headers, r.Key)
	if err != nil {
		return nil, nil, err
	}
	scan := p.plan.Search(r.Timestamp)
	for w, err := range p.rows.store.FetchRange(k, scan.From, scan.To) {
		if err != nil {
			return nil, nil, err
		}
		read, err := p.rows.read(p.rows.topic, in.Headers, w.Clone().Value)
		if err != nil {
			return nil, nil, err
		}
		found = append(found, window.Found{Start: w.Start, Newest: read.timestamp})
		rows = append(rows, read)
	}
	return found, rows, nil
}

func (p *slidingAggregate) step(r engine.Record, step window.Step, rows []row) error {
	var base row
	ok := step.From != window.Initial
	if ok {
		base = rows[step.From]
	}
	var old any
	if step.Action == window.Update {
		old = base.value
	}
	if step.Action == window.Copy {
		out, err := p.rows.copyTo(p.c.Record(), r.Key, step.Span.Start, base)
		if err != nil || p.cached || p.final {
			return err
		}
		return p.forward(r.Key, step.Span, base.value, base.timestamp, out, nil)
	}
	timestamp := r.Timestamp
	if ok && step.Action == window.Update {
		timestamp = max(timestamp, base.timestamp)
	}
	return p.write(r, step.Span, p.fold.with(r, base, ok), timestamp, stored(base, ok), old)
}

const nullKeyOrValue = "no key or no value"
