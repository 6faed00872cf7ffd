// Command orders is a small stream processing app, from end to end: it counts orders per
// customer in a state store whose rows carry the headers of the customer's last order,
// answers queries meanwhile, loses its disk, and gets everything back from the changelog.
//
//	make run                           a broker in this process, which keeps all orders in memory
//	BROKERS=host:9092 make run         a real one; the topics are deleted at the end
//
// In the order of a first reading:
//
//	totals.go    the app: a topology, and how it is run
//	queries.go   reads with headers from another goroutine, while the app writes
//	run.go       the phases: produce, aggregate, wipe, restore, compare
//	compare.go   what the store must hold, worked out without it
//	orders.go    the input
//	broker.go    the broker and the topics
//	report.go    progress, times, memory
//
// Settings, all from the environment: ORDERS (1000000), CUSTOMERS (a fifth of the orders,
// at most 200000), SEED, BROKERS (comma-separated), STATE_DIR (default: a temporary one,
// removed at the end), CPUPROFILE (a file).
//
// The last line of the output is the verdict; the exit code is 0 only if every row came back
// identical, and 130 after an interrupt.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"

	"github.com/forebay-streams/forebay/store"
)

func main() { os.Exit(realMain()) }

func realMain() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second interrupt ends the process at once

	c, err := fromEnv(os.Getenv)
	if err != nil {
		fmt.Fprintln(os.Stderr, "orders:", err)
		return 2
	}
	c.out = os.Stdout
	stopProfile, err := startProfile(os.Getenv("CPUPROFILE"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "orders:", err)
		return 2
	}
	defer stopProfile()

	result, err := run(ctx, c)
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "orders: interrupted")
		return 130
	case err != nil:
		fmt.Fprintln(os.Stderr, "orders:", err)
		return 1
	}
	fmt.Println(result)
	if !result.ok() {
		return 1
	}
	return 0
}

type config struct {
	orders, customers int
	seed              uint64
	brokers           []string // none: a broker in this process
	stateDir          string   // empty: a temporary one
	commitEvery       int      // orders
	out               io.Writer

	// wrapLog lets a test come between the store and its changelog.
	wrapLog func(store.Changelog) store.Changelog
}

func fromEnv(env func(string) string) (config, error) {
	var c config
	orders, err := number(env, "ORDERS", 1_000_000)
	if err != nil {
		return c, err
	}
	customers, err := number(env, "CUSTOMERS", min(200_000, max(1, orders/5)))
	if err != nil {
		return c, err
	}
	seed, err := number(env, "SEED", 1)
	if err != nil {
		return c, err
	}
	c.orders, c.customers, c.seed, c.stateDir = int(orders), int(customers), uint64(seed), env("STATE_DIR")
	c.commitEvery = max(1, min(50_000, c.orders/20))
	if list := env("BROKERS"); list != "" {
		c.brokers = strings.Split(list, ",")
	}
	return c, nil
}

func number(env func(string) string, name string, otherwise int64) (int64, error) {
	text := env(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s=%s: must be a number from 1 to 2147483647", name, text)
	}
	return n, nil
}

func startProfile(file string) (stop func(), err error) {
	if file == "" {
		return func() {}, nil
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		if err := f.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "orders:", err)
		}
	}, nil
}
