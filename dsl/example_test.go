package dsl_test

import (
	"fmt"
	"log"
	"time"

	"github.com/forebay-streams/forebay/dsl"
	"github.com/forebay-streams/forebay/dsl/dsltest"
	"github.com/forebay-streams/forebay/store"
)

type Order struct {
	Tenant string
	Cents  int64
}

// Orders per tenant. Each total keeps the trace of the order that changed it last, beside
// its row and on what goes out, and the topology does not say a word about it but once.
func Example_ordersPerTenant() {
	b := dsl.NewBuilder(dsl.StoreFormat("HEADERS"))
	orders := dsl.ReadStream(b, "orders", store.String(), store.JSON[Order]())
	perTenant := dsl.GroupBy(orders, func(_ string, o Order) string { return o.Tenant }, store.String(), dsl.Named("tenant"))
	dsl.Aggregate(perTenant,
		func() int64 { return 0 },
		func(_ string, o Order, cents int64) int64 { return cents + o.Cents },
		store.Int64(), dsl.As("totals")).
		ToStream().
		To("totals")

	d := driver(b)
	defer d.Close()
	in := dsltest.NewInput(d, "orders", store.String(), store.JSON[Order]())
	check(in.Pipe("o-1", Order{"acme", 500}, 1000, store.Header{Key: "traceparent", Value: []byte("t-1")}))
	check(in.Pipe("o-2", Order{"acme", 250}, 2000, store.Header{Key: "traceparent", Value: []byte("t-2")}))

	row, _, err := dsltest.Get(d, "totals", store.String(), store.Int64(), "acme")
	check(err)
	trace, _ := row.Headers.Last("traceparent")
	fmt.Printf("in the store: acme %d, %s\n", row.Data, trace.Value)
	for _, m := range must(dsltest.NewOutput(d, "totals", store.String(), store.Int64()).Read()) {
		trace, _ := m.Headers.Last("traceparent")
		fmt.Printf("on the topic: %s %d, %s\n", m.Key, m.Value, trace.Value)
	}
	// Output:
	// in the store: acme 750, t-2
	// on the topic: acme 500, t-1
	// on the topic: acme 750, t-2
}

// Sessions of clicks: how many pages a visitor looked at until five minutes passed without
// a click. Each session goes out once, when it is over, with the campaigns that led to it.
func Example_sessionsOfClicks() {
	b := dsl.NewBuilder()
	clicks := dsl.ReadStream(b, "clicks", store.String(), store.String())
	visits := clicks.GroupByKey().
		WindowedBySession(dsl.Sessions(5 * time.Minute)).
		EmitOnClose()
	dsl.Map(dsl.Count(visits, dsl.As("visits"), dsl.Headers(dsl.Union(8, 1024))).ToStream(),
		func(visitor dsl.Windowed[string], pages int64) (string, int64) { return visitor.Key, pages }).
		To("visits")

	d := driver(b)
	defer d.Close()
	in := dsltest.NewInput(d, "clicks", store.String(), store.String())
	at := func(m int) int64 { return (time.Duration(m) * time.Minute).Milliseconds() }
	check(in.Pipe("ann", "/", at(0), store.Header{Key: "campaign", Value: []byte("mail")}))
	check(in.Pipe("bob", "/", at(1)))
	check(in.Pipe("ann", "/cart", at(4), store.Header{Key: "campaign", Value: []byte("search")}))
	check(in.Pipe("bob", "/", at(30))) // ends both sessions

	for _, m := range must(dsltest.NewOutput(d, "visits", store.String(), store.Int64()).Read()) {
		fmt.Printf("%s looked at %d pages:", m.Key, m.Value)
		for h := range m.Headers.All() {
			fmt.Printf(" %s=%s", h.Key, h.Value)
		}
		fmt.Println()
	}
	// Output:
	// bob looked at 1 pages:
	// ann looked at 2 pages: campaign=mail campaign=search
}

// driver builds the topology and starts it.
func driver(b *dsl.Builder) *dsltest.Driver {
	topology, err := b.Build()
	check(err)
	d, err := dsltest.New(topology, dsltest.InMemory())
	check(err)
	return d
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func must[T any](list []T, err error) []T {
	check(err)
	return list
}
