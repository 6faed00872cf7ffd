package single_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-streams/forebay/dsl"
	"github.com/forebay-streams/forebay/store"
)

// Joins that hold records back, and a foreign-key join over its topics, lose nothing when
// the directory is lost between two records.
func TestJoinsComeBack(t *testing.T) {
	e := start(t)
	_, err := e.admin.CreateTopic(t.Context(), 1, 1, nil, "prices")
	require.NoError(t, err)
	b := dsl.NewBuilder(dsl.StoreFormat("HEADERS"))
	orders := dsl.ReadStream(b, "in", store.String(), store.String())
	prices := dsl.ReadTable(b, "prices", store.String(), store.String(), dsl.As("prices"), dsl.Versioned(time.Minute))
	and := func(l, r string) string { return l + " and " + r }
	dsl.JoinTable(orders, prices, and, dsl.Named("pricing"), dsl.JoinGrace(time.Second)).To("out")
	dsl.OuterJoinStreams(orders.Filter(func(_, v string) bool { return v != "last" }), orders.Filter(func(_, v string) bool { return v == "last" }),
		and, dsl.JoinWithin(time.Second), dsl.JoinStores("pairs")).To("out")
	dsl.JoinForeign(orders.ToTable(), prices, func(v string) (string, bool) { return v, true }, and, nil, dsl.Named("named")).ToStream().To("out")
	topology, err := b.Build()
	require.NoError(t, err)

	produce := func(topic, key, value string, at int64) {
		r := &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(value), Timestamp: time.UnixMilli(at), Headers: []kgo.RecordHeader{{Key: "from", Value: []byte(topic + " " + key)}}}
		require.NoError(t, e.client.ProduceSync(t.Context(), r).FirstErr())
	}
	// Each step is an application that starts with nothing.
	step := func(records int) {
		require.NoError(t, os.RemoveAll(filepath.Join(e.dir, "words")))
		app := e.open(t, topology)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, app.Run(ctx, func(n int) bool { return n >= records }))
		require.NoError(t, app.Close())
	}
	produce("in", "tea", "tea", 10_000)
	step(2) // and its subscription to the price of tea
	produce("prices", "tea", "2.50", 9_500)
	step(2) // and the answer
	produce("in", "end", "last", 20_000)
	step(2)
	assert.ElementsMatch(t, []string{
		"tea=" + hexOf("tea and 2.50") + " {from=prices tea} @9500", // the foreign-key join: the price came later
		"tea=" + hexOf("tea and 2.50") + " {from=in tea} @10000",    // the order waited for it
		"tea=" + hexOf("tea and ") + " {from=in tea} @10000",        // it met no other record
	}, e.consumed(t, "out", 3))
}

func hexOf(s string) string { return fmt.Sprintf("%x", s) }
