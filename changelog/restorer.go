package changelog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-streams/forebay/store"
)

// maxRebuilds ends a race between a restore and a retention that is faster.
const maxRebuilds = 3

// logEvery is the time between two progress lines in the log.
const logEvery = 10 * time.Second

// Result is what a restore did, also when it failed.
type Result struct {
	Topic     string
	Partition int32
	// TopicID is the topic's id, zero if the broker has none. See [ExpectTopicID].
	TopicID [16]byte
	// Start is the first offset read, End the offset the restore stops before: the end of
	// the log when it began.
	Start, End int64
	// Rows is the number of rows the target took, tombstones included. A rebuild starts
	// this count and the following ones anew.
	Rows int64
	// NullKeys is the number of records left out because they have no key.
	NullKeys int64
	// Positions is the number of rows whose position headers were taken off, and Position
	// the positions in them, merged.
	Positions int64
	Position  store.Position
	// Rebuilds says why the target was wiped, in order; empty if it was not. Each is an
	// ErrOutOfRange.
	Rebuilds []error
	Elapsed  time.Duration
}

// Restore fills a store from its changelog, up to the end that the log has now. It goes on
// behind the target's offset, or at the log's start if that is not known: a target that has
// rows without knowing their offset must have been wiped, because the log may no longer
// hold the tombstones of some.
//
// The target gets the changes in offset order. Their bytes are never changed again, but
// they are parts of large buffers: a target that keeps rows in memory should copy them.
// The slice itself is used again after RestoreBatch. When Restore returns nil, the target
// has the offset before the end, even if the log held no record for it; only of a log that
// never held anything there is no offset.
//
// An empty [store.BulkTarget] is filled in bulk when there is much to read: see [Bulk].
//
// When the log no longer has the offset to go on from, the target is wiped and rebuilt,
// which the result and the log report. Everything else that cannot be retried is an
// error: [ErrTopicMissing], [ErrUnreadable], [ErrOutOfRange] when the log is deleted
// faster than read, [store.ErrConfig], the target's own, the broker's, and the context's.
// Errors that pass, such as a leader that moves, are retried as long as ctx lasts.
// Progress is kept: the next restore goes on behind the last batch.
//
// The client should not consume at the same time: its fetches share a connection with
// these and can hold them up. Memory is bounded by the batch and fetch sizes, and by what a
// target gathers in bulk.
func Restore(ctx context.Context, cl *kgo.Client, target store.RestoreTarget, opts ...RestoreOption) (Result, error) {
	r := restorer{target: target}
	r.rows, r.bytes, r.fetchBytes, r.bulk, r.log = DefaultBatchRows, DefaultBatchBytes, DefaultFetchBytes, DefaultBulk, warnings()
	for _, o := range opts {
		o(&r.restoreConfig)
	}
	topic, partition := target.ChangelogPartition()
	r.result.Topic, r.result.Partition = topic, partition
	if r.rows < 1 || r.bytes < 1 || r.fetchBytes < 1 || r.fetchBytes > 1<<30 {
		return r.result, &Error{Topic: topic, Partition: partition, Op: "restore", Err: fmt.Errorf("%w: batches of %d rows and %d bytes, fetches of %d bytes",
			store.ErrConfig, r.rows, r.bytes, r.fetchBytes)}
	}
	r.log = r.log.With("topic", topic, "partition", partition)
	isolation := kgo.ReadUncommitted()
	if r.committed {
		isolation = kgo.ReadCommitted()
	}
	r.source = &source{
		cl: cl, topic: topic, partition: partition, isolation: isolation, maxBytes: int32(r.fetchBytes),
		log: r.log, id: r.topicID, leader: -1, decompressor: kgo.DefaultDecompressor(),
	}
	r.began = time.Now()
	err := r.restore(ctx)
	r.result.TopicID = r.source.id
	r.result.Elapsed = time.Since(r.began)
	return r.result, err
}

type restorer struct {
	restoreConfig
	target store.RestoreTarget
	source *source
	result Result
	began  time.Time

	started  time.Time // of the present try
	position int64     // behind the last batch
	logged   time.Time
	waiting  bool // said that a transaction is open

	// The batch being gathered.
	changes []store.Change
	headers []store.Header // of all its changes; a new array for each batch
	size    int            // bytes of the changes
	pinned  int            // bytes of the chunks they are parts of
}

func (r *restorer) restore(ctx context.Context) error {
	for {
		err := r.try(ctx)
		if !errors.Is(err, ErrOutOfRange) {
			return err
		}
		if len(r.result.Rebuilds) == maxRebuilds {
			return err
		}
		r.log.Warn("changelog does not hold what the store needs next: wiping and rebuilding the store", "reason", err)
		if err := r.target.Wipe(); err != nil {
			return r.source.fail("wipe", err, "")
		}
		r.result.Rebuilds = append(r.result.Rebuilds, err)
	}
}

// try restores once from where the target is. ErrOutOfRange asks for a rebuild.
func (r *restorer) try(ctx context.Context) error {
	// The end is asked for first: the log's start never passes it.
	end, err := r.source.offset(ctx, latest)
	if err != nil {
		return err
	}
	first, err := r.source.offset(ctx, earliest)
	if err != nil {
		return err
	}
	start := first
	stored, known := r.target.RestoredOffset()
	if known {
		start = stored + 1
	} else {
		start = r.firstKept(ctx, first, end)
	}
	if known && end == 0 {
		// Nothing was ever written to this topic, so it is not the one the store was logged to.
		return r.source.fail("restore", fmt.Errorf("%w: it is empty, and the store holds what was logged up to offset %d", ErrTopicMissing, stored),
			"the topic was made anew: bring the old one back, or Wipe the store to begin with an empty one")
	}
	if start < first || start > max(end, first) {
		return r.source.fail("restore", fmt.Errorf("%w: the store needs %d, the log has %d to %d", ErrOutOfRange, start, first, end), "")
	}
	// Deletion can overtake the end between the two requests.
	end = max(end, first)
	r.result.Start, r.result.End = start, end
	r.result.Rows, r.result.NullKeys, r.result.Positions, r.result.Position = 0, 0, 0, store.Position{}
	r.position, r.started, r.logged, r.waiting = start, time.Now(), time.Now(), false
	r.dropBatch()
	r.log.Info("restoring from changelog", "start", start, "end", end)
	tell(r.listener.Start, r.progress(0))
	if err = r.load(ctx, start, end); err == nil && start == end && end > 0 && !(known && stored == end-1) {
		err = r.apply(end - 1)
	}
	if err != nil {
		r.log.Warn("restore suspended", "position", r.position, "rows", r.result.Rows, "error", err)
		if r.listener.Suspended != nil {
			r.listener.Suspended(r.progress(0), err)
		}
		return err
	}
	p := r.progress(0)
	r.log.Info("restored from changelog", "rows", p.Rows, "elapsed", p.Elapsed, "rows_per_second", int64(p.RowsPerSecond()))
	tell(r.listener.End, p)
	return nil
}

// load reads [start, end), in bulk if the target can take that.
func (r *restorer) load(ctx context.Context, start, end int64) (err error) {
	bulk, ok := r.target.(store.BulkTarget)
	if !ok || r.bulk < 0 || end-start < r.bulk {
		return r.read(ctx, start, end)
	}
	begun, err := bulk.BeginBulk()
	if err != nil {
		return r.source.fail("restore", fmt.Errorf("begin a bulk load: %w", err), "")
	}
	if begun {
		defer func() { // after a panic of a listener too
			if e := bulk.EndBulk(); e != nil {
				err = errors.Join(err, r.source.fail("restore", fmt.Errorf("write to the store: %w", e), ""))
			}
		}()
	}
	return r.read(ctx, start, end)
}

// read reads [start, end). One chunk is fetched and decoded while the one before is applied.
func (r *restorer) read(ctx context.Context, start, end int64) error {
	if start >= end {
		return nil
	}
	type fetched struct {
		chunk
		err error
	}
	ctx, cancel := context.WithCancel(ctx)
	chunks := make(chan fetched)
	go func() {
		defer close(chunks)
		for at := start; at < end; {
			c, err := r.fetch(ctx, at)
			select {
			case chunks <- fetched{c, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
			at = c.next
		}
	}()
	defer func() {
		cancel()
		for range chunks { // until the goroutine is gone: it uses the source
		}
	}()
	at := start
	for at < end {
		c, ok := <-chunks
		switch {
		case !ok:
			return r.source.fail("restore", ctx.Err(), "")
		case c.err != nil:
			return c.err
		}
		if err := r.take(c.chunk, end); err != nil {
			return err
		}
		if c.next == at {
			r.sayWaiting(c.chunk)
		}
		at = c.next
		if err := ctx.Err(); err != nil && at < end {
			return r.source.fail("restore", err, "")
		}
	}
	return nil
}

// fetch is the source's, with a second look at offsets that are said to be out of range: a
// new leader can be a moment behind.
func (r *restorer) fetch(ctx context.Context, at int64) (chunk, error) {
	var wait backoff
	for tries := 1; ; tries++ {
		c, err := r.source.fetch(ctx, at)
		if !errors.Is(err, ErrOutOfRange) || tries == unsureTries {
			return c, err
		}
		first, e := r.source.offset(ctx, earliest)
		if e != nil {
			return chunk{}, e
		}
		last, e := r.source.offset(ctx, latest)
		if e != nil {
			return chunk{}, e
		}
		if at < first || at > last {
			return chunk{}, err
		}
		if e := wait.sleep(ctx); e != nil {
			return chunk{}, r.source.fail("fetch", e, "")
		}
	}
}

// take adds a chunk's records below end to the batch, and applies the batch whenever it is
// large enough, at the end, and before waiting.
func (r *restorer) take(c chunk, end int64) error {
	for _, rec := range c.records {
		if rec.Offset >= end {
			break
		}
		if rec.Key == nil {
			if r.result.NullKeys++; r.result.NullKeys == 1 {
				r.log.Warn("changelog record without a key left out; further ones are only counted", "offset", rec.Offset)
			}
			continue
		}
		r.add(rec)
		if len(r.changes) >= r.rows || r.size >= r.bytes {
			if err := r.apply(rec.Offset); err != nil {
				return err
			}
		}
	}
	if len(r.changes) > 0 {
		r.pinned += c.bytes
	}
	// At the end the offset is stored even if nothing but markers came behind the last batch.
	done := c.next >= end && r.position < end
	idle := len(r.changes) > 0 && len(c.records) == 0
	if r.pinned >= r.bytes || idle || done {
		return r.apply(min(c.next, end) - 1)
	}
	return nil
}

func (r *restorer) add(rec *kgo.Record) {
	list := rec.Headers
	if !r.keepPosition {
		var p store.Position
		var ok bool
		if list, p, ok = cutPosition(list); ok {
			r.result.Positions++
			r.result.Position.Merge(p)
		}
	}
	c := store.Change{Key: rec.Key, Row: store.Row{Value: rec.Value, Timestamp: millis(rec.Timestamp)}}
	r.size += len(rec.Key) + len(rec.Value)
	if len(list) > 0 {
		n := len(r.headers)
		for _, h := range list {
			r.headers = append(r.headers, store.Header(h))
			r.size += len(h.Key) + len(h.Value)
		}
		c.Headers = store.HeadersOf(r.headers[n:])
	}
	r.changes = append(r.changes, c)
}

// apply hands the batch to the target. offset is that of the last record read.
func (r *restorer) apply(offset int64) error {
	if err := r.target.RestoreBatch(r.changes, offset); err != nil {
		return r.source.fail("restore", fmt.Errorf("write to the store: %w", err), "")
	}
	n := int64(len(r.changes))
	r.result.Rows += n
	r.position = offset + 1
	r.dropBatch()
	p := r.progress(n)
	tell(r.listener.Batch, p)
	if time.Since(r.logged) >= logEvery {
		r.logged = time.Now()
		left, _ := p.ETA()
		r.log.Info("restoring from changelog", "rows", p.Rows, "rows_per_second", int64(p.RowsPerSecond()),
			"remaining", p.Remaining(), "eta", left.Round(time.Second))
	}
	return nil
}

func (r *restorer) dropBatch() {
	clear(r.changes) // lets go of the chunks
	r.changes = r.changes[:0]
	if len(r.headers) > 0 {
		// The target may have kept them, so their array is not used again.
		r.headers = make([]store.Header, 0, cap(r.headers))
	}
	r.size, r.pinned = 0, 0
}

// sayWaiting logs once that the restore is held up.
func (r *restorer) sayWaiting(c chunk) {
	if r.waiting || !r.committed || c.stable > c.next {
		return
	}
	r.waiting = true
	r.log.Warn("restore waits for an open transaction to end", "offset", c.next, "end", r.result.End)
}

func (r *restorer) progress(batch int64) Progress {
	return Progress{
		Topic:     r.result.Topic,
		Partition: r.result.Partition,
		Start:     r.result.Start,
		End:       r.result.End,
		Position:  r.position,
		Rows:      r.result.Rows,
		Batch:     batch,
		Elapsed:   time.Since(r.started),
	}
}
