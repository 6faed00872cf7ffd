package versioned

import (
	"log/slog"
	"sync/atomic"

	"github.com/forebay-streams/forebay/internal/versions"
	"github.com/forebay-streams/forebay/store"
)

// Stats are counts since the store was opened.
type Stats struct {
	// TooOld counts puts and deletes that came too late and were not stored.
	TooOld int64
	// Skipped counts changelog records that a restore left out, for the same reason or
	// because their timestamp is negative.
	Skipped int64
	// Damaged counts reads of rows that a restart of Kafka Streams left out of order. They
	// answer in the right order, and are repaired when they are next written.
	Damaged int64
	// LargestRow is the size of the largest row written. A row holds all versions of a key
	// that ended in one segment interval, and each put among them writes it anew.
	LargestRow int64
}

// Stats may be called from any goroutine.
func (s *Store[K, V]) Stats() Stats {
	r := &s.report
	return Stats{r.late.Load(), r.skipped.Load(), r.damaged.Load(), r.largest.Load()}
}

type report struct {
	log   *slog.Logger
	store string

	late, skipped, damaged, largest atomic.Int64
}

// tooOld warns of the first late put, the second, the fourth and so on.
func (r *report) tooOld(at int64, times *versions.Times) {
	if n := r.late.Add(1); n&(n-1) == 0 {
		r.log.Warn("put came too late and was not stored", "store", r.store, "timestamp", at,
			"oldest accepted", times.Bound(), "stream time", times.Stream, "total", n)
	}
}

func (r *report) damagedRow() {
	if r.damaged.Add(1) == 1 {
		r.log.Warn("row out of order, left by a restart of Kafka Streams; it is read in the right order", "store", r.store)
	}
}

// sizes is for the owner only.
func (r *report) sizes(changes []store.Change) {
	for i := range changes {
		if n := int64(len(changes[i].Value)); n > r.largest.Load() {
			r.largest.Store(n)
		}
	}
}
