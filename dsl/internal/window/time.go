package window

// Time is tumbling windows, or hopping ones if they advance by less than their size.
// Their end does not belong to them.
type Time struct{ Size, Advance, Grace int64 }

// Check returns a [store.ErrConfig] for windows that cannot be.
func (w Time) Check() error {
	switch {
	case w.Size < 1:
		return configErr("the window size is %d ms, and must be at least 1", w.Size)
	case w.Advance < 1 || w.Advance > w.Size:
		return configErr("windows of %d ms advance by %d ms, which must be at least 1 and no more than the size", w.Size, w.Advance)
	case w.Grace < 0:
		return configErr("the grace period is %d ms, and must not be negative", w.Grace)
	}
	return nil
}

// Retention is how long a store must keep the windows.
func (w Time) Retention() int64 { return add(w.Size, w.Grace) }

// first and last are the starts of the first and the last window that contain t.
func (w Time) first(t int64) int64 { return max(0, t-w.Size+w.Advance) / w.Advance * w.Advance }
func (w Time) last(t int64) int64  { return t / w.Advance * w.Advance }

// Append appends the windows that contain t to dst, the earliest first.
func (w Time) Append(dst []Span, t int64) []Span {
	last := w.last(t)
	for start := w.first(t); ; start += w.Advance {
		dst = append(dst, Span{start, add(start, w.Size)})
		if start >= last {
			return dst
		}
	}
}

// Closed tells whether a window that ends at end takes no more records.
func (w Time) Closed(end, streamTime int64) bool { return end <= sub(streamTime, w.Grace) }

// CloseTime is the end of the latest window that is closed.
func (w Time) CloseTime(streamTime int64) int64 { return sub(streamTime, w.Grace) }

// Emit returns the starts of the windows to emit at the close time, if those of the close
// time last, or [Never], have been. If ok, the close time is the next last.
func (w Time) Emit(last, closeTime int64) (s Scan, ok bool) {
	if closeTime <= last || closeTime < w.Size {
		return s, false
	}
	s.To = closeTime - w.Size
	if last == Never {
		return s, true
	}
	s.From = max(0, last-w.Size) + 1
	// A moment before the range and its end in the same windows: none can start between.
	before := s.From - 1
	if w.last(before) == w.last(s.To) && w.first(before) == w.first(s.To) {
		return Scan{}, false
	}
	return s, true
}
