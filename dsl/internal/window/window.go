// Package window is the arithmetic of windows: which of them a record belongs to, when
// they close, and between which bounds those lie that have just closed. Times are
// milliseconds since the epoch, 0 or more. Stream time is the caller's; so is the set of
// windows that exist.
package window

import (
	"fmt"
	"math"

	"github.com/forebay-streams/forebay/store"
)

// Span is a window. Whether its end belongs to it depends on its kind.
type Span struct{ Start, End int64 }

// Never is the close time before any window was emitted.
const Never int64 = -1

// Scan is the range of windows that have closed since the last emission: their starts,
// for sessions their ends, both included.
type Scan struct{ From, To int64 }

func configErr(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{store.ErrConfig}, args...)...)
}

// add is a+b, at most the largest time.
func add(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// sub is a−b, at least the smallest number.
func sub(a, b int64) int64 {
	switch {
	case b < 0:
		return add(a, -b)
	case a < math.MinInt64+b:
		return math.MinInt64
	}
	return a - b
}
