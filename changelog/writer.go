package changelog

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-streams/forebay/store"
)

// maxTimestamp is the last millisecond that kgo can send: it keeps nanoseconds.
const maxTimestamp = math.MaxInt64 / int64(time.Millisecond)

var _ store.Changelog = (*Writer)(nil)

// Writer logs changes to one partition of a changelog topic. It is the [store.Changelog]
// of a store. Append is for the store's owner; everything else may be called from any
// goroutine.
type Writer struct {
	cl        *kgo.Client
	topic     string
	partition int32
	ctx       context.Context // of the records
	// leader is the client's PartitionLeader if it has transactions, else nil.
	leader func(topic string, partition int32) (leader, epoch int32, err error)

	mu  sync.Mutex
	now *round
	// flushed is the last offset as of the last successful Flush, -1 before there is one.
	flushed int64
}

// round is what was queued between two calls of Reset. Acknowledgements of an earlier
// round find that round, so that they cannot disturb the present one.
type round struct {
	w       *Writer
	promise func(*kgo.Record, error) // done, bound once: one allocation less per record
	pending int
	last    int64         // largest acknowledged offset, or -1
	err     error         // the first one
	idle    chan struct{} // closed when pending comes to 0; nil when nobody waits
}

// WriterOption changes how a [Writer] works.
type WriterOption func(*Writer)

// RecordContext gives queued records a context: when it ends, records that were not sent
// yet fail, and Append no longer waits for room in the client's buffer. The default is
// context.Background().
func RecordContext(ctx context.Context) WriterOption {
	return func(w *Writer) { w.ctx = ctx }
}

// ProducerOpts returns the options that a client for [Writer] needs: records keep the
// partition they are given, a record counts as written when all in-sync replicas have it,
// and a loss of acknowledged records on the broker's side fails the producer instead of
// leaving a gap in the log. Idempotence stays on, as it is by default.
func ProducerOpts() []kgo.Opt {
	return []kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.StopProducerOnDataLossDetected(),
	}
}

const remedyProducer = "make the client with the options of changelog.ProducerOpts"

// NewWriter returns a writer for one partition. It sends with cl, which others may use as
// well and which the caller closes; it does not talk to the broker yet. Errors are
// [ErrWrongPartition] and [store.ErrConfig] for a client that was not made with
// [ProducerOpts].
func NewWriter(cl *kgo.Client, topic string, partition int32, opts ...WriterOption) (*Writer, error) {
	w := &Writer{cl: cl, topic: topic, partition: partition, ctx: context.Background(), flushed: -1}
	for _, o := range opts {
		o(w)
	}
	if id, _ := cl.OptValue(kgo.TransactionalID).(string); id != "" {
		w.leader = cl.PartitionLeader
	}
	w.now = w.newRound()
	if !keepsPartition(cl, topic, partition) {
		return nil, w.fail("open", fmt.Errorf("%w: the client's partitioner chooses partitions itself", ErrWrongPartition), remedyProducer)
	}
	if acks, ok := cl.OptValue(kgo.RequiredAcks).(kgo.Acks); ok && acks != kgo.AllISRAcks() {
		return nil, w.fail("open", fmt.Errorf("%w: the client does not wait for all in-sync replicas", store.ErrConfig), remedyProducer)
	}
	return w, nil
}

// keepsPartition asks the partitioner about a few records, before one could land in the
// log of another task.
func keepsPartition(cl *kgo.Client, topic string, partition int32) bool {
	p, ok := cl.OptValue(kgo.RecordPartitioner).(kgo.Partitioner)
	if !ok {
		return true // cannot be asked; the acknowledgement will tell
	}
	t := p.ForTopic(topic)
	if _, backup := t.(kgo.TopicBackupPartitioner); backup {
		return false // looks only at how much is buffered
	}
	// No partitioner that goes by key, by turns, by chance or by habit follows these.
	for _, step := range []int32{0, 3, 0, 1, 1, 0} {
		r := &kgo.Record{Topic: topic, Partition: partition + step, Key: []byte("key")}
		if t.Partition(r, int(partition)+4) != int(r.Partition) {
			return false
		}
	}
	return true
}

// Topic is the changelog topic.
func (w *Writer) Topic() string { return w.topic }

// Partition is the partition of the topic.
func (w *Writer) Partition() int32 { return w.partition }

// Append queues a record. It returns before the record is sent, but waits while the
// client's buffer is full. It keeps the change's key, value and header values, which
// nobody may change afterwards, and a copy of the header list.
//
// When it returns an error, nothing was queued: [store.ErrNilKey],
// [store.ErrNegativeTimestamp], [store.ErrUnencodable] for a timestamp after the year
// 2262, [store.ErrCorrupt] for headers from a malformed block, and [ErrNotWritten] or
// [ErrWrongPartition] once a record queued earlier has failed.
func (w *Writer) Append(c store.Change) error {
	if err := w.check(c); err != nil {
		return err
	}
	headers, err := RecordHeaders(c.Headers)
	if err != nil {
		return w.fail("append", store.Locate(err, "", "", c.Key), "")
	}
	w.mu.Lock()
	r := w.now
	if r.err != nil {
		w.mu.Unlock()
		return r.err
	}
	r.pending++
	w.mu.Unlock()
	w.cl.Produce(w.ctx, &kgo.Record{
		Topic:     w.topic,
		Partition: w.partition,
		Key:       c.Key,
		Value:     c.Value,
		Timestamp: time.UnixMilli(c.Timestamp),
		Headers:   headers,
	}, r.promise)
	return nil
}

var _ store.ChangeChecker = (*Writer)(nil)

// Check returns the error that Append would return for the change itself.
func (w *Writer) Check(c store.Change) error {
	if err := w.check(c); err != nil {
		return err
	}
	if err := c.Headers.Err(); err != nil {
		return w.fail("append", store.Locate(err, "", "", c.Key), "")
	}
	return nil
}

func (w *Writer) check(c store.Change) error {
	switch {
	case c.Key == nil:
		return w.fail("append", store.ErrNilKey, "")
	case c.Timestamp < 0:
		return w.fail("append", fmt.Errorf("%w: %d", store.ErrNegativeTimestamp, c.Timestamp),
			"log the row with the timestamp of the record being processed")
	case c.Timestamp > maxTimestamp:
		return w.fail("append", fmt.Errorf("timestamp %d: %w", c.Timestamp, store.ErrUnencodable), "")
	}
	return nil
}

func (w *Writer) newRound() *round {
	r := &round{w: w, last: w.flushed}
	r.promise = r.done
	return r
}

func (r *round) done(rec *kgo.Record, err error) {
	w := r.w
	switch {
	case err != nil:
		err = w.fail("write", fmt.Errorf("%w: %w", ErrNotWritten, err), "abort, Reset the writer and process the input again")
	case rec.Partition != w.partition:
		err = w.fail("write", fmt.Errorf("%w: a record was written to partition %d", ErrWrongPartition, rec.Partition), remedyProducer)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	r.pending--
	if err == nil {
		r.last = max(r.last, rec.Offset)
	} else if r.err == nil {
		r.err = err
	}
	if r.pending == 0 && r.idle != nil {
		close(r.idle)
		r.idle = nil
	}
}

// Flush sends what the client holds back and waits until every record that Append took is
// acknowledged or has failed. It returns the offset of the last one ever acknowledged; ok
// is false when there was none. After a failure it returns the first error, an
// [ErrNotWritten] or [ErrWrongPartition], and so does every later Append and Flush until
// Reset. When ctx ends first, the records stay queued and Flush can be called again.
//
// Commit a transaction after this Flush, not only after the client's own: else the first
// transaction that writes to a topic can be aborted while EndTransaction(TryCommit) returns
// nil (kgo up to 1.22.3). For a topic that you write to without a Writer, wait until the
// client's PartitionLeader knows the partition.
func (w *Writer) Flush(ctx context.Context) (last int64, ok bool, err error) {
	w.mu.Lock()
	r := w.now
	waiting := r.pending > 0
	w.mu.Unlock()
	if waiting {
		// For records that linger. It also waits for those of others; ours are counted below.
		if err := w.cl.Flush(ctx); err != nil {
			return 0, false, w.fail("flush", err, "")
		}
	}
	if err := r.wait(ctx); err != nil {
		return 0, false, w.fail("flush", err, "")
	}
	w.mu.Lock()
	last, failed := r.last, r.err
	w.mu.Unlock()
	if failed != nil {
		return 0, false, failed
	}
	if last < 0 {
		return last, false, nil
	}
	if err := w.awaitListed(ctx); err != nil {
		return 0, false, w.fail("flush", err, "")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if r == w.now {
		w.flushed = max(w.flushed, last) // another Flush may have come further
	}
	return last, true, nil
}

// awaitListed waits until a transactional client lists the partition that it has written to.
// Records of a topic that is new to it leave before the list has its partitions (kgo 1.22.3,
// storePartitionsUpdate), and EndTransaction goes by the list: a commit in between aborts
// the transaction and returns nil, and the next one fails for its sequence numbers. It is
// a matter of microseconds, or of one lost time slice, and there is nothing to be notified by.
func (w *Writer) awaitListed(ctx context.Context) error {
	if w.leader == nil {
		return nil
	}
	for wait := 10 * time.Microsecond; ; wait = min(2*wait, 10*time.Millisecond) {
		leader, _, err := w.leader(w.topic, w.partition)
		if leader >= 0 || err != nil { // an error is the partition's own: it is listed
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

func (r *round) wait(ctx context.Context) error {
	r.w.mu.Lock()
	if r.pending == 0 {
		r.w.mu.Unlock()
		return nil
	}
	if r.idle == nil {
		r.idle = make(chan struct{})
	}
	idle := r.idle
	r.w.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Reset forgets everything since the last successful Flush: the error, the records still
// queued and the offsets of those acknowledged. It is for a transaction that was aborted,
// together with the rows that the store dropped. It does not take records back: end the
// transaction first, or call the client's AbortBufferedRecords, else a forgotten record
// can still be written.
func (w *Writer) Reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.newRound()
}

func (w *Writer) fail(op string, err error, remedy string) error {
	return &Error{Topic: w.topic, Partition: w.partition, Op: op, Err: err, Remedy: remedy}
}
