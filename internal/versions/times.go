package versions

import (
	"math"
	"slices"
)

// DefaultInterval is the segment interval of a store with that retention, in
// milliseconds.
func DefaultInterval(retention int64) int64 {
	switch {
	case retention <= 60_000:
		return max(retention/3, 2_000)
	case retention <= 300_000:
		return max(retention/5, 20_000)
	case retention <= 3_600_000:
		return max(retention/12, 60_000)
	}
	return max(retention/24, 300_000)
}

// NoStream is the stream time before the first put.
const NoStream int64 = -1

// Times is how far a store has come in time, and which segments may have rows that are
// still of use. It is a value: Segments, ascending, are replaced and never changed.
type Times struct {
	Retention, Interval int64
	Stream              int64
	Segments            []int64
}

// Bound is the earliest time that can be written, and read for certain.
func (t *Times) Bound() int64 { return t.Stream - t.Retention }

// Late tells whether a put at that time comes too late.
func (t *Times) Late(at int64) bool { return at < t.Bound() }

// Segment is the segment of versions that ended at that time.
func (t *Times) Segment(at int64) int64 { return at / t.Interval }

// FirstLive is the lowest segment that can hold anything to be read.
func (t *Times) FirstLive() int64 { return t.Segment(t.Bound()) }

// Advance moves to the time of a put that is not late, and drops segments that died.
func (t *Times) Advance(at int64) {
	t.Stream = max(t.Stream, at)
	if first := t.FirstLive(); len(t.Segments) > 0 && t.Segments[0] < first {
		t.Segments = slices.Clone(t.Segments[t.since(first):])
	}
}

// since is the index of the first segment that is not below id.
func (t *Times) since(id int64) int {
	i, _ := slices.BinarySearch(t.Segments, id)
	return i
}

// Add notes that a segment has rows.
func (t *Times) Add(id int64) {
	if i, found := slices.BinarySearch(t.Segments, id); !found {
		t.Segments = slices.Insert(slices.Clone(t.Segments), i, id)
	}
}

// Join adds all segments of another.
func (t *Times) Join(segments []int64) {
	for _, id := range segments {
		t.Add(id)
	}
}

// Recover is the stream time of rows in these segments, at least: a version in a segment
// ended in its interval, at the time of an accepted put.
func (t *Times) Recover(stored int64) {
	t.Stream = max(NoStream, stored)
	if n := len(t.Segments); n > 0 && t.Segments[n-1] <= math.MaxInt64/t.Interval {
		t.Stream = max(t.Stream, t.Segments[n-1]*t.Interval)
	}
}
