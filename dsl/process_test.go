package dsl_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/dsl"
	"github.com/forebay-streams/forebay/dsl/dsltest"
	"github.com/forebay-streams/forebay/kv"
	"github.com/forebay-streams/forebay/store"
)

// newest forwards each value that its key did not have before, and every ten seconds of stream
// time how many there were.
type newest struct {
	seen   *dsl.KeyValueStore[string, string]
	c      *dsl.Context[string, string]
	rows   *kv.Store[string, string]
	count  int
	closed *bool
}

func (p *newest) Init(c *dsl.Context[string, string]) (err error) {
	p.c = c
	c.Schedule(10*time.Second, dsl.StreamTime, func(now int64) error {
		return c.Forward(dsl.Record[string, string]{Key: "count", Value: strings.Repeat("x", p.count), Timestamp: now, Headers: list("by=clock")})
	})
	c.Schedule(time.Minute, dsl.WallClock, func(now int64) error {
		return c.Forward(dsl.Record[string, string]{Key: "wall", Value: "tick", Timestamp: now})
	})
	p.rows, err = p.seen.In(c)
	return err
}

func (p *newest) Process(r dsl.Record[string, string]) error {
	old, ok, err := p.rows.Get(r.Key)
	if err != nil || ok && old.Data == r.Value {
		return err
	}
	p.count++
	if err := p.rows.Put(r.Key, store.Value[string]{Data: r.Value, Timestamp: r.Timestamp, Headers: r.Headers}); err != nil {
		return err
	}
	return p.c.Forward(r)
}

func (p *newest) Close() error { *p.closed = true; return nil }

func TestProcess(t *testing.T) {
	b := dsl.NewBuilder()
	closed := false
	seen := dsl.AddKeyValueStore(b, "seen", store.String(), store.String(), dsl.Headers(dsl.First()))
	in := dsl.ReadStream(b, "a", store.String(), store.String())
	dsl.ProcessValues(in, func() dsl.Processor[string, string, string, string] { return &newest{seen: seen, closed: &closed} },
		dsl.WithStores(seen), dsl.Named("newest")).To("out")
	topology, err := b.Build()
	require.NoError(t, err)
	assert.Contains(t, topology.Describe(), "Processor: newest (stores: [seen])")
	d, err := dsltest.New(topology, dsltest.App("app"))
	require.NoError(t, err)
	pipe(t, d, 3000, "v", "a=1")
	assert.Equal(t, []string{"k=v {a=1} @3000", "count=x {by=clock} @3000"}, results(d))
	pipe(t, d, 4000, "v", "a=2") // the same value
	assert.Empty(t, results(d))
	pipe(t, d, 10000, "w", "a=3")
	assert.Equal(t, []string{"k=w {a=3} @10000", "count=xx {by=clock} @10000"}, results(d))
	log := d.Read("app-seen-changelog")
	require.Len(t, log, 2)
	assert.Equal(t, "a=3", listOf(log[1].Headers), "no policy: what the processor passes is stored")
	require.NoError(t, d.Advance(59*time.Second))
	assert.Empty(t, results(d))
	require.NoError(t, d.Advance(time.Second))
	assert.Equal(t, []string{"wall=tick {} @60000"}, results(d))
	require.NoError(t, d.Close())
	assert.True(t, closed)
}

// An error or a panic of a user's function ends the driver, with the operator's name and the
// record's place, and nothing of the record is committed.
func TestFunctionsThatFail(t *testing.T) {
	b := dsl.NewBuilder()
	in := dsl.ReadStream(b, "a", store.String(), store.String())
	in.GroupByKey().Reduce(func(a, v string) string {
		if v == "bad" {
			panic("no good")
		}
		return a + v
	}, dsl.As("s"))
	topology, err := b.Build()
	require.NoError(t, err)
	dir := t.TempDir()
	d, err := dsltest.New(topology, dsltest.StateDir(dir))
	require.NoError(t, err)
	pipe(t, d, 1, "a", "")
	pipe(t, d, 2, "b", "")
	err = d.Pipe(dsltest.Record{Topic: "a", Key: []byte("k"), Value: []byte("bad"), Timestamp: 3})
	require.ErrorContains(t, err, "KSTREAM-REDUCE-0000000001: a function panicked at a-0, offset 2: no good")
	require.Equal(t, err, d.Pipe(dsltest.Record{Topic: "a", Key: []byte("k"), Value: []byte("c"), Timestamp: 4}), "it is over")
	require.NoError(t, d.Close())
	require.ErrorIs(t, d.Pipe(dsltest.Record{Topic: "a"}), store.ErrClosed)

	again, err := dsltest.New(topology, dsltest.StateDir(dir))
	require.NoError(t, err)
	defer again.Close()
	row, ok, err := dsltest.Get(again, "s", store.String(), store.String(), "k")
	require.NoError(t, err)
	require.True(t, ok)
	assert.Equal(t, "ab", row.Data)
}

func TestBytesThatCannotBeRead(t *testing.T) {
	d := started(t, func(b *dsl.Builder) {
		dsl.ReadStream(b, "a", store.String(), store.Int64(), dsl.Named("numbers")).To("out")
	})
	err := d.Pipe(dsltest.Record{Topic: "a", Key: []byte("k"), Value: []byte("five?"), Timestamp: 1})
	require.EqualError(t, err, "numbers: a-0, offset 0: the value cannot be read: 5 bytes where the type has 8")
}

func TestTimestamps(t *testing.T) {
	d := started(t, func(b *dsl.Builder) {
		dsl.ReadStream(b, "a", store.String(), store.String(), dsl.Time(func(_, value string, timestamp, previous int64) int64 {
			switch value {
			case "previous":
				return previous
			case "drop":
				return -1
			}
			return timestamp * 10
		})).To("out")
	})
	for _, value := range []string{"drop", "previous", "x", "previous"} {
		pipe(t, d, 7, value, "")
	}
	assert.Equal(t, []string{"k=x {} @70", "k=previous {} @70"}, results(d))
	assert.ErrorIs(t, d.Pipe(dsltest.Record{Topic: "a", Timestamp: -1}), store.ErrNegativeTimestamp)
	assert.EqualError(t, d.Pipe(dsltest.Record{Topic: "b"}), `the topology does not read the topic "b"`)
}

// What a type that has no nil does with null values.
func TestNullValues(t *testing.T) {
	for name, c := range map[string]struct {
		build func(s *dsl.Stream[string, string]) *dsl.Stream[string, string]
		want  []string // of a null value
	}{
		"map values": {func(s *dsl.Stream[string, string]) *dsl.Stream[string, string] {
			return dsl.MapValues(s, strings.ToUpper)
		}, []string{"k=- {} @1"}},
		"map nullable": {func(s *dsl.Stream[string, string]) *dsl.Stream[string, string] {
			return dsl.MapNullable(s, func(v *string) string {
				if v == nil {
					return "null"
				}
				return *v
			})
		}, []string{"k=null {} @1"}},
		"filter": {func(s *dsl.Stream[string, string]) *dsl.Stream[string, string] {
			return s.Filter(func(string, string) bool { return true })
		}, nil},
		"filter not": {func(s *dsl.Stream[string, string]) *dsl.Stream[string, string] {
			return s.FilterNot(func(string, string) bool { return true })
		}, []string{"k=- {} @1"}},
		"peek": {func(s *dsl.Stream[string, string]) *dsl.Stream[string, string] {
			return s.Peek(func(string, string) { panic("not for null") })
		}, []string{"k=- {} @1"}},
		"map": {func(s *dsl.Stream[string, string]) *dsl.Stream[string, string] {
			return dsl.Map(s, func(k, v string) (string, string) { return v, k })
		}, nil},
		"to table": {func(s *dsl.Stream[string, string]) *dsl.Stream[string, string] {
			return s.ToTable(dsl.As("t")).ToStream()
		}, []string{"k=- {} @1"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := started(t, func(b *dsl.Builder) {
				c.build(dsl.ReadStream(b, "a", store.String(), store.String())).To("out")
			})
			require.NoError(t, d.Pipe(dsltest.Record{Topic: "a", Key: []byte("k"), Timestamp: 1}))
			assert.Equal(t, c.want, results(d))
		})
	}
}

func TestToTopics(t *testing.T) {
	d := started(t, func(b *dsl.Builder) {
		dsl.ReadStream(b, "a", store.String(), store.String()).ToTopics(func(_, value string, r store.Record) string {
			tenant, _ := r.Headers.Last("tenant")
			return string(tenant.Value) + "-" + value
		})
	})
	pipe(t, d, 1, "x", "tenant=acme")
	pipe(t, d, 2, "y", "tenant=umbra")
	assert.Equal(t, []string{"acme-x", "umbra-y"}, d.Topics())
}

func TestSuppressThatIsFull(t *testing.T) {
	d := started(t, func(b *dsl.Builder) {
		dsl.ReadTable(b, "a", store.String(), store.String()).
			Suppress(dsl.UntilTimeLimit(time.Hour, dsl.MaxRecords(1).FailWhenFull())).
			ToStream().To("out")
	})
	pipe(t, d, 1, "x", "")
	err := d.Pipe(dsltest.Record{Topic: "a", Key: []byte("other"), Value: []byte("y"), Timestamp: 2})
	require.ErrorIs(t, err, dsl.ErrBufferFull)
}
