package changelog

import (
	"context"
	"time"
)

// SkipExpired lets a restore that begins anew leave out what the store would drop anyway:
// it begins at the first record that is no more than kept older than the newest one. For
// window stores kept is retention plus size, for sessions the retention. It goes by the
// timestamps of records, so it is right only where a row's timestamp lies in its window,
// as in aggregations; not for a processor that writes windows long after the time of
// their rows. By default, and when the log gives no answer, a restore begins at the
// log's start.
func SkipExpired(kept time.Duration) RestoreOption {
	return func(c *restoreConfig) { c.kept = kept }
}

// lookBacks are how many offsets before the end are looked at, one after the other, for
// the newest timestamp: a transaction's end is a marker, and its records may be aborted.
var lookBacks = []int64{128, 512, 2048}

// firstKept is where a restore without a stored offset begins.
func (r *restorer) firstKept(ctx context.Context, first, end int64) int64 {
	if r.kept <= 0 {
		return first
	}
	for _, back := range lookBacks {
		from := max(first, end-back)
		newest, found := r.newest(ctx, from, end)
		if !found && from > first {
			continue
		}
		limit := newest - r.kept.Milliseconds()
		if !found || limit <= 0 {
			return first
		}
		// Whatever fails here: the log's start is right as well.
		start, err := r.source.offset(ctx, limit)
		if err != nil || start < first || start > end {
			return first
		}
		return start
	}
	return first
}

// newest is the largest timestamp of the records from an offset to the end.
func (r *restorer) newest(ctx context.Context, from, end int64) (ts int64, found bool) {
	for at := from; at < end; {
		c, err := r.source.fetch(ctx, at)
		if err != nil || c.next == at {
			return ts, found // behind lies a transaction that is open
		}
		for _, rec := range c.records {
			if rec.Offset < end {
				ts, found = max(ts, millis(rec.Timestamp)), true
			}
		}
		at = c.next
	}
	return ts, found
}
