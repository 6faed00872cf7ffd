package overlay

import (
	"log/slog"
	"time"
)

// MaxFlushAge is how long a commit may stay in memory only. A table flushes when its
// buffers are full, which those of a quiet store never are: after a crash its offset would be
// that of long ago, which its changelog may have no more. The app's next commit after that
// time, of whatever, makes it durable.
const MaxFlushAge = time.Minute

// wrote notes that the table has what may be lost in a crash.
func (o *Overlay) wrote() {
	if o.volatile.IsZero() {
		o.volatile = time.Now()
	}
}

// flushOld makes commits durable of which one is too old. It does so behind a commit that
// is written, so an error is none of the commit's: the table keeps it for the next one if it
// takes no more writes, and the flush is tried again.
func (o *Overlay) flushOld() {
	if o.volatile.IsZero() || time.Since(o.volatile) < MaxFlushAge {
		return
	}
	if err := o.table.Flush(); err != nil {
		slog.Warn("a commit could not be made durable", "store", o.config.Name, "committed", o.volatile, "error", err)
		return
	}
	o.volatile = time.Time{}
}
