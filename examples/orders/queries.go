package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/forebay-streams/forebay/store"
)

// answers counts what the queries brought.
type answers struct {
	points, ranges int
	rows           int // of both, each checked
	example        string
}

func (a answers) String() string {
	s := fmt.Sprintf("%d point and %d range queries while aggregating: %d rows", a.points, a.ranges, a.rows)
	if a.rows > 0 {
		s += ", each with its order's headers\n" + a.example
	}
	return s
}

// format shows a row with its headers, their values as text where they are.
func format(key string, row store.Value[total]) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  such as %s: %d orders, %d cents;", key, row.Data.Orders, row.Data.Cents)
	for h := range row.Headers.All() {
		if utf8.Valid(h.Value) {
			fmt.Fprintf(&b, " %s=%s", h.Key, h.Value)
		} else {
			fmt.Fprintf(&b, " %s=%x", h.Key, h.Value)
		}
	}
	return b.String()
}

// query reads the store from its own goroutine until ctx ends, as an HTTP handler would,
// and checks every row. It sees whole commits only.
func query(ctx context.Context, s stream, view *totals) (answers, error) {
	var a answers
	r := rand.New(rand.NewPCG(s.seed, 0))
	for tick := time.NewTicker(5 * time.Millisecond); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return a, nil
		case <-tick.C:
		}
		for range 10 {
			key := customerKey(r.IntN(s.customers))
			row, ok, err := view.Get(key)
			if err == nil && ok {
				err = s.check(key, row)
				a.rows++
				if a.example == "" {
					a.example = format(key, row)
				}
			}
			if err != nil {
				return a, err
			}
			a.points++
		}
		from := r.IntN(s.customers)
		for row, err := range view.Range(customerKey(from), customerKey(from+99)) {
			if err == nil {
				err = s.check(row.Key, row.Value)
				a.rows++
				if a.example == "" {
					a.example = format(row.Key, row.Value)
				}
			}
			if err != nil {
				return a, err
			}
		}
		a.ranges++
	}
}

// check tells whether a row has the headers of one of its customer's orders: the one that
// the row's timestamp names. A row torn in two, or under another key, has not.
func (s stream) check(key string, row store.Value[total]) error {
	customer, err := customerOf(key)
	if err != nil {
		return err
	}
	tenant, _ := row.Headers.Last("tenant")
	if string(tenant.Value) != tenantOf(customer) {
		return fmt.Errorf("%s: tenant %q, want %q", key, tenant.Value, tenantOf(customer))
	}
	i := row.Timestamp - firstTimestamp
	if i < 0 || i >= int64(s.orders) || !row.Headers.Equal(s.headers(int(i))) {
		return fmt.Errorf("%s: headers %q are not those of an order at %d", key, row.Headers.List(), row.Timestamp)
	}
	if row.Data.Orders < 1 || row.Data.Cents < 1 {
		return fmt.Errorf("%s: impossible total %+v", key, row.Data)
	}
	return nil
}
