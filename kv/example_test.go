package kv_test

import (
	"context"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-streams/forebay/changelog"
	"github.com/forebay-streams/forebay/kv"
	"github.com/forebay-streams/forebay/store"
)

type order struct{ Amount int }

// The example of the README, which a test compares with this.
func example(ctx context.Context, brokers []string, dir string) {
	client, err := kgo.NewClient(append(changelog.ProducerOpts(), kgo.SeedBrokers(brokers...))...)
	check(err) // panics
	defer client.Close()
	topic := changelog.Name("app", "orders")
	check(changelog.EnsureTopic(ctx, kadm.NewClient(client), changelog.Spec{Topic: topic, Partitions: 1, Kind: changelog.KeyValue}))
	log, err := changelog.NewWriter(client, topic, 0)
	check(err)
	orders, err := kv.Open(dir, "orders", store.String(), store.JSON[order](), kv.Changelog(log))
	check(err)
	defer orders.Close()
	_, err = changelog.Restore(ctx, client, orders) // reads what the disk does not have
	check(err)

	headers := store.NewHeaders(store.Header{Key: "tenant", Value: []byte("acme")})
	orders.SetRecord(store.Record{Topic: "in", Offset: 0, Timestamp: 1000, Headers: headers}) // the input record
	check(orders.Put("o-1", store.Value[order]{Data: order{42}, Timestamp: 1000, Headers: headers}))
	check(orders.Commit(ctx)) // rows, changelog offset and position in one step

	view := orders.View(store.ReadCommitted) // for any goroutine, while the owner writes
	for row, err := range view.Range(kv.From("o-1"), kv.To("o-9")) {
		check(err)
		tenant, _ := row.Headers.Last("tenant")
		fmt.Printf("%s %+v at %d, tenant %s\n", row.Key, row.Data, row.Timestamp, tenant.Value)
	}
}

func Example() {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1))
	check(err)
	defer broker.Close()
	dir, err := os.MkdirTemp("", "example")
	check(err)
	defer os.RemoveAll(dir)
	example(context.Background(), broker.ListenAddrs(), dir+"/app/0_0")
	// Output: o-1 {Amount:42} at 1000, tenant acme
}
