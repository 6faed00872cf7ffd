package session

import (
	"iter"
	"math"
)

// FindSessions scans the sessions of one key that end at earliestEnd or later and start at
// latestStart or earlier, in order of their end and then their start; in memory, of those
// with one end the latest start comes first.
func (s *Store[K, V]) FindSessions(key K, earliestEnd, latestStart int64) iter.Seq2[Row[K, V], error] {
	return s.one(s.here(), key, earliestEnd, latestStart, false)
}

// BackwardFindSessions is FindSessions in the opposite order.
func (s *Store[K, V]) BackwardFindSessions(key K, earliestEnd, latestStart int64) iter.Seq2[Row[K, V], error] {
	return s.one(s.here(), key, earliestEnd, latestStart, true)
}

// FindKeys is FindSessions for the keys between the bounds; an end without a bound is open,
// and of two for the same end the last counts. Sessions come segment by segment, in each in
// the order of key, end and start together; those of a time-ordered store without index by
// end, start and key, those in memory by end, key and start, the latest first.
func (s *Store[K, V]) FindKeys(earliestEnd, latestStart int64, bounds ...Bound[K]) iter.Seq2[Row[K, V], error] {
	return s.keys(s.here(), earliestEnd, latestStart, bounds, false)
}

// BackwardFindKeys is FindKeys in the opposite order.
func (s *Store[K, V]) BackwardFindKeys(earliestEnd, latestStart int64, bounds ...Bound[K]) iter.Seq2[Row[K, V], error] {
	return s.keys(s.here(), earliestEnd, latestStart, bounds, true)
}

// Fetch scans all sessions of one key, in the order of FindSessions.
func (s *Store[K, V]) Fetch(key K) iter.Seq2[Row[K, V], error] {
	return s.FindSessions(key, 0, math.MaxInt64)
}

// BackwardFetch is Fetch in the opposite order.
func (s *Store[K, V]) BackwardFetch(key K) iter.Seq2[Row[K, V], error] {
	return s.BackwardFindSessions(key, 0, math.MaxInt64)
}

// FetchKeys scans all sessions of the keys between the bounds, in the order of FindKeys.
func (s *Store[K, V]) FetchKeys(bounds ...Bound[K]) iter.Seq2[Row[K, V], error] {
	return s.FindKeys(0, math.MaxInt64, bounds...)
}

// BackwardFetchKeys is FetchKeys in the opposite order.
func (s *Store[K, V]) BackwardFetchKeys(bounds ...Bound[K]) iter.Seq2[Row[K, V], error] {
	return s.BackwardFindKeys(0, math.MaxInt64, bounds...)
}

// FindByEnd scans the sessions of all keys that end between the two times, both included,
// by end, start and key; in memory by end, key and start, the latest first. That is for
// time-ordered stores, which show here what has expired too until its segment goes, and for
// stores in memory; others answer [ErrUnordered].
func (s *Store[K, V]) FindByEnd(earliestEnd, latestEnd int64) iter.Seq2[Row[K, V], error] {
	return s.byEnd(s.here(), earliestEnd, latestEnd)
}
