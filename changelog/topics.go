package changelog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/forebay-streams/forebay/store"
)

// Kind is the kind of a store, which decides how its changelog is cleaned.
type Kind uint8

// The kinds. With and without headers or timestamps they are the same.
const (
	KeyValue  Kind = iota // compacted
	Window                // compacted, and deleted when older than the retention
	Session               // as Window
	Versioned             // compacted, but not within the history
	// JoinWindow is a window store that keeps every record it is given: a key and time may
	// come again, so that its changelog is not compacted, only deleted after the retention.
	JoinWindow
)

// String is the kind's name.
func (k Kind) String() string {
	switch k {
	case KeyValue:
		return "key-value"
	case Window:
		return "window"
	case Session:
		return "session"
	case Versioned:
		return "versioned"
	case JoinWindow:
		return "join window"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// DefaultMargin is what a changelog keeps beyond a store's retention, as in Kafka Streams
// (windowstore.changelog.additional.retention.ms): brokers and stores have different clocks.
const DefaultMargin = 24 * time.Hour

// Spec says what a changelog topic must be like.
type Spec struct {
	Topic string
	// Partitions is the number of tasks: that of the input's partitions.
	Partitions int32
	// Replication is the replication factor; 0 leaves it to the broker. It is used at
	// creation and not checked.
	Replication int16
	Kind        Kind
	// Retention is how long a Window, Session or JoinWindow store keeps a row, and how far back a
	// Versioned one remembers (its history). KeyValue has none.
	Retention time.Duration
	// Margin is added to Retention; 0 means DefaultMargin.
	Margin time.Duration
	// Settings are further topic settings for creation, such as segment.bytes. They cannot
	// replace those that the kind needs, and are not checked.
	Settings map[string]string
}

// Name is the name of a store's changelog topic, as in Kafka Streams.
func Name(application, storeName string) string {
	return application + "-" + storeName + "-changelog"
}

const (
	cleanupPolicy    = "cleanup.policy"
	retention        = "retention.ms"
	minCompactionLag = "min.compaction.lag.ms"
	timestampType    = "message.timestamp.type"
)

// required returns the settings that the store's rows depend on.
func (s Spec) required() (map[string]string, error) {
	bad := func(format string, args ...any) (map[string]string, error) {
		return nil, fmt.Errorf("changelog topic %q: %w: %s", s.Topic, store.ErrConfig, fmt.Sprintf(format, args...))
	}
	margin := s.Margin
	if margin == 0 {
		margin = DefaultMargin
	}
	kept := strconv.FormatInt((s.Retention + margin).Milliseconds(), 10)
	settings := map[string]string{timestampType: "CreateTime"}
	switch {
	case s.Topic == "":
		return bad("no name")
	case s.Partitions < 1:
		return bad("%d partitions", s.Partitions)
	case s.Kind > JoinWindow:
		return bad("unknown %v", s.Kind)
	case s.Margin < 0:
		return bad("negative margin %v", s.Margin)
	case s.Kind == KeyValue && s.Retention != 0:
		return bad("a key-value store has no retention")
	case s.Kind != KeyValue && s.Retention <= 0:
		return bad("a %v store needs a retention, not %v", s.Kind, s.Retention)
	case s.Retention > 0 && s.Retention+margin < 0:
		return bad("retention and margin overflow")
	}
	switch s.Kind {
	case KeyValue:
		settings[cleanupPolicy] = "compact"
	case Window, Session:
		settings[cleanupPolicy] = "compact,delete"
		settings[retention] = kept
	case JoinWindow:
		settings[cleanupPolicy] = "delete"
		settings[retention] = kept
	case Versioned:
		settings[cleanupPolicy] = "compact"
		settings[minCompactionLag] = kept
	}
	for name := range s.Settings {
		if want, ok := settings[name]; ok && s.Settings[name] != want {
			return bad("%s must be %s", name, want)
		}
	}
	return settings, nil
}

// TopicOption changes what [EnsureTopic] does.
type TopicOption func(*topicConfig)

type topicConfig struct {
	tolerant *slog.Logger
}

// TolerateMismatch makes EnsureTopic write a warning for a topic with wrong settings
// instead of returning an error. It is an error by default. A nil logger is silent.
func TolerateMismatch(log *slog.Logger) TopicOption {
	return func(c *topicConfig) { c.tolerant = orSilent(log) }
}

// EnsureTopic creates the topic or checks the one that exists. It returns when every
// partition has a leader.
//
// A topic that exists must have the asked number of partitions, the cleanup policy of its
// kind, and timestamps from the records. It may keep rows longer than asked, not shorter.
// Else the error is a [MismatchError], which is [ErrTopicMismatch]. A spec that makes no
// sense is [store.ErrConfig].
func EnsureTopic(ctx context.Context, adm *kadm.Client, spec Spec, opts ...TopicOption) error {
	var c topicConfig
	for _, o := range opts {
		o(&c)
	}
	required, err := spec.required()
	if err != nil {
		return err
	}
	fail := func(what string, err error) error {
		return fmt.Errorf("changelog topic %s: %s: %w", spec.Topic, what, err)
	}
	// Looked at before created: those who only use a topic may lack the right to create one.
	d, err := describe(ctx, adm, spec.Topic)
	created := false
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		err = create(ctx, adm, spec, required)
		if created = err == nil; err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return fail("create", err)
		}
		d, err = led(ctx, adm, spec.Topic)
	}
	if err != nil {
		return fail("describe", err)
	}
	if created {
		return nil
	}
	differences, err := compare(ctx, adm, spec, required, len(d.Partitions))
	if err != nil {
		return fail("describe", err)
	}
	if len(differences) == 0 {
		return nil
	}
	mismatch := &MismatchError{Topic: spec.Topic, Differences: differences}
	if c.tolerant != nil {
		for _, d := range differences {
			c.tolerant.Warn("changelog topic has a wrong setting", "topic", spec.Topic,
				"setting", d.Setting, "want", d.Want, "have", d.Have, "remedy", d.Remedy)
		}
		return nil
	}
	return mismatch
}

func describe(ctx context.Context, adm *kadm.Client, topic string) (kadm.TopicDetail, error) {
	// Asking for the authorized operations goes past the client's cache, which would still
	// say for seconds that a topic just made does not exist.
	all, err := adm.ListTopics(kadm.WithAuthorizedOps(ctx), topic)
	if err != nil {
		return kadm.TopicDetail{}, err
	}
	d, ok := all[topic]
	if !ok {
		return d, kerr.UnknownTopicOrPartition
	}
	return d, d.Err
}

// led waits until the brokers know a new topic and each partition has a leader, so that
// whoever writes next does not meet an unknown topic.
func led(ctx context.Context, adm *kadm.Client, topic string) (kadm.TopicDetail, error) {
	var wait backoff
	for {
		d, err := describe(ctx, adm, topic)
		if err == nil {
			for _, p := range d.Partitions {
				err = errors.Join(err, p.Err)
			}
		}
		if err == nil && len(d.Partitions) > 0 {
			return d, nil
		}
		if d.Err != nil && !kerr.IsRetriable(d.Err) {
			return d, err
		}
		if e := wait.sleep(ctx); e != nil {
			return d, errors.Join(e, err)
		}
	}
}

func create(ctx context.Context, adm *kadm.Client, spec Spec, required map[string]string) error {
	settings := maps.Clone(spec.Settings)
	if settings == nil {
		settings = map[string]string{}
	}
	maps.Copy(settings, required)
	pointers := make(map[string]*string, len(settings))
	for name, value := range settings {
		pointers[name] = &value
	}
	replication := spec.Replication
	if replication == 0 {
		replication = -1
	}
	_, err := adm.CreateTopic(ctx, spec.Partitions, replication, pointers, spec.Topic)
	return err
}

func compare(ctx context.Context, adm *kadm.Client, spec Spec, required map[string]string, partitions int) ([]Difference, error) {
	all, err := adm.DescribeTopicConfigs(ctx, spec.Topic)
	if err != nil {
		return nil, err
	}
	described, err := all.On(spec.Topic, nil)
	if err == nil {
		err = described.Err
	}
	if err != nil {
		return nil, err
	}
	have := make(map[string]string, len(described.Configs))
	for _, c := range described.Configs {
		have[c.Key] = c.MaybeValue()
	}
	var out []Difference
	for _, name := range slices.Sorted(maps.Keys(required)) {
		if !suffices(name, required[name], have[name]) {
			out = append(out, Difference{name, required[name], have[name],
				fmt.Sprintf("alter the topic: %s=%s", name, required[name])})
		}
	}
	if partitions != int(spec.Partitions) {
		// Sorts between the others.
		out = append(out, Difference{"partitions", strconv.Itoa(int(spec.Partitions)), strconv.Itoa(partitions),
			"rows cannot be moved between partitions: reset the application, or give the input its old partition count"})
		slices.SortFunc(out, func(a, b Difference) int { return strings.Compare(a.Setting, b.Setting) })
	}
	return out, nil
}

// suffices tells whether a topic's setting keeps what the wanted one would keep.
func suffices(name, want, have string) bool {
	switch name {
	case cleanupPolicy:
		return slices.Equal(policies(want), policies(have))
	case retention, minCompactionLag:
		w, err1 := strconv.ParseInt(want, 10, 64)
		h, err2 := strconv.ParseInt(have, 10, 64)
		forever := name == retention && h == -1
		return err1 == nil && err2 == nil && (h >= w || forever)
	}
	return want == have
}

// policies returns the items of a cleanup policy, whose order means nothing.
func policies(s string) []string {
	list := strings.Split(s, ",")
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	slices.Sort(list)
	return slices.Compact(list)
}
