package main

import (
	"fmt"
	"io"

	"github.com/forebay-streams/forebay/store"
)

// comparison is of the restored rows with the expected ones.
type comparison struct {
	restored, identical, different, missing, extra int
}

func (c comparison) ok() bool { return c.identical == c.restored && c.missing == 0 && c.extra == 0 }

func (c comparison) String() string {
	return fmt.Sprintf("restored %d rows, %d identical, %d missing, %d extra", c.restored, c.identical, c.missing, c.extra)
}

// expectation is a customer's row: the total, and the record that wrote it last, which
// gives timestamp and headers. No orders, no row.
type expectation struct {
	total
	last int
	seen bool
}

// expected replays the stream without any store.
func (s stream) expected() []expectation {
	out := make([]expectation, s.customers)
	for i := range s.orders {
		customer, o := s.at(i)
		e := &out[customer]
		e.last = i
		if o.Kind == cancelled {
			e.Orders--
			e.Cents -= o.Cents
		} else {
			e.Orders++
			e.Cents += o.Cents
		}
	}
	return out
}

// compare looks at every row of the store and at every expected one, and shows the first
// few that differ.
func (s stream) compare(out io.Writer, t *totals, p *progress) (comparison, error) {
	var c comparison
	show := func(what, key string) {
		if c.different+c.missing+c.extra <= 5 {
			fmt.Fprintf(out, "%s: %s\n", what, key)
		}
	}
	expected := s.expected()
	for row, err := range t.All() {
		if err != nil {
			return c, err
		}
		c.restored++
		p.at(c.restored)
		customer, err := customerOf(row.Key)
		if err != nil || customer >= s.customers || expected[customer].Orders == 0 || customerKey(customer) != row.Key {
			c.extra++
			show("extra", row.Key)
			continue
		}
		e := &expected[customer]
		e.seen = true
		if !s.same(row.Value, e) {
			c.different++
			show("different", row.Key)
			continue
		}
		c.identical++
	}
	for customer, e := range expected {
		if e.Orders > 0 && !e.seen {
			c.missing++
			show("missing", customerKey(customer))
		}
	}
	return c, nil
}

func (s stream) same(row store.Value[total], e *expectation) bool {
	return row.Data == e.total && row.Timestamp == firstTimestamp+int64(e.last) && row.Headers.Equal(s.headers(e.last))
}
