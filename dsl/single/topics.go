package single

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-streams/forebay/changelog"
	"github.com/forebay-streams/forebay/dsl/internal/engine"
	"github.com/forebay-streams/forebay/store"
)

var kinds = map[engine.ChangelogKind]changelog.Kind{
	engine.Compacted: changelog.KeyValue,
	engine.Windowed:  changelog.Window,
	engine.Deleted:   changelog.JoinWindow,
	engine.Versioned: changelog.Versioned,
}

func ensureChangelog(ctx context.Context, adm *kadm.Client, app string, s *engine.Store) error {
	return changelog.EnsureTopic(ctx, adm, changelog.Spec{
		Topic: changelog.Name(app, s.Name), Partitions: 1, Kind: kinds[s.Changelog.Kind],
		Retention: time.Duration(s.Changelog.Retention) * time.Millisecond,
	})
}

// ensureRepartition makes a topic that keeps its records until they are deleted.
func ensureRepartition(ctx context.Context, adm *kadm.Client, topic string) error {
	settings := map[string]*string{}
	for name, value := range map[string]string{
		"cleanup.policy": "delete", "retention.ms": "-1", "segment.bytes": "52428800", "message.timestamp.type": "CreateTime",
	} {
		settings[name] = kadm.StringPtr(value)
	}
	_, err := adm.CreateTopic(ctx, 1, -1, settings, topic)
	if errors.Is(err, kerr.TopicAlreadyExists) {
		return nil
	}
	return err
}

// reader is the task that reads a topic.
func (a *App) reader(topic string) *engine.Task {
	for _, t := range a.tasks {
		if t.Reads(topic) {
			return t
		}
	}
	return nil
}

// A broker makes the topic of committed offsets when somebody first asks for them, and loads
// it after a move. Waits double from the first to the second, half a minute in all.
const (
	coordinatorWait     = 50 * time.Millisecond
	coordinatorPatience = 15 * time.Second
)

// unready tells whether the coordinator will answer in a while.
func unready(err error) bool {
	return errors.Is(err, kerr.CoordinatorNotAvailable) || errors.Is(err, kerr.CoordinatorLoadInProgress) || errors.Is(err, kerr.NotCoordinator)
}

// resume takes up what the last commit says about time, and about the windows that have
// been emitted.
func (a *App) resume(ctx context.Context) error {
	adm := kadm.NewClient(a.producer)
	committed, err := adm.FetchOffsets(ctx, a.config.App)
	for wait := coordinatorWait; unready(err) && wait < coordinatorPatience; wait *= 2 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		committed, err = adm.FetchOffsets(ctx, a.config.App)
	}
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, topic := range a.sources {
		at, ok := committed.Lookup(topic, onlyPartition)
		if !ok || at.Err != nil || at.At < 0 {
			continue
		}
		m, err := engine.ParseMetadata(at.Metadata)
		if err != nil {
			a.config.Logger.Warn("stream time begins anew", "topic", topic, "reason", err)
		}
		a.reader(topic).ResumePartition(topic, onlyPartition, m)
		a.next[topic] = kgo.EpochOffset{Epoch: at.LeaderEpoch, Offset: at.At}
	}
	return nil
}

// commitInput makes the records processed so far count as read. With each offset goes the
// time of its partition, with all of them what the tasks remember.
func (a *App) commitInput(ctx context.Context) error {
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for topic, at := range a.next {
		offsets[topic] = map[int32]kgo.EpochOffset{onlyPartition: at}
	}
	ctx = kgo.PreCommitFnContext(ctx, func(r *kmsg.OffsetCommitRequest) error {
		for i, t := range r.Topics {
			m := a.reader(t.Topic).Metadata(t.Topic, onlyPartition).String()
			for j := range t.Partitions {
				r.Topics[i].Partitions[j].Metadata = &m
			}
		}
		return nil
	})
	var failed error
	a.consumer.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, r *kmsg.OffsetCommitResponse, err error) {
		failed = err
		if r == nil {
			return
		}
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				failed = errors.Join(failed, kerr.ErrorForCode(p.ErrorCode))
			}
		}
	})
	return failed
}

// dated gives records without timestamp, of buffers, the time at which they are logged.
type dated struct{ store.Changelog }

func (l dated) Append(c store.Change) error {
	if c.Timestamp == store.NoTimestamp {
		c.Timestamp = time.Now().UnixMilli()
	}
	return l.Changelog.Append(c)
}

// Check is that of the writer, if it has one.
func (l dated) Check(c store.Change) error {
	if check, ok := l.Changelog.(store.ChangeChecker); ok {
		return check.Check(c)
	}
	return c.Headers.Err()
}
