package dsl_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/dsl"
	"github.com/forebay-streams/forebay/dsl/dsltest"
)

func TestSettings(t *testing.T) {
	for _, c := range []struct {
		values map[string]string
		row    string // after a=1, then a=2 and b=9
	}{
		{nil, ""},
		{map[string]string{"dsl.store.format": "headers"}, "a=2,b=9"},
		{map[string]string{"dsl.store.format": "HEADERS", "forebay.header.policy": "first"}, "a=1"},
		{map[string]string{"dsl.store.format": "HEADERS", "forebay.header.policy": "empty"}, ""},
		{map[string]string{"dsl.store.format": "HEADERS", "forebay.header.policy": "union"}, "a=1,a=2,b=9"},
		{map[string]string{"dsl.store.format": "HEADERS", "forebay.header.policy": "union", "forebay.header.policy.union.max.headers": "2"}, "a=2,b=9"},
		{map[string]string{"dsl.store.format": "HEADERS", "forebay.header.policy": "union", "forebay.header.policy.union.max.bytes": "6"}, "b=9"},
		{map[string]string{"dsl.store.format": "HEADERS", "dsl.store.suppliers.class": "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers"}, "a=2,b=9"},
		{map[string]string{"forebay.header.policy": "first", "application.id": "x"}, ""},
	} {
		b := dsl.NewBuilder(dsl.Settings(c.values))
		governed["count"](b, dsl.As("s"))
		topology, err := b.Build()
		require.NoError(t, err, c.values)
		d, err := dsltest.New(topology)
		require.NoError(t, err)
		pipe(t, d, 1, "v", "a=1")
		pipe(t, d, 2, "v", "a=2,b=9")
		assert.Equal(t, c.row, rowHeaders(t, d, "count"), c.values)
		require.NoError(t, d.Close())
	}
}

func TestBadSettings(t *testing.T) {
	for want, values := range map[string]map[string]string{
		`dsl: NewBuilder: dsl.store.format is "x"; it may be DEFAULT or HEADERS`:                                                  {"dsl.store.format": "x"},
		`dsl: NewBuilder: forebay.header.policy is "last"; it may be latest, empty, first or union`:                               {"forebay.header.policy": "last"},
		`dsl: NewBuilder: forebay.header.policy.union.max.bytes is "many", which is no number`:                                    {"forebay.header.policy": "union", "forebay.header.policy.union.max.bytes": "many"},
		"dsl: NewBuilder: bad configuration: Union keeps at most 0 headers of 8192 bytes; both must be at least 1":                {"forebay.header.policy": "union", "forebay.header.policy.union.max.headers": "0"},
		`dsl: NewBuilder: dsl.store.suppliers.class is "Mine"; it may be one of Kafka's built-in suppliers, in memory or RocksDB`: {"dsl.store.suppliers.class": "Mine"},
	} {
		b := dsl.NewBuilder(dsl.Settings(values))
		read(b, "a")
		_, err := b.Build()
		assert.EqualError(t, err, want)
	}
}
