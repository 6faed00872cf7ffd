package session

import "errors"

var (
	// ErrTimes: a session that starts before 0, or ends before it starts.
	ErrTimes = errors.New("no session has these times")
	// ErrUnordered: only time-ordered and in-memory stores find sessions by their end.
	ErrUnordered = errors.New("the store is not time-ordered")
)
