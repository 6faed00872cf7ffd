package segment

import (
	"fmt"

	"github.com/forebay-streams/forebay/store"
)

// MinInterval is the shortest default interval of segments, in milliseconds.
const MinInterval = 60_000

// Rules is the arithmetic of retention; all times are in milliseconds.
type Rules struct{ Retention, Interval int64 }

// NewRules checks the retention and takes its default interval for 0.
func NewRules(retention, interval int64) (Rules, error) {
	switch {
	case retention < 0:
		return Rules{}, fmt.Errorf("%w: Retention is negative", store.ErrConfig)
	case interval < 0:
		return Rules{}, fmt.Errorf("%w: SegmentInterval is negative", store.ErrConfig)
	case interval == 0:
		interval = max(retention/2, MinInterval)
	}
	return Rules{retention, interval}, nil
}

// ID is the segment of a time: that of a window's start or a session's end.
func (r Rules) ID(ts int64) int64 { return ts / r.Interval }

// MinLive is the oldest segment that takes rows at a stream time.
func (r Rules) MinLive(stream int64) int64 { return (stream - r.Retention) / r.Interval }

// Expired is the newest time that is past retention: reads begin one millisecond later,
// and rows in memory go by it.
func (r Rules) Expired(stream int64) int64 { return stream - r.Retention }
