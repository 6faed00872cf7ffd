package main

import (
	"bytes"
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/changelog"
	"github.com/forebay-streams/forebay/store"
)

func small(t *testing.T) (config, stream) {
	env := map[string]string{"ORDERS": "5000", "CUSTOMERS": "500", "STATE_DIR": t.TempDir()}
	c, err := fromEnv(func(name string) string { return env[name] })
	require.NoError(t, err)
	return c, stream{c.orders, c.customers, c.seed}
}

func runSmall(t *testing.T, c config) (comparison, string) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out bytes.Buffer
	c.out = &out
	result, err := run(ctx, c)
	require.NoError(t, err, out.String())
	return result, out.String()
}

// between stands between a store and its changelog: change may alter what is logged, and
// answers false to lose it.
type between struct {
	store.Changelog
	change func(*store.Change) bool
}

func (b between) Append(c store.Change) error {
	if !b.change(&c) {
		return nil
	}
	return b.Changelog.Append(c)
}

func wrap(change func(*store.Change) bool) func(store.Changelog) store.Changelog {
	return func(log store.Changelog) store.Changelog { return between{log, change} }
}

func TestRun(t *testing.T) {
	check := func(t *testing.T, brokers ...string) {
		c, s := small(t)
		c.brokers = brokers
		tombstones := 0
		c.wrapLog = wrap(func(x *store.Change) bool {
			i := int(x.Timestamp - firstTimestamp)
			customer, o := s.at(i)
			require.Equal(t, customerKey(customer), string(x.Key))
			require.True(t, x.Headers.Equal(s.headers(i)))
			if x.Tombstone() {
				tombstones++
				require.Equal(t, cancelled, o.Kind)
			}
			return true
		})
		result, out := runSmall(t, c)
		rows := 0
		for _, e := range s.expected() {
			if e.Orders > 0 {
				rows++
			}
		}
		require.Equal(t, comparison{restored: rows, identical: rows}, result)
		require.True(t, result.ok())
		require.Greater(t, rows, c.customers/2)
		require.Less(t, rows, c.customers)
		require.Positive(t, tombstones)
		for _, phase := range []string{"produce", "aggregate", "restore", "compare"} {
			require.Regexp(t, `(?m)^`+phase+` +\d+ +\d+\.\d\d +\d+$`, out)
		}
	}
	t.Run("embedded broker", func(t *testing.T) { check(t) })
	t.Run("real broker", func(t *testing.T) {
		broker := os.Getenv("FOREBAY_BROKER")
		if broker == "" {
			if os.Getenv("FOREBAY_REQUIRE_BROKER") != "" {
				t.Fatal("FOREBAY_BROKER is not set")
			}
			t.Skip("FOREBAY_BROKER is not set")
		}
		check(t, broker)
	})
}

// A comparison that cannot fail would prove nothing.
func TestPlantedFaults(t *testing.T) {
	_, s := small(t)
	expected := s.expected()
	kept, gone := -1, -1 // customers with a row at the end, and whose last one was deleted
	for customer, e := range expected {
		if e.Orders > 0 {
			kept = customer
		} else if e.last > 0 {
			gone = customer
		}
	}
	require.GreaterOrEqual(t, kept, 0)
	require.GreaterOrEqual(t, gone, 0)

	for _, fault := range []struct {
		name     string
		customer int
		change   func(*store.Change) bool
		want     comparison // beside the rows
		says     string
	}{
		{"lost row", kept, func(*store.Change) bool { return false }, comparison{missing: 1}, "missing: "},
		{"lost tombstone", gone, func(c *store.Change) bool { return !c.Tombstone() }, comparison{extra: 1}, "extra: "},
		{"value", kept, func(c *store.Change) bool {
			c.Value = []byte(`{"orders":1,"cents":1}`)
			return true
		}, comparison{different: 1}, "different: "},
		{"timestamp", kept, func(c *store.Change) bool {
			c.Timestamp++
			return true
		}, comparison{different: 1}, "different: "},
		{"header value", kept, func(c *store.Change) bool {
			list := c.Headers.List()
			list[1].Value = []byte("tenant-x")
			c.Headers = store.HeadersOf(list)
			return true
		}, comparison{different: 1}, "different: "},
		{"header order", kept, func(c *store.Change) bool {
			list := c.Headers.List()
			list[0], list[1] = list[1], list[0]
			c.Headers = store.HeadersOf(list)
			return true
		}, comparison{different: 1}, "different: "},
		{"lost headers", kept, func(c *store.Change) bool {
			c.Headers = store.Headers{}
			return true
		}, comparison{different: 1}, "different: "},
	} {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			c, _ := small(t)
			key := customerKey(fault.customer)
			c.wrapLog = wrap(func(x *store.Change) bool { return string(x.Key) != key || fault.change(x) })
			result, out := runSmall(t, c)
			require.False(t, result.ok())
			require.Contains(t, out, fault.says+key+"\n")
			got := result
			got.restored, got.identical = 0, 0
			require.Equal(t, fault.want, got)
			require.Equal(t, result.restored, result.identical+result.different+result.extra)
		})
	}
}

func TestInterrupt(t *testing.T) {
	c, _ := small(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	c.out = &out
	c.wrapLog = wrap(func(*store.Change) bool {
		cancel() // in mid-stream
		return true
	})
	_, err := run(ctx, c)
	require.ErrorIs(t, err, context.Canceled)
}

func TestCheck(t *testing.T) {
	_, s := small(t)
	const i = 42
	customer, o := s.at(i)
	key := customerKey(customer)
	good := store.Value[total]{Data: total{1, o.Cents}, Timestamp: firstTimestamp + i, Headers: s.headers(i)}
	require.NoError(t, s.check(key, good))
	require.Error(t, s.check(customerKey(customer+1), good))
	for name, spoil := range map[string]func(*store.Value[total]){
		"timestamp": func(v *store.Value[total]) { v.Timestamp = store.NoTimestamp },
		"headers":   func(v *store.Value[total]) { v.Headers = s.headers(i + 1) },
		"none":      func(v *store.Value[total]) { v.Headers = store.Headers{} },
		"total":     func(v *store.Value[total]) { v.Data.Orders = 0 },
	} {
		bad := good
		spoil(&bad)
		require.Error(t, s.check(key, bad), name)
	}
}

// The stream is what the comparison rests on.
func TestStream(t *testing.T) {
	_, s := small(t)
	balance := map[int]int{}
	orders := map[[2]int64]int{} // open ones
	cancellations := 0
	for i := range s.orders {
		customer, o := s.at(i)
		again, p := s.at(i)
		require.Equal(t, []any{customer, o}, []any{again, p})
		id := [2]int64{int64(customer), o.Cents}
		if o.Kind == cancelled {
			cancellations++
			balance[customer]--
			orders[id]--
		} else {
			balance[customer]++
			orders[id]++
		}
		require.GreaterOrEqual(t, balance[customer], 0)
		require.GreaterOrEqual(t, orders[id], 0, "cancelled twice, or before it was placed")
	}
	require.Equal(t, s.orders/block-s.orders/block/10, cancellations)

	r, err := s.record("input", 7)
	require.NoError(t, err)
	id, ok := changelog.Headers(r).Last("__value_schema_id")
	require.True(t, ok)
	require.Len(t, id.Value, 17)
	require.Equal(t, byte(1), id.Value[0])
}

func TestFromEnv(t *testing.T) {
	of := func(env map[string]string) (config, error) {
		return fromEnv(func(name string) string { return env[name] })
	}
	c, err := of(nil)
	require.NoError(t, err)
	require.Equal(t, config{orders: 1_000_000, customers: 200_000, seed: 1, commitEvery: 50_000}, c)
	c, err = of(map[string]string{"ORDERS": "1", "BROKERS": "a:1,b:2"})
	require.NoError(t, err)
	require.Equal(t, config{orders: 1, customers: 1, seed: 1, commitEvery: 1, brokers: []string{"a:1", "b:2"}}, c)
	for _, bad := range []string{"0", "-1", "x", "1e6", "99999999999"} {
		_, err := of(map[string]string{"ORDERS": bad})
		require.ErrorContains(t, err, "ORDERS="+bad)
	}
}
