package window

// Join says which records of two streams belong together: those of the right that lie no
// more than Before before, and no more than After after, one of the left. One of the two
// may be negative.
type Join struct{ Before, After, Grace int64 }

// Check returns a [store.ErrConfig] for windows that cannot be.
func (w Join) Check() error {
	switch {
	case w.Size() < 0:
		return configErr("a join window of %d ms before and %d ms after is empty", w.Before, w.After)
	case w.Grace < 0:
		return configErr("the grace period is %d ms, and must not be negative", w.Grace)
	}
	return nil
}

// Size is how long a window is.
func (w Join) Size() int64 { return add(w.Before, w.After) }

// Retention is how long a store must keep records.
func (w Join) Retention() int64 { return add(w.Size(), w.Grace) }

// Other is the window as the right stream sees it.
func (w Join) Other() Join { return Join{Before: w.After, After: w.Before, Grace: w.Grace} }

// Match is the range of times at the other side that a record at t meets.
func (w Join) Match(t int64) Scan {
	return Scan{max(0, sub(t, w.Before)), max(0, add(t, w.After))}
}

// Waits tells whether a record at t that has met none may still do so. The grace period
// does not count.
func (w Join) Waits(t, streamTime int64) bool { return add(t, w.After) >= streamTime }

// Expired tells whether a record at t that waits can meet none any more.
func (w Join) Expired(t, streamTime int64) bool {
	return add(add(t, w.After), w.Grace) < streamTime
}

// LegacyGrace is the grace period of windows that were given none (JoinWindows.of): a day
// for window and grace together.
func LegacyGrace(difference int64) int64 { return max(dayMs-2*difference, 0) }

const dayMs = 86_400_000
