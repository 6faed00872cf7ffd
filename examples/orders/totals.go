package main

import (
	"context"
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-streams/forebay/changelog"
	"github.com/forebay-streams/forebay/dsl"
	"github.com/forebay-streams/forebay/dsl/single"
	"github.com/forebay-streams/forebay/store"
)

// total is a row of the store; its key is the customer.
type total struct {
	Orders int   `json:"orders"`
	Cents  int64 `json:"cents"`
}

type totals = single.View[string, total]

const (
	storeName  = "totals"
	cacheBytes = 16 << 20 // of the record cache
)

// topology is the whole app: the total of each customer's orders. A row has the headers of
// the order that wrote it last, because the format of all stores is the one with headers.
func topology(input string) (*dsl.Topology, error) {
	b := dsl.NewBuilder(dsl.StoreFormat("HEADERS"))
	orders := dsl.ReadStream(b, input, store.String(), store.JSON[order]())
	dsl.Aggregate(orders.GroupByKey(), noOrders, count, dsl.Nullable(store.JSON[total]()), dsl.As(storeName))
	return b.Build()
}

func noOrders() *total { return &total{} }

// count takes one order into its customer's total. Without orders there is no row: the
// changelog gets a tombstone, with the headers of the cancellation.
func count(_ string, o order, t *total) *total {
	if o.Kind == cancelled {
		t.Orders--
		t.Cents -= o.Cents
	} else {
		t.Orders++
		t.Cents += o.Cents
	}
	if t.Orders == 0 {
		return nil
	}
	return t
}

// task is the app while it runs, with what queries read.
type task struct {
	app    *single.App
	totals *totals
}

// openTask opens the store and brings it up to date from its changelog, as an app does
// whenever it starts: after a crash that is a little, after the loss of the disk all.
func openTask(ctx context.Context, c config, t topics, dir string, listener changelog.Listener) (*task, error) {
	counted, err := topology(t.input)
	if err != nil {
		return nil, err
	}
	app, err := single.Open(ctx, counted, single.Config{
		App: t.app, Brokers: t.brokers, StateDir: dir, CacheBytes: cacheBytes, CommitEvery: c.commitEvery,
		Restoring: listener, Changelogs: c.changelogs(),
	})
	if err != nil {
		return nil, err
	}
	view, err := single.NewView(app, storeName, store.String(), store.JSON[total]())
	if err != nil {
		return nil, err
	}
	return &task{app, view}, nil
}

// changelogs makes the writers of changelogs; a test may come between.
func (c config) changelogs() func(*kgo.Client, string, int32) (store.Changelog, error) {
	return func(cl *kgo.Client, topic string, partition int32) (store.Changelog, error) {
		w, err := changelog.NewWriter(cl, topic, partition)
		if err != nil || c.wrapLog == nil {
			return w, err
		}
		return c.wrapLog(w), nil
	}
}

// stateOf is the directory of the app's stores.
func stateOf(dir string, t topics) string { return filepath.Join(dir, t.app) }
