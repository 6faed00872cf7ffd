package dsl_test

import (
	"fmt"
	"log"
	"time"

	"github.com/forebay-streams/forebay/dsl"
	"github.com/forebay-streams/forebay/dsl/dsltest"
	"github.com/forebay-streams/forebay/store"
)

type item struct {
	Name  string
	Count int
}

// Orders are priced by what was valid when they were placed, not by what is valid when they
// are processed: the table keeps a day of history, and an order waits a minute for prices
// that come late. The trace of an order is in the headers of its invoice.
func Example_enrichment() {
	b := dsl.NewBuilder()
	prices := dsl.ReadTable(b, "prices", store.String(), store.Float64(), dsl.As("prices"), dsl.Versioned(24*time.Hour))
	orders := dsl.ReadStream(b, "orders", store.String(), store.JSON[item]())

	byName := dsl.SelectKey(orders, func(_ string, i item) string { return i.Name })
	dsl.JoinTable(byName, prices,
		func(i item, price float64) string {
			return fmt.Sprintf("%d %s: %.2f", i.Count, i.Name, float64(i.Count)*price)
		},
		dsl.Named("pricing"), dsl.JoinGrace(time.Minute)).
		To("invoices")
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	// The rest is a test without a broker.
	d, err := dsltest.New(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	price := dsltest.NewInput(d, "prices", store.String(), store.Float64())
	order := dsltest.NewInput(d, "orders", store.String(), store.JSON[item]())
	noon := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) int64 { return noon.Add(d).UnixMilli() }

	check := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	check(price.Pipe("tea", 2.50, at(0)))
	check(order.Pipe("o-1", item{"tea", 2}, at(10*time.Second), store.Header{Key: "traceparent", Value: []byte("00-4bf9-01")}))
	check(price.Pipe("tea", 3.00, at(5*time.Second))) // comes after the order, and was valid before it
	check(price.Pipe("tea", 9.00, at(20*time.Second)))
	check(order.Pipe("o-2", item{"tea", 1}, at(2*time.Minute))) // lets a minute pass for the first one

	invoices, err := dsltest.NewOutput(d, "invoices", store.String(), store.String()).Read()
	if err != nil {
		log.Fatal(err)
	}
	for _, i := range invoices {
		trace, _ := i.Headers.Last("traceparent")
		fmt.Printf("%s, trace %s\n", i.Value, trace.Value)
	}
	// Output: 2 tea: 6.00, trace 00-4bf9-01
}
