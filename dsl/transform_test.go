package dsl_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/dsl"
	"github.com/forebay-streams/forebay/dsl/dsltest"
	"github.com/forebay-streams/forebay/kv"
	"github.com/forebay-streams/forebay/store"
)

func init() {
	maps.Copy(governed, map[string]func(b *dsl.Builder, options ...dsl.StoreOption){
		"transform values": func(b *dsl.Builder, o ...dsl.StoreOption) {
			var options []dsl.TransformOption
			for _, option := range o {
				options = append(options, option.(dsl.TransformOption))
			}
			t := dsl.ReadTable[string, *string](b, "a", nil, nil)
			out(dsl.TransformTableValues(t, func() dsl.Transformer[string, *string, *string] { return &shout{} }, nil, options...).ToStream())
		},
	})
}

// shout shows a value with its record context.
type shout struct {
	c      *dsl.TransformContext
	closed *int
}

func (s *shout) Init(c *dsl.TransformContext) error { s.c = c; return nil }

func (s *shout) Transform(_ string, v *string) (*string, error) {
	if v != nil && *v == "fail" {
		return nil, assert.AnError
	}
	r := s.c.Record()
	return text(fmt.Sprintf("%s!%d/%s/%d{%s}", orNull(v), r.Timestamp, r.Topic, r.Offset, listOf(r.Headers))), nil
}

func (s *shout) Close() error {
	if s.closed != nil {
		*s.closed++
	}
	return nil
}

// The first runs of the views are those of Kafka Streams 4.4's test driver.
func TestTransformTableValues(t *testing.T) {
	for _, application := range [][]dsl.BuilderOption{
		{dsl.StoreFormat("HEADERS"), dsl.DefaultHeaderPolicy(dsl.Empty())},
		{dsl.StoreFormat("HEADERS")},
	} {
		closed := 0
		b := dsl.NewBuilder(application...)
		loud := dsl.TransformTableValues(dsl.ReadTable[string, *string](b, "b", nil, nil),
			func() dsl.Transformer[string, *string, *string] { return &shout{closed: &closed} }, nil)
		out(dsl.LeftJoinTable(read(b, "a"), loud, join))
		dsl.MapValues(loud.ToStream(), func(v *string) *string { return v }).To("changes")
		topology, err := b.Build()
		require.NoError(t, err)
		assert.Contains(t, topology.Describe(), "Processor: KTABLE-TRANSFORMVALUES-0000000003 (stores: [])")
		d, err := dsltest.New(topology, dsltest.App("app"))
		require.NoError(t, err)
		feed(t, d,
			event{"b", "k", "v", 5, "b=1"}, event{"b", "k", "-", 6, "b=2"}, event{"a", "k", "s", 7, "a=1"},
			event{"b", "k", "w", 8, "b=3"}, event{"a", "k", "s", 9, "a=2"},
		)
		row := "" // the parent's headers
		if len(application) == 1 {
			row = "b=3"
		}
		assert.Equal(t, []string{"k=s|null!-1//-1{} {a=1} @7", "k=s|w!8//-1{" + row + "} {a=2} @9"}, results(d))
		var changes []string
		for _, r := range d.Read("changes") {
			changes = append(changes, string(r.Value))
		}
		assert.Equal(t, []string{"v!5/b/0{b=1}", "null!6/b/1{b=2}", "w!8/b/2{b=3}"}, changes)
		err = d.Pipe(event{"b", "k", "fail", 10, ""}.record())
		require.ErrorIs(t, err, assert.AnError)
		require.NoError(t, d.Close())
		assert.Equal(t, 2, closed, "the table's own, and the join's")
	}
}

// total adds values up in a store of its own, under one key.
type total struct {
	sums *dsl.KeyValueStore[string, int64]
	rows *kv.Store[string, int64]
}

func (s *total) Init(c *dsl.TransformContext) (err error) {
	s.rows, err = s.sums.In(c)
	return err
}

func (s *total) Transform(_ string, v string) (int64, error) {
	old, _, err := s.rows.Get("all")
	if err != nil {
		return 0, err
	}
	sum := old.Data + int64(len(v))
	return sum, s.rows.Put("all", store.Value[int64]{Data: sum, Timestamp: 1})
}

// A type that has no null does not see deletions; the result has a store only with a name.
func TestTransformWithStores(t *testing.T) {
	for _, named := range []bool{false, true} {
		d := started(t, func(b *dsl.Builder) {
			sums := dsl.AddKeyValueStore(b, "sums", store.String(), store.Int64())
			options := []dsl.TransformOption{dsl.WithStores(sums), dsl.Named("t")}
			if named {
				options = append(options, dsl.As("s"))
			} else {
				options = append(options, dsl.Materialized())
			}
			t := dsl.ReadTable(b, "a", store.String(), store.String())
			out(dsl.MapNullable(dsl.TransformTableValues(t, func() dsl.Transformer[string, string, int64] { return &total{sums: sums} }, nil, options...).ToStream(),
				func(n *int64) *string {
					if n == nil {
						return nil
					}
					return print(*n)
				}))
		})
		feed(t, d, event{"a", "k", "xx", 1, ""}, event{"a", "j", "yyy", 2, ""}, event{"a", "k", "-", 3, ""}, event{"a", "k", "z", 4, ""})
		assert.Equal(t, []string{"k=2 {} @1", "j=5 {} @2", "k=- {} @3", "k=6 {} @4"}, results(d))
		_, _, err := dsltest.Get(d, "s", store.String(), store.Int64(), "k")
		assert.Equal(t, named, err == nil)
	}
}
