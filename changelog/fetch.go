package changelog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxWait is how long the broker holds a fetch that it has nothing for, which happens
// only behind an open transaction.
const maxWait = 200 // milliseconds

// Times of a ListOffsets request with a meaning of their own.
const (
	earliest int64 = -2
	latest   int64 = -1
)

// errAnotherTopic: the topic was deleted and one of the same name made.
var errAnotherTopic = errors.New("the topic has another id than before")

// source reads one partition with raw requests to its leader. A kgo consumer does not
// tell its position, and the position alone says that a log was read to its end.
type source struct {
	cl        *kgo.Client
	topic     string
	partition int32
	isolation kgo.IsolationLevel
	maxBytes  int32
	log       *slog.Logger

	id           [16]byte // zero: not known yet, or not known to the broker
	leader       int32    // -1: ask for it
	epoch        int32
	decompressor kgo.Decompressor
}

// chunk is what one fetch brought.
type chunk struct {
	records []*kgo.Record // in offset order; neither markers nor aborted ones
	next    int64         // the position behind everything read, records or not
	bytes   int           // that the records keep in memory
	stable  int64         // the last stable offset
}

// do runs one request against the leader, again and again while that can help.
func (s *source) do(ctx context.Context, op string, request func() error) error {
	var wait backoff
	doubts := 0
	for {
		err := s.locate(ctx)
		if err == nil {
			err = request()
		}
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return s.fail(op, ctx.Err(), "")
		}
		switch outlookOf(err) {
		case hopeless:
			return s.final(op, err)
		case unsure:
			if doubts++; doubts == unsureTries {
				return s.final(op, err)
			}
		case passing:
			doubts = 0
		}
		// Whatever it was, the leader may have moved.
		s.leader = -1
		s.log.Warn("changelog request failed, trying again", "op", op, "error", err)
		if err := wait.sleep(ctx); err != nil {
			return s.fail(op, err, "")
		}
	}
}

// final turns the error of a request into the user's.
func (s *source) final(op string, err error) error {
	var e *Error
	switch {
	case errors.As(err, &e):
		return err
	case errors.Is(err, errAnotherTopic):
		return s.fail(op, fmt.Errorf("%w: %w", ErrTopicMissing, err),
			"bring the old topic back, or wipe the store to rebuild it from the new one")
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.InconsistentTopicID):
		return s.fail(op, fmt.Errorf("%w: %w", ErrTopicMissing, err),
			"create it with EnsureTopic; if it was deleted, the store on disk is the only copy of its rows")
	}
	return s.fail(op, err, "")
}

// locate finds the leader, unless it is known.
func (s *source) locate(ctx context.Context) error {
	if s.leader >= 0 {
		return nil
	}
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(s.topic)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, s.cl)
	if err != nil {
		return err
	}
	if len(resp.Topics) != 1 {
		return kerr.UnknownTopicOrPartition
	}
	topic := &resp.Topics[0]
	if err := kerr.ErrorForCode(topic.ErrorCode); err != nil {
		return err
	}
	var none [16]byte
	if s.id != none && topic.TopicID != s.id {
		return errAnotherTopic
	}
	for i := range topic.Partitions {
		p := &topic.Partitions[i]
		if p.Partition != s.partition {
			continue
		}
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
			return err
		}
		if p.Leader < 0 {
			return kerr.LeaderNotAvailable
		}
		s.id, s.leader, s.epoch = topic.TopicID, p.Leader, p.LeaderEpoch
		return nil
	}
	return fmt.Errorf("%w: the topic has %d partitions", kerr.UnknownTopicOrPartition, len(topic.Partitions))
}

// offset returns the log's start or end. The end is that of all records, those of open
// transactions included: the last stable offset may not cover yet what was committed last.
func (s *source) offset(ctx context.Context, at int64) (offset int64, err error) {
	err = s.do(ctx, "list offsets", func() error {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp, p.CurrentLeaderEpoch = s.partition, at, s.epoch
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = s.topic
		t.Partitions = append(t.Partitions, p)
		req := kmsg.NewPtrListOffsetsRequest()
		req.Topics = append(req.Topics, t)
		resp, err := req.RequestWith(ctx, s.cl.Broker(int(s.leader)))
		if err != nil {
			return err
		}
		if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
			return s.unreadable("list offsets", "an answer for other partitions than asked for")
		}
		answer := &resp.Topics[0].Partitions[0]
		offset = answer.Offset
		return kerr.ErrorForCode(answer.ErrorCode)
	})
	return offset, err
}

// fetch reads from a position on. It returns ErrOutOfRange when the log has no such
// position.
func (s *source) fetch(ctx context.Context, at int64) (c chunk, err error) {
	err = s.do(ctx, "fetch", func() error {
		resp, err := s.fetchRequest(at).RequestWith(ctx, s.cl.Broker(int(s.leader)))
		if err != nil {
			return err
		}
		if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
			return err
		}
		if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
			return s.unreadable("fetch", "an answer for other partitions than asked for")
		}
		p := &resp.Topics[0].Partitions[0]
		switch err := kerr.ErrorForCode(p.ErrorCode); {
		case errors.Is(err, kerr.OffsetOutOfRange):
			return s.outOfRange(at)
		case err != nil:
			return err
		}
		c, err = s.decode(p, at)
		return err
	})
	return c, err
}

func (s *source) fetchRequest(at int64) *kmsg.FetchRequest {
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.CurrentLeaderEpoch, p.PartitionMaxBytes = s.partition, at, s.epoch, s.maxBytes
	t := kmsg.NewFetchRequestTopic()
	// From version 13 on the id names the topic, before that the name.
	t.Topic, t.TopicID = s.topic, s.id
	t.Partitions = append(t.Partitions, p)
	req := kmsg.NewPtrFetchRequest()
	// The bound is the partition's: it is the only one asked for.
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = maxWait, 1, math.MaxInt32
	if s.isolation == kgo.ReadCommitted() {
		req.IsolationLevel = 1
	}
	req.Topics = append(req.Topics, t)
	return req
}

func (s *source) decode(p *kmsg.FetchResponseTopicPartition, at int64) (chunk, error) {
	c := chunk{stable: p.LastStableOffset}
	fp, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		Offset:         at,
		IsolationLevel: s.isolation,
		Topic:          s.topic,
		Partition:      s.partition,
	}, p, s.decompressor, func(m kgo.FetchBatchMetrics) { c.bytes += m.UncompressedBytes })
	c.records, c.next = fp.Records, next
	if fp.Err != nil {
		// What lies before the bad batch is good. The next fetch begins with the bad one, so
		// the position must not be behind it, as it is for a batch of an unknown version.
		n := len(fp.Records)
		if n == 0 {
			return chunk{}, s.unreadable("fetch", fp.Err.Error())
		}
		c.next = fp.Records[n-1].Offset + 1
	}
	if c.next == at && len(p.RecordBatches) > 0 {
		return chunk{}, s.unreadable("fetch", fmt.Sprintf("%d bytes without a whole batch for offset %d", len(p.RecordBatches), at))
	}
	return c, nil
}

func (s *source) outOfRange(at int64) error {
	return s.fail("fetch", fmt.Errorf("%w: %d", ErrOutOfRange, at),
		"keep the changelog longer than a restore takes")
}

func (s *source) unreadable(op, what string) error {
	return s.fail(op, fmt.Errorf("%w: %s", ErrUnreadable, what),
		"look at the partition with the broker's tools; the store on disk was not changed by these bytes")
}

func (s *source) fail(op string, err error, remedy string) error {
	return &Error{Topic: s.topic, Partition: s.partition, Op: op, Err: err, Remedy: remedy}
}
