package window

// Sliding is windows of which each begins or ends with a record. Their ends belong to
// them: a window is a record's time and what lies no more than Difference before it, or
// what follows the record so close.
type Sliding struct{ Difference, Grace int64 }

// Check returns a [store.ErrConfig] for windows that cannot be. (Kafka Streams takes a
// difference of 0 and fails with the first record.)
func (w Sliding) Check() error {
	switch {
	case w.Difference < 1:
		return configErr("the time difference of sliding windows is %d ms, and must be at least 1", w.Difference)
	case w.Grace < 0:
		return configErr("the grace period is %d ms, and must not be negative", w.Grace)
	}
	return nil
}

// Retention is how long a store must keep the windows.
func (w Sliding) Retention() int64 { return add(add(w.Difference, w.Difference), w.Grace) }

// Span is the window that starts at start.
func (w Sliding) Span(start int64) Span { return Span{start, add(start, w.Difference)} }

// CloseTime is the end of the earliest window that still takes records.
func (w Sliding) CloseTime(streamTime int64) int64 { return sub(streamTime, w.Grace) }

// Late tells whether a record belongs to no window that still takes records.
func (w Sliding) Late(t, streamTime int64) bool {
	return add(t, w.Difference) < w.CloseTime(streamTime)
}

// Search is the range of starts in which a record's windows and their neighbours lie.
func (w Sliding) Search(t int64) Scan {
	return Scan{max(0, sub(t, 2*w.Difference)), add(t, 1)}
}

// EmitsAt tells whether closed windows are looked for after a record of the time: not
// after the earliest ones, which share one window.
func (w Sliding) EmitsAt(t int64) bool { return t >= w.Difference }

// Emit returns the starts of the windows to emit at the close time; see [Time.Emit].
func (w Sliding) Emit(last, closeTime int64) (s Scan, ok bool) {
	if closeTime <= last || closeTime <= w.Difference {
		return s, false
	}
	s.To = closeTime - w.Difference - 1
	if last != Never {
		s.From = max(0, last-w.Difference)
	}
	return s, true
}

// Found is a window that exists: its start, and the time of its newest record.
type Found struct{ Start, Newest int64 }

// Action is what a record does to a window.
type Action uint8

const (
	// Update adds the record to the window that Step.From names.
	Update Action = iota
	// Create makes a window of the aggregate that Step.From names, or of the initializer,
	// and adds the record to it.
	Create
	// Copy makes a window of the row that Step.From names, and does not add the record.
	Copy
)

// Initial is the From of a window that starts from the initializer.
const Initial = -1

// Step is one write. From is an index into what was found: the row's aggregate as it was
// before this record.
type Step struct {
	Action Action
	Span   Span
	From   int
}

// Plan returns what a record at t, which is not late, does to the windows of its key, in
// order. found is what exists in the range of Search, the earliest start first. Windows
// that have closed are left out. A window that lies right of the record before and left of
// this one comes twice, as in Kafka Streams; the second is as good as the first.
func (w Sliding) Plan(found []Found, t, streamTime int64) []Step {
	p := plan{w: w, found: found, t: t, closed: w.CloseTime(streamTime)}
	if t < w.Difference {
		p.early()
	} else {
		p.ordinary()
	}
	return p.steps
}

type plan struct {
	w      Sliding
	found  []Found
	t      int64
	closed int64
	steps  []Step
}

func (p *plan) step(action Action, start int64, from int) {
	if span := p.w.Span(start); span.End >= p.closed {
		p.steps = append(p.steps, Step{action, span, from})
	}
}

func (p *plan) exists(start int64) bool {
	for _, f := range p.found {
		if f.Start == start {
			return true
		}
	}
	return false
}

func (p *plan) ordinary() {
	previous := Never // the record before, as far as the windows tell
	before := Initial // the latest window that ends before t
	later := Initial  // the latest window that contains t and may have newer records
scan:
	for i := len(p.found) - 1; i >= 0; i-- {
		f := p.found[i]
		switch end := p.w.Span(f.Start).End; {
		case f.Start > p.t:
		case end > p.t:
			if later == Initial {
				later = i
			}
			p.step(Update, f.Start, i)
		case end == p.t:
			if f.Newest < p.t {
				previous = f.Newest
			}
			p.step(Update, f.Start, i)
		default:
			before, previous = i, f.Newest
			break scan
		}
	}
	if right := previous + 1; previous != Never && !p.exists(right) && p.w.Span(right).End >= p.t {
		p.step(Create, right, Initial)
	}
	if left := p.t - p.w.Difference; !p.exists(left) {
		if previous < left {
			before = Initial
		}
		p.step(Create, left, before)
	}
	p.copyRight(later)
}

// early is for records of the first Difference: they share the window from 0, and every
// other window that starts up to t contains t.
func (p *plan) early() {
	shared, later := Initial, Initial
	for i, f := range p.found {
		switch {
		case f.Start == 0:
			shared = i
		case f.Start <= p.t:
			later = i
			p.step(Update, f.Start, i)
		}
	}
	if later == Initial {
		later = shared
	}
	p.copyRight(later)
	if shared == Initial {
		p.step(Create, 0, Initial)
		return
	}
	if newest := p.found[shared].Newest; newest < p.t && !p.exists(newest+1) {
		p.step(Create, newest+1, Initial)
	}
	p.step(Update, 0, shared)
}

// copyRight makes the window behind t if there are records in it, which are those of the
// window from, as it was without t.
func (p *plan) copyRight(from int) {
	if from != Initial && p.found[from].Newest > p.t && !p.exists(p.t+1) {
		p.step(Copy, p.t+1, from)
	}
}
