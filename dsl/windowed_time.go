package dsl

import (
	"github.com/forebay-streams/forebay/dsl/internal/engine"
	"github.com/forebay-streams/forebay/dsl/internal/window"
)

// timeAggregate folds records into tumbling or hopping windows.
type timeAggregate struct {
	windowAggregate
	plan  window.Time
	spans []window.Span
}

func (p *timeAggregate) Process(r engine.Record) error {
	if !p.admit(r) {
		return nil
	}
	p.spans = p.plan.Append(p.spans[:0], r.Timestamp)
	if p.final {
		// Before this record is put: its put may hide, or expire, what closes now.
		newest := p.spans[len(p.spans)-1].Start
		if err := p.emission.due(p.plan.CloseTime(p.streamTime), newest-p.retention, p.plan.Emit, p.emit); err != nil {
			return err
		}
	}
	for _, s := range p.spans {
		if p.plan.Closed(s.End, p.streamTime) {
			p.c.Drop(tooLate)
			continue
		}
		old, ok, err := p.rows.fetch(p.c.Record(), r.Key, s.Start)
		if err != nil {
			return err
		}
		timestamp := r.Timestamp
		if ok {
			timestamp = max(timestamp, old.timestamp)
		}
		if err := p.write(r, s, p.fold.with(r, old, ok), timestamp, stored(old, ok), old.value); err != nil {
			return err
		}
	}
	return nil
}

const tooLate = "too late: the window has closed"
