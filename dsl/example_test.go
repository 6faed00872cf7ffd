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

type Trade struct {
	Currency string
	Amount   float64
}

// Trades are valued at the rate that held when they were made, though they come late: the
// rates are a versioned table. A trade keeps its own headers.
func Example_enrichment() {
	b := dsl.NewBuilder()
	trades := dsl.SelectKey(dsl.ReadStream(b, "trades", store.String(), store.JSON[Trade]()),
		func(_ string, t Trade) string { return t.Currency }).
		Repartition(dsl.Named("by-currency"))
	rates := dsl.ReadTable(b, "rates", store.String(), store.Float64(), dsl.As("rates"), dsl.Versioned(24*time.Hour))
	dsl.JoinTable(trades, rates, func(t Trade, rate float64) float64 { return t.Amount * rate }).
		To("values")

	d := driver(b)
	defer d.Close()
	in := dsltest.NewInput(d, "rates", store.String(), store.Float64())
	check(in.Pipe("eur", 1.10, 1000))
	check(in.Pipe("eur", 1.20, 2000))
	late := dsltest.NewInput(d, "trades", store.String(), store.JSON[Trade]())
	check(late.Pipe("t-1", Trade{"eur", 100}, 1500, store.Header{Key: "desk", Value: []byte("7")}))
	check(late.Pipe("t-2", Trade{"eur", 100}, 2500))

	for _, m := range must(dsltest.NewOutput(d, "values", store.String(), store.Float64()).Read()) {
		desk, _ := m.Headers.Last("desk")
		fmt.Printf("%s %.0f %s\n", m.Key, m.Value, desk.Value)
	}
	// Output:
	// eur 110 7
	// eur 120
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
