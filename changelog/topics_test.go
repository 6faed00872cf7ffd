package changelog

import (
	"log/slog"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-streams/forebay/store"
)

func TestName(t *testing.T) {
	require.Equal(t, "app-orders-changelog", Name("app", "orders"))
}

const hour = time.Hour

func specs() map[string]Spec {
	return map[string]Spec{
		"kv":        {Kind: KeyValue},
		"window":    {Kind: Window, Retention: 2 * hour},
		"session":   {Kind: Session, Retention: 3 * hour, Margin: hour},
		"versioned": {Kind: Versioned, Retention: 5 * hour},
	}
}

func wanted() map[string]map[string]string {
	return map[string]map[string]string{
		"kv":        {"cleanup.policy": "compact"},
		"window":    {"cleanup.policy": "compact,delete", "retention.ms": "93600000"},
		"session":   {"cleanup.policy": "compact,delete", "retention.ms": "14400000"},
		"versioned": {"cleanup.policy": "compact", "min.compaction.lag.ms": "104400000"},
	}
}

func settings(t testing.TB, adm *kadm.Client, topic string) map[string]string {
	t.Helper()
	all, err := adm.DescribeTopicConfigs(testContext(t), topic)
	require.NoError(t, err)
	described, err := all.On(topic, nil)
	require.NoError(t, err)
	out := map[string]string{}
	for _, c := range described.Configs {
		out[c.Key] = c.MaybeValue()
	}
	return out
}

// AK #21950: a topic for every kind has the settings of that kind.
func testEnsureTopic(t *testing.T, seeds []string, replication int16, prefix string) {
	adm := kadm.NewClient(newClient(t, seeds))
	for name, spec := range specs() {
		spec.Topic, spec.Partitions, spec.Replication = Name(prefix, name), 3, replication
		spec.Settings = map[string]string{"segment.bytes": "20000000"}
		require.NoError(t, EnsureTopic(testContext(t), adm, spec), name)
		got := settings(t, adm, spec.Topic)
		for setting, want := range wanted()[name] {
			require.Equal(t, want, got[setting], "%s %s", name, setting)
		}
		require.Equal(t, "CreateTime", got["message.timestamp.type"])
		require.Equal(t, "20000000", got["segment.bytes"])
		d, err := describe(testContext(t), adm, spec.Topic)
		require.NoError(t, err)
		require.Len(t, d.Partitions, 3)

		require.NoError(t, EnsureTopic(testContext(t), adm, spec), "%s: exists as it must be", name)
	}
}

func TestEnsureTopic(t *testing.T) {
	testEnsureTopic(t, newCluster(t).ListenAddrs(), 0, "app")
}

func TestEnsureTopicChecksWhatExists(t *testing.T) {
	for name, tc := range map[string]struct {
		kind string
		have map[string]string
		want []Difference // without remedies
	}{
		"kv as needed":              {"kv", map[string]string{"cleanup.policy": "compact"}, nil},
		"kv that forgets":           {"kv", map[string]string{"cleanup.policy": "compact,delete"}, []Difference{{Setting: "cleanup.policy", Want: "compact", Have: "compact,delete"}}},
		"kv not compacted":          {"kv", map[string]string{"cleanup.policy": "delete"}, []Difference{{Setting: "cleanup.policy", Want: "compact", Have: "delete"}}},
		"time of the broker":        {"kv", map[string]string{"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"}, []Difference{{Setting: "message.timestamp.type", Want: "CreateTime", Have: "LogAppendTime"}}},
		"window, order turned":      {"window", map[string]string{"cleanup.policy": "delete, compact", "retention.ms": "93600000"}, nil},
		"window kept longer":        {"window", map[string]string{"cleanup.policy": "compact,delete", "retention.ms": "93600001"}, nil},
		"window kept for ever":      {"window", map[string]string{"cleanup.policy": "compact,delete", "retention.ms": "-1"}, nil},
		"window kept shorter":       {"window", map[string]string{"cleanup.policy": "compact,delete", "retention.ms": "93599999"}, []Difference{{Setting: "retention.ms", Want: "93600000", Have: "93599999"}}},
		"window as kv":              {"window", map[string]string{"cleanup.policy": "compact", "retention.ms": "3600000"}, []Difference{{Setting: "cleanup.policy", Want: "compact,delete", Have: "compact"}, {Setting: "retention.ms", Want: "93600000", Have: "3600000"}}},
		"session kept shorter":      {"session", map[string]string{"cleanup.policy": "compact,delete", "retention.ms": "1"}, []Difference{{Setting: "retention.ms", Want: "14400000", Have: "1"}}},
		"versioned compacted early": {"versioned", map[string]string{"cleanup.policy": "compact", "min.compaction.lag.ms": "104399999"}, []Difference{{Setting: "min.compaction.lag.ms", Want: "104400000", Have: "104399999"}}},
		"versioned compacted late":  {"versioned", map[string]string{"cleanup.policy": "compact", "min.compaction.lag.ms": "104400001"}, nil},
	} {
		c := newCluster(t)
		adm := kadm.NewClient(newClient(t, c.ListenAddrs()))
		spec := specs()[tc.kind]
		spec.Topic, spec.Partitions = "checked", 2
		require.NoError(t, c.CreateTopic("checked", 2, tc.have), name)
		err := EnsureTopic(testContext(t), adm, spec)
		if tc.want == nil {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorIs(t, err, ErrTopicMismatch, name)
		var m *MismatchError
		require.ErrorAs(t, err, &m, name)
		require.Equal(t, "checked", m.Topic)
		require.Len(t, m.Differences, len(tc.want), name)
		for i, want := range tc.want {
			got := m.Differences[i]
			require.NotEmpty(t, got.Remedy, name)
			require.Contains(t, err.Error(), got.Remedy, name)
			got.Remedy = ""
			require.Equal(t, want, got, name)
		}
		lines := &recorder{}
		require.NoError(t, EnsureTopic(testContext(t), adm, spec, TolerateMismatch(slog.New(lines))), name)
		require.Equal(t, len(tc.want), lines.count("changelog topic has a wrong setting"), name)
		require.NoError(t, EnsureTopic(testContext(t), adm, spec, TolerateMismatch(nil)), name)
	}
}

func TestEnsureTopicChecksThePartitionCount(t *testing.T) {
	c := newCluster(t)
	adm := kadm.NewClient(newClient(t, c.ListenAddrs()))
	require.NoError(t, c.CreateTopic("checked", 2, map[string]string{"cleanup.policy": "delete"}))
	err := EnsureTopic(testContext(t), adm, Spec{Topic: "checked", Partitions: 4})
	var m *MismatchError
	require.ErrorAs(t, err, &m)
	require.Len(t, m.Differences, 2)
	require.Equal(t, "partitions", m.Differences[1].Setting)
	require.Equal(t, "4", m.Differences[1].Want)
	require.Equal(t, "2", m.Differences[1].Have)
	require.ErrorContains(t, err, `changelog topic checked has wrong settings: cleanup.policy is "delete", must be "compact"`)
}

func TestEnsureTopicRefusesBadSpecs(t *testing.T) {
	c := newCluster(t)
	adm := kadm.NewClient(newClient(t, c.ListenAddrs()))
	good := Spec{Topic: "t", Partitions: 1, Kind: Window, Retention: hour}
	for name, change := range map[string]func(*Spec){
		"no name":              func(s *Spec) { s.Topic = "" },
		"no partitions":        func(s *Spec) { s.Partitions = 0 },
		"unknown kind":         func(s *Spec) { s.Kind = 9 },
		"no retention":         func(s *Spec) { s.Retention = 0 },
		"negative retention":   func(s *Spec) { s.Retention = -1 },
		"negative margin":      func(s *Spec) { s.Margin = -1 },
		"overflow":             func(s *Spec) { s.Retention = 1<<63 - 1 },
		"kv with retention":    func(s *Spec) { s.Kind = KeyValue },
		"contradicting policy": func(s *Spec) { s.Settings = map[string]string{"cleanup.policy": "compact"} },
	} {
		s := good
		change(&s)
		require.ErrorIs(t, EnsureTopic(testContext(t), adm, s), store.ErrConfig, name)
	}
	require.Nil(t, c.TopicInfo("t"))
	for k, want := range map[Kind]string{KeyValue: "key-value", Window: "window", Session: "session", Versioned: "versioned", 9: "Kind(9)"} {
		require.Equal(t, want, k.String())
	}
}

func TestEnsureTopicLosesARace(t *testing.T) {
	for policy, want := range map[string]error{"compact": nil, "delete": ErrTopicMismatch} {
		c := newCluster(t)
		c.ControlKey(int16(kmsg.CreateTopics), func(kmsg.Request) (kmsg.Response, error, bool) {
			c.SleepControl(func() { _ = c.CreateTopic("raced", 1, map[string]string{"cleanup.policy": policy}) })
			return nil, nil, false
		})
		err := EnsureTopic(testContext(t), kadm.NewClient(newClient(t, c.ListenAddrs())), Spec{Topic: "raced", Partitions: 1})
		if want == nil {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, want)
		}
	}
}

func TestEnsureTopicReturnsTheBrokersErrors(t *testing.T) {
	for _, key := range []kmsg.Key{kmsg.Metadata, kmsg.CreateTopics} {
		c := newCluster(t)
		c.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Topic: "t", Err: kerr.TopicAuthorizationFailed, Count: -1})
		err := EnsureTopic(testContext(t), kadm.NewClient(newClient(t, c.ListenAddrs())), Spec{Topic: "t", Partitions: 1})
		require.ErrorIs(t, err, kerr.TopicAuthorizationFailed)
	}
}

func TestEnsureTopicWaitsForLeaders(t *testing.T) {
	c := newCluster(t)
	cl := newClient(t, c.ListenAddrs(), kgo.MetadataMinAge(10*time.Millisecond))
	asked := 0
	c.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		asked++
		return nil, nil, false
	})
	// The first look finds no topic; the two after the creation find no leader.
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "t", Err: kerr.LeaderNotAvailable, Count: 2,
		When: func(kmsg.Request) bool { return asked > 1 }})
	require.NoError(t, EnsureTopic(testContext(t), kadm.NewClient(cl), Spec{Topic: "t", Partitions: 1}))
	require.Equal(t, 4, asked)
}

func TestSpecSettingsAreNotChanged(t *testing.T) {
	given := map[string]string{"segment.bytes": "20000000"}
	before := maps.Clone(given)
	c := newCluster(t)
	require.NoError(t, EnsureTopic(testContext(t), kadm.NewClient(newClient(t, c.ListenAddrs())), Spec{Topic: "t", Partitions: 1, Settings: given}))
	require.Equal(t, before, given)
}
