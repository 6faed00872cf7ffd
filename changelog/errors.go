package changelog

import (
	"errors"
	"fmt"
	"strings"
)

// Errors to test for with [errors.Is]. Details come with [errors.As]: [Error] for an
// operation on a partition, [MismatchError] for a topic's settings.
var (
	// ErrTopicMissing: the changelog topic or its partition does not exist, or is another
	// topic of the same name than the one the store was filled from.
	ErrTopicMissing = errors.New("changelog topic missing")
	// ErrTopicMismatch: the topic exists with settings that lose or misplace rows.
	ErrTopicMismatch = errors.New("changelog topic has wrong settings")
	// ErrOutOfRange: the log no longer holds, or never held, the offset to read next.
	ErrOutOfRange = errors.New("offset out of the changelog's range")
	// ErrWrongPartition: the client's partitioner moves records to other partitions.
	ErrWrongPartition = errors.New("wrong changelog partition")
	// ErrNotWritten: a record that Append took was not acknowledged.
	ErrNotWritten = errors.New("changelog record not written")
	// ErrUnreadable: the broker sent bytes that are not records.
	ErrUnreadable = errors.New("changelog unreadable")
)

// Error says which partition failed in which operation, and what to do about it.
type Error struct {
	Topic     string
	Partition int32
	Op        string
	Err       error
	Remedy    string // what the user can do; empty if Err says it all
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "changelog %s-%d: %s: %v", e.Topic, e.Partition, e.Op, e.Err)
	if e.Remedy != "" {
		b.WriteString("; " + e.Remedy)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// Difference is one setting of an existing topic that is not as it must be.
type Difference struct {
	// Setting is "partitions" or the name of a topic setting.
	Setting string
	// Want and Have are the values; Have is empty when the broker names none.
	Want, Have string
	Remedy     string
}

// MismatchError is the detail of [ErrTopicMismatch].
type MismatchError struct {
	Topic       string
	Differences []Difference // sorted by Setting; never empty
}

func (e *MismatchError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "changelog topic %s has wrong settings", e.Topic)
	for i, d := range e.Differences {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		fmt.Fprintf(&b, "%s%s is %q, must be %q (%s)", sep, d.Setting, d.Have, d.Want, d.Remedy)
	}
	return b.String()
}

// Is makes errors.Is(err, ErrTopicMismatch) true.
func (e *MismatchError) Is(target error) bool { return target == ErrTopicMismatch }
