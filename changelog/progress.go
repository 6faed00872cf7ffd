package changelog

import "time"

// Progress says how far a restore has come.
type Progress struct {
	Topic     string
	Partition int32
	// Start is the first offset read, End the one to stop before, Position the next one.
	Start, End, Position int64
	// Rows is the number of rows the target has taken, tombstones included; Batch that of
	// the last batch.
	Rows, Batch int64
	Elapsed     time.Duration
}

// Remaining is the number of offsets still to go. There may be fewer records: markers,
// aborted and compacted records have offsets too.
func (p Progress) Remaining() int64 { return max(0, p.End-p.Position) }

// RowsPerSecond is the average since the start, 0 at the start.
func (p Progress) RowsPerSecond() float64 {
	if p.Elapsed <= 0 {
		return 0
	}
	return float64(p.Rows) / p.Elapsed.Seconds()
}

// ETA is the time left at the average speed so far; ok is false as long as that is not known.
func (p Progress) ETA() (left time.Duration, ok bool) {
	done := p.Position - p.Start
	if p.Remaining() == 0 {
		return 0, true
	}
	if done <= 0 || p.Elapsed <= 0 {
		return 0, false
	}
	return time.Duration(float64(p.Elapsed) * float64(p.Remaining()) / float64(done)), true
}

// Listener is told how a restore goes, in the goroutine that restores. Nil functions are
// left out. After each Start comes exactly one End or Suspended, except that a panic of
// the target ends it without.
type Listener struct {
	// Start: the range to read is known. A rebuild starts again.
	Start func(Progress)
	// Batch: the target has taken a batch.
	Batch func(Progress)
	// End: the target is complete.
	End func(Progress)
	// Suspended: the restore stopped before its end. The target keeps what it has, and a
	// later restore goes on from there, unless err is ErrOutOfRange: then the target is
	// wiped and rebuilt.
	Suspended func(p Progress, err error)
}

func tell(f func(Progress), p Progress) {
	if f != nil {
		f(p)
	}
}
