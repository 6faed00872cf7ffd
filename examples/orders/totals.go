package main

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-streams/forebay/changelog"
	"github.com/forebay-streams/forebay/kv"
	"github.com/forebay-streams/forebay/store"
)

// total is a row of the store; its key is the customer.
type total struct {
	Orders int   `json:"orders"`
	Cents  int64 `json:"cents"`
}

type totals = kv.Store[string, total]

const (
	storeName   = "totals"
	partition   = 0        // the input has one, so there is one task, 0_0
	cacheBytes  = 16 << 20 // of the record cache
	pollRecords = 10_000   // at most, at a time
)

// task is what an app has for each partition of its input: a store, and a client for the
// store's changelog. The input has a client of its own, so that fetching orders cannot
// hold up a restore.
type task struct {
	totals *totals
	log    *kgo.Client
}

// openTask opens the store and brings it up to date from its changelog, as an app does
// whenever it starts: after a crash that is a little, after the loss of the disk all.
func openTask(ctx context.Context, c config, t topics, dir string, listener changelog.Listener) (*task, changelog.Result, error) {
	var result changelog.Result
	log, err := t.client(changelog.ProducerOpts()...)
	if err != nil {
		return nil, result, err
	}
	k := &task{log: log}
	writer, err := changelog.NewWriter(log, t.changelog, partition)
	if err != nil {
		return nil, result, errors.Join(err, k.close())
	}
	var logTo store.Changelog = writer
	if c.wrapLog != nil {
		logTo = c.wrapLog(writer)
	}
	k.totals, err = kv.Open(filepath.Join(dir, t.app, "0_0"), storeName, store.String(), store.JSON[total](),
		kv.Changelog(logTo), kv.Cache(store.NewBudget(cacheBytes)))
	if err != nil {
		return nil, result, errors.Join(err, k.close())
	}
	result, err = changelog.Restore(ctx, log, k.totals, changelog.WithListener(listener))
	if err != nil {
		return nil, result, errors.Join(err, k.close())
	}
	return k, result, nil
}

func (k *task) close() error {
	var err error
	if k.totals != nil {
		err = k.totals.Close()
	}
	k.log.Close()
	return err
}

// process takes one order into its customer's total. The row gets the order's headers.
func (k *task) process(r *kgo.Record) error {
	var o order
	if err := json.Unmarshal(r.Value, &o); err != nil {
		return err
	}
	record := changelog.RecordOf(r)
	k.totals.SetRecord(record)
	customer := string(r.Key)
	row, _, err := k.totals.Get(customer)
	if err != nil {
		return err
	}
	t := row.Data
	if o.Kind == cancelled {
		t.Orders--
		t.Cents -= o.Cents
	} else {
		t.Orders++
		t.Cents += o.Cents
	}
	if t.Orders == 0 {
		// The changelog gets a tombstone, with the headers of the cancellation.
		_, _, err := k.totals.Delete(customer)
		return err
	}
	return k.totals.Put(customer, store.Value[total]{Data: t, Timestamp: record.Timestamp, Headers: record.Headers})
}

// commit ends a round, in the order that loses nothing: what the store logged is
// acknowledged, then the input counts as read, then the rows are on disk. A crash
// between two steps repeats orders (at least once), and never skips one.
func (k *task) commit(ctx context.Context, input *kgo.Client, last *kgo.Record) error {
	if err := k.totals.Flush(ctx); err != nil {
		return err
	}
	if err := input.CommitRecords(ctx, last); err != nil {
		return err
	}
	return k.totals.Commit(ctx)
}

// consume processes that many orders, and commits after every so many and at the end.
func (k *task) consume(ctx context.Context, input *kgo.Client, orders, commitEvery int, p *progress) error {
	for done, round := 0, 0; done < orders; {
		fetches := input.PollRecords(ctx, pollRecords)
		if err := fetches.Err(); err != nil {
			return err
		}
		for r := range fetches.RecordsAll() {
			if err := k.process(r); err != nil {
				return err
			}
			done++
			round++
			if round >= commitEvery || done == orders || k.totals.NeedsCommit() {
				if err := k.commit(ctx, input, r); err != nil {
					return err
				}
				round = 0
			}
			p.at(done)
		}
	}
	return nil
}
