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

// commitInput makes the records processed so far count as read.
func (a *App) commitInput(ctx context.Context) error {
	var failed error
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for topic, at := range a.pending {
		offsets[topic] = map[int32]kgo.EpochOffset{onlyPartition: at}
	}
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
