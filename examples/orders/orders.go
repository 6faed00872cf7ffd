package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-streams/forebay/changelog"
	"github.com/forebay-streams/forebay/store"
)

// order is the value of an input record; its key is the customer.
type order struct {
	Kind  string `json:"kind"`
	Cents int64  `json:"cents"`
}

const (
	placed    = "placed"
	cancelled = "cancelled"
)

// stream is the input. Record i is a function of i and the seed alone, so that what the
// store must hold can be worked out without it, and without keeping a million orders.
type stream struct {
	orders, customers int
	seed              uint64
}

// firstTimestamp is that of record 0, in milliseconds; record i is i milliseconds later.
var firstTimestamp = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()

// Every tenth record cancels an order that was placed a tenth of the stream before: one of
// the nine others in an earlier block of ten, so that none is cancelled twice.
const block = 10

// at returns record i: whose it is and what it says.
func (s stream) at(i int) (customer int, o order) {
	r := rand.New(rand.NewPCG(s.seed, uint64(i)))
	if old := i/block - s.orders/block/10; i%block == block-1 && old >= 0 {
		customer, o = s.at(old*block + r.IntN(block-1))
		o.Kind = cancelled
		return customer, o
	}
	// Half of the customers share a tenth of the orders: many of these order once, and when
	// they cancel, their row goes.
	regular := (s.customers + 1) / 2
	if s.customers > 1 && r.IntN(10) == 0 {
		customer = regular + r.IntN(s.customers-regular)
	} else {
		customer = r.IntN(regular)
	}
	return customer, order{placed, 100 + r.Int64N(100_000)}
}

// record returns record i as the producer sends it.
func (s stream) record(topic string, i int) (*kgo.Record, error) {
	customer, o := s.at(i)
	value, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	headers, err := changelog.RecordHeaders(s.headers(i))
	return &kgo.Record{
		Topic:     topic,
		Key:       []byte(customerKey(customer)),
		Value:     value,
		Headers:   headers,
		Timestamp: time.UnixMilli(firstTimestamp + int64(i)),
	}, err
}

// headers are those of record i: a W3C trace context, the customer's tenant, and the id of
// the schema that the value was written with.
func (s stream) headers(i int) store.Headers {
	customer, _ := s.at(i)
	r := rand.New(rand.NewPCG(^s.seed, uint64(i)))
	trace := fmt.Appendf(nil, "00-%016x%016x-%016x-01", r.Uint64(), r.Uint64(), r.Uint64())
	return store.NewHeaders(
		store.Header{Key: "traceparent", Value: trace},
		store.Header{Key: "tenant", Value: []byte(tenantOf(customer))},
		store.Header{Key: "__value_schema_id", Value: schemaIDs[i*len(schemaIDs)/s.orders]},
	)
}

// schemaIDs of the two schemas that the orders were written with, one after the other: a
// magic byte 1, then a GUID.
var schemaIDs = [][]byte{
	schemaID("6b7d1e0c-3f52-4c8e-9a41-5d2f80c7b613"),
	schemaID("c1f4a9d2-70be-4e15-8d36-2a9b64e05f78"),
}

func schemaID(guid string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(guid, "-", ""))
	if err != nil {
		panic(err)
	}
	return append([]byte{1}, b...)
}

func tenantOf(customer int) string { return "tenant-" + strconv.Itoa(customer%20) }

func customerKey(customer int) string { return fmt.Sprintf("customer-%010d", customer) }

func customerOf(key string) (int, error) {
	digits, ok := strings.CutPrefix(key, "customer-")
	if !ok {
		return 0, fmt.Errorf("%q is no customer", key)
	}
	return strconv.Atoi(digits)
}
