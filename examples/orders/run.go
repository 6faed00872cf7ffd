package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-streams/forebay/changelog"
)

// run runs the phases and compares.
func run(ctx context.Context, c config) (result comparison, err error) {
	and := func(e error) { err = errors.Join(err, e) }

	brokers := c.brokers
	if len(brokers) == 0 {
		addresses, stop, err := embedded()
		if err != nil {
			return result, err
		}
		defer stop()
		brokers = addresses
	}
	t, err := create(ctx, brokers)
	if err != nil {
		return result, err
	}
	defer func() { and(t.remove(ctx)) }()
	dir := c.stateDir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "forebay-orders-"); err != nil {
			return result, err
		}
		defer func() { and(os.RemoveAll(dir)) }()
	}

	s := stream{c.orders, c.customers, c.seed}
	rep := &report{out: c.out, embedded: len(c.brokers) == 0}
	rep.printf("%d orders of %d customers, application %s, state in %s", c.orders, c.customers, t.app, dir)
	if err := produce(ctx, t, s, rep.begin("produce", c.orders)); err != nil {
		return result, err
	}
	if err := aggregate(ctx, c, t, s, dir, rep); err != nil {
		return result, err
	}
	if err := os.RemoveAll(stateOf(dir, t)); err != nil {
		return result, err
	}
	rep.printf("wiped %s", stateOf(dir, t))
	k, err := restore(ctx, c, t, dir, rep)
	if err != nil {
		return result, err
	}
	defer func() { and(k.app.Close()) }()
	p := rep.begin("compare", 0)
	if result, err = s.compare(c.out, k.totals, p); err != nil {
		return result, err
	}
	p.end(result.restored)
	rep.table()
	return result, nil
}

// produce writes the orders into the input topic.
func produce(ctx context.Context, t topics, s stream, p *progress) error {
	cl, err := t.client(changelog.ProducerOpts()...)
	if err != nil {
		return err
	}
	defer cl.Close()
	written := kgo.AbortingFirstErrPromise(cl)
	for i := 0; i < s.orders && ctx.Err() == nil; i++ {
		r, err := s.record(t.input, i)
		if err != nil {
			return err
		}
		cl.Produce(ctx, r, written.Promise())
		p.at(i + 1)
	}
	if err := errors.Join(ctx.Err(), written.Err()); err != nil { // waits for all
		return err
	}
	p.end(s.orders)
	return nil
}

// aggregate consumes the orders, while another goroutine queries the totals.
func aggregate(ctx context.Context, c config, t topics, s stream, dir string, rep *report) (err error) {
	k, err := openTask(ctx, c, t, dir, changelog.Listener{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.app.Close()) }()

	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	queried := make(chan answers, 1)
	queries, stopQueries := context.WithCancel(ctx)
	defer stopQueries()
	go func() {
		a, err := query(queries, s, k.totals)
		if err != nil {
			fail(fmt.Errorf("query: %w", err))
		}
		queried <- a
	}()
	p := rep.begin("aggregate", s.orders)
	err = k.app.Run(ctx, func(processed int) bool {
		p.at(processed)
		return processed >= s.orders
	})
	stopQueries()
	a := <-queried // the store is closed after the last query
	if ctx.Err() != nil {
		return context.Cause(ctx) // not what it made of the consumer
	}
	if err != nil {
		return err
	}
	p.end(s.orders)
	rep.printf("%s", a)
	return nil
}

// restore opens the store in an empty directory, which fills it from its changelog.
func restore(ctx context.Context, c config, t topics, dir string, rep *report) (*task, error) {
	p := rep.begin("restore", 0)
	k, err := openTask(ctx, c, t, dir, changelog.Listener{
		Start: func(at changelog.Progress) { p.total = int(at.Remaining()) },
		Batch: func(at changelog.Progress) { p.at(int(at.Position - at.Start)) },
	})
	if err == nil {
		p.end(int(k.app.Restored()))
	}
	return k, err
}
