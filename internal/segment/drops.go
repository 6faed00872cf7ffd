package segment

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// Drops counts the rows that came too late for a store. The owner counts, anybody may ask.
type Drops struct {
	total  atomic.Int64
	warned time.Time
}

// warnEvery bounds how often dropped rows are reported.
const warnEvery = 10 * time.Second

// Total is how many were dropped so far.
func (d *Drops) Total() int64 { return d.total.Load() }

// Add counts n more, and says so once in a while.
func (d *Drops) Add(store string, n, stream int64) {
	total := d.total.Add(n)
	if now := time.Now(); n > 0 && now.Sub(d.warned) >= warnEvery {
		d.warned = now
		slog.Warn("rows came too late and were dropped", "store", store, "dropped", total, "stream time", stream)
	}
}
