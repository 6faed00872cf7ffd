package window

// Session is windows that grow as long as no more than Gap lies between records. Their
// ends belong to them.
type Session struct{ Gap, Grace int64 }

// Check returns a [store.ErrConfig] for windows that cannot be.
func (w Session) Check() error {
	switch {
	case w.Gap < 1:
		return configErr("the inactivity gap is %d ms, and must be at least 1", w.Gap)
	case w.Grace < 0:
		return configErr("the grace period is %d ms, and must not be negative", w.Grace)
	}
	return nil
}

// Retention is how long a store must keep the sessions.
func (w Session) Retention() int64 { return add(w.Gap, w.Grace) }

// CloseTime is the end of the earliest session that still takes records.
func (w Session) CloseTime(streamTime int64) int64 { return sub(streamTime, w.Retention()) }

// Late tells whether a session with that end takes no more records.
func (w Session) Late(end, streamTime int64) bool { return end < w.CloseTime(streamTime) }

// Search bounds the sessions that a record at t joins: the earliest end and the latest
// start. Sessions that the store no longer keeps are not looked for. (Kafka Streams does
// not find a session whose end is the close time, though it still takes records.)
func (w Session) Search(t, streamTime int64) (earliestEnd, latestStart int64) {
	return max(0, sub(t, w.Gap), w.CloseTime(streamTime)), add(t, w.Gap)
}

// Emit returns the ends of the sessions to emit at the close time; see [Time.Emit].
func (w Session) Emit(last, closeTime int64) (s Scan, ok bool) {
	if closeTime <= last || closeTime <= 0 {
		return s, false
	}
	return Scan{max(0, last), closeTime - 1}, true
}
