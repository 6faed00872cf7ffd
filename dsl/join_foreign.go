package dsl

import (
	"bytes"
	"cmp"
	"fmt"

	"github.com/forebay-streams/forebay/dsl/internal/engine"
	"github.com/forebay-streams/forebay/dsl/internal/wire"
	"github.com/forebay-streams/forebay/kv"
	"github.com/forebay-streams/forebay/store"
)

// JoinForeign joins each row of the left table with the row of the right one whose key it
// names: foreign takes it out of the value, and answers false if there is none. The result
// has the left table's keys. An update of either side updates the result, of all rows that
// name the key if it is the right one's.
//
// The tables need not be partitioned alike: rows subscribe to their foreign keys over one
// internal topic, and are answered over another (KIP-213). [Named] names both topics and the
// operator's nodes and stores. The result has a store only with [As], or if something
// downstream needs one. A nil serde is the one known for the type.
func JoinForeign[K, L, F, R, V any](left *Table[K, L], right *Table[F, R], foreign func(left L) (F, bool), join func(left L, right R) V, value store.Serde[V], options ...StoreOption) *Table[K, V] {
	return joinForeign(left, right, foreign, joiner(join), false, value, options).needs("foreign of JoinForeign", foreign != nil).needs("join of JoinForeign", join != nil)
}

// LeftJoinForeign is [JoinForeign] of all rows of the left table. What the right one has not
// is the zero value for the join function: nil, if R can be nil.
func LeftJoinForeign[K, L, F, R, V any](left *Table[K, L], right *Table[F, R], foreign func(left L) (F, bool), join func(left L, right R) V, value store.Serde[V], options ...StoreOption) *Table[K, V] {
	return joinForeign(left, right, foreign, joiner(join), true, value, options).needs("foreign of LeftJoinForeign", foreign != nil).needs("join of LeftJoinForeign", join != nil)
}

func joinForeign[K, L, F, R, V any](left *Table[K, L], right *Table[F, R], foreign func(L) (F, bool), join func(left, right any) any, isLeft bool, value store.Serde[V], options []StoreOption) *Table[K, V] {
	left, right = left.orEmpty(), right.orEmpty()
	b, s := cmp.Or(left.b, right.b), collect(options)
	left.state.enableOld(true)
	right.state.enableOld(true)
	given := func(suffix string) string { return suffixed(s.name, suffix) }
	topic := b.nameOr(given("-subscription-registration"), "KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-") + "-topic"
	sendName := b.nameOr(given("-subscription-registration-processor"), "KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-")
	b.takes(sendName, left.b, right.b)
	f := foreignJoin{
		topic: topic, left: isLeft, headers: b.config.headers, join: join,
		primary: serdeFor(b, sendName, "a key", left.key), foreignKey: serdeFor(b, sendName, "a foreign key", right.key),
		row: serdeFor(b, sendName, "a value", left.value), foreignRow: serdeFor(b, sendName, "a foreign value", right.value),
		foreign: func(value any) any {
			if value == nil {
				return nil
			}
			if key, ok := foreign(as[L](value)); ok {
				return box(key)
			}
			return nil
		},
	}
	send := b.processor(sendName, func() engine.Processor { return &foreignSend{foreignJoin: f} }, left.node)
	registered := engine.Topic{Name: topic, Internal: true}
	b.add(&engine.Node{
		Name: b.nameOr(given("-subscription-registration-sink"), "KTABLE-SINK-"), Parents: []*engine.Node{send},
		Sink: &engine.Sink{Topic: registered, Encode: f.encodeSubscription, Partition: byKey},
	})
	source := b.add(&engine.Node{
		Name:   b.nameOr(given("-subscription-registration-source"), "KTABLE-SOURCE-"),
		Source: &engine.Source{Topics: []engine.Topic{registered}, Decode: f.decodeSubscription},
	})

	storeName := b.nameOr(given("-subscription-store"), "KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-")
	receiveName := b.nameOr(given("-subscription-receive"), "KTABLE-FK-JOIN-SUBSCRIPTION-PROCESSOR-")
	st := subscriptions(b, receiveName, storeName)
	receive := b.processor(receiveName, func() engine.Processor { return &foreignReceive{store: storeName} }, source)
	receive.Connect(st)
	rightView, leftView := right.state.view(), left.state.view()
	lookup := b.processor(b.nameOr(given("-subscription-join-foreign"), "KTABLE-FK-JOIN-SUBSCRIPTION-PROCESSOR-"),
		func() engine.Processor { return &foreignLookup{foreignJoin: f, open: rightView.open} }, receive)
	lookup.Connect(rightView.stores...)
	notify := b.processor(b.nameOr(given("-foreign-join-subscription"), "KTABLE-FK-JOIN-SUBSCRIPTION-PROCESSOR-"),
		func() engine.Processor { return &foreignNotify{foreignJoin: f, store: storeName} }, right.node)
	notify.Connect(st)

	answered := engine.Topic{Name: b.nameOr(given("-subscription-response"), "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-") + "-topic", Internal: true}
	b.add(&engine.Node{
		Name: b.nameOr(given("-subscription-response-sink"), "KTABLE-SINK-"), Parents: []*engine.Node{lookup, notify},
		Sink: &engine.Sink{Topic: answered, Encode: f.encodeAnswer, Partition: toSubscriber},
	})
	answers := b.add(&engine.Node{
		Name:   b.nameOr(given("-subscription-response-source"), "KTABLE-SOURCE-"),
		Source: &engine.Source{Topics: []engine.Topic{answered}, Decode: f.decodeAnswer},
	})
	resolve := b.processor(b.nameOr(given("-subscription-response-resolver"), "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-"),
		func() engine.Processor { return &foreignResolve{foreignJoin: f, open: leftView.open} }, answers)
	resolve.Connect(leftView.stores...)
	name := b.nameOr(given("-result"), "KTABLE-FK-JOIN-OUTPUT-")
	named := s.store != ""
	if !named {
		s.store = b.name("KTABLE-FK-JOIN-OUTPUT-STATE-STORE-")
	}
	return tableFrom(b, resolve, name, left.key, known(value), s, named || s.history != nil)
}

// foreignJoin is what the operator's nodes have in common, without types.
type foreignJoin struct {
	topic   string // of subscriptions
	left    bool
	headers bool               // subscriptions are stored with theirs
	foreign func(left any) any // the foreign key of a row; nil: none
	join    func(left, right any) any

	primary, foreignKey, row, foreignRow anyCodec
}

// anyCodec is a [codec] without its type.
type anyCodec interface {
	encode(topic string, h *store.Headers, v any) ([]byte, error)
	decode(topic string, h *store.Headers, b []byte) (any, error)
}

// pseudo is the topic that serdes see for a part of a subscription, as in Kafka Streams.
func (f *foreignJoin) pseudo(c *engine.Context, part string) string {
	return c.App() + "-" + f.topic + "-" + part
}

// hash is that of a left row, over a private copy of the headers.
func (f *foreignJoin) hash(c *engine.Context, h store.Headers, value any) (*wire.Hash, error) {
	s := h.Copy()
	b, err := f.row.encode(f.pseudo(c, "vh"), &s, value)
	return wire.HashOf(b), err
}

// subscriptions is the store of what rows of the left table wait for, under foreign and
// primary key. It follows the application's format; there is no option for it.
func subscriptions(b *Builder, operator, name string) *engine.Store {
	headers := b.config.headers
	return b.store(operator, &engine.Store{Name: name, Changelog: logged(settings{}, engine.Compacted, 0), Open: func(e *engine.Env) (engine.State, error) {
		options := b.keyValueOptions(e, settings{uncached: true}, layout(headers, store.Timestamped))
		return kv.Open(e.Dir, name, store.RawBytes(), store.RawBytes(), append(options, kv.LogHeaders())...)
	}})
}

// subscribing is a subscription on its way to the right side.
type subscribing struct {
	primary any
	// foreign are the foreign key's bytes, once they are read; nil if there is none.
	foreign []byte
	wire.Subscription
}

// foreignSend turns changes of the left table into subscriptions.
type foreignSend struct {
	c *engine.Context
	foreignJoin
}

func (p *foreignSend) Init(c *engine.Context) error { p.c = c; return nil }

const noForeignKey = "no foreign key"

func (p *foreignSend) Process(r engine.Record) error {
	if r.Stale {
		p.c.Drop(stale)
		return nil
	}
	before, after := p.foreign(r.Old), p.foreign(r.Value)
	old, err := p.foreignBytes(r.Headers, before)
	if err != nil {
		return err
	}
	next, err := p.foreignBytes(r.Headers, after)
	if err != nil {
		return err
	}
	if before != nil && old == nil || after != nil && next == nil {
		return fmt.Errorf("a foreign key's serializer answered nil: %w", store.ErrNilKey)
	}
	changed := old != nil && !bytes.Equal(old, next)
	if p.left {
		if r.Value == nil && r.Old == nil {
			return nil
		}
		if changed {
			if err := p.send(r, before, wire.Unsubscribe); err != nil {
				return err
			}
		}
		return p.send(r, after, wire.Answer)
	}
	if r.Value != nil && next == nil {
		p.c.Drop(noForeignKey)
	}
	switch {
	case next == nil && old == nil:
		return nil
	case next == nil:
		return p.send(r, before, wire.UnsubscribeAndAnswer)
	case !changed:
		return p.send(r, after, wire.AnswerIfPresent)
	}
	if err := p.send(r, before, wire.Unsubscribe); err != nil {
		return err
	}
	return p.send(r, after, wire.Answer)
}

func (p *foreignSend) foreignBytes(h store.Headers, key any) ([]byte, error) {
	s := h.Copy()
	return p.foreignKey.encode(p.pseudo(p.c, "fk"), &s, key)
}

func (p *foreignSend) send(r engine.Record, foreign any, i wire.Instruction) error {
	hash, err := p.hash(p.c, r.Headers, r.Value)
	if err != nil {
		return err
	}
	return p.c.Forward(engine.Record{Key: foreign, Timestamp: r.Timestamp, Headers: r.Headers, Value: subscribing{
		primary: r.Key, Subscription: wire.Subscription{Instruction: i, Hash: hash, Partition: p.c.Partition()},
	}})
}

func (f *foreignJoin) encodeSubscription(topic string, h *store.Headers, r engine.Record) (key, value []byte, err error) {
	s := r.Value.(subscribing)
	if key, err = f.foreignKey.encode(topic, h, r.Key); err != nil {
		return nil, nil, fmt.Errorf("the foreign key cannot be written: %w", err)
	}
	if s.PrimaryKey, err = f.primary.encode(topic+"-pk", h, s.primary); err != nil {
		return nil, nil, fmt.Errorf("the key cannot be written: %w", err)
	}
	*h = withoutReplaced(r.Headers, *h)
	value, err = wire.AppendSubscription(nil, s.Subscription)
	return key, value, err
}

// byKey is how subscriptions find the partition of their foreign key.
func byKey(_ string, _ engine.Record, key []byte, n int32) int32 {
	if key == nil {
		return engine.AnyPartition
	}
	return wire.Partition(key, n)
}

func (f *foreignJoin) decodeSubscription(topic string, h *store.Headers, key, value []byte) (k, v, old any, err error) {
	s, err := wire.DecodeSubscription(value)
	if err != nil {
		return nil, nil, nil, err
	}
	if k, err = f.foreignKey.decode(topic, h, key); err != nil {
		return nil, nil, nil, fmt.Errorf("the foreign key cannot be read: %w", err)
	}
	primary, err := f.primary.decode(topic+"-pk", h, s.PrimaryKey)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("the key cannot be read: %w", err)
	}
	return k, subscribing{primary, key, s}, nil, nil
}

// foreignReceive keeps the subscriptions.
type foreignReceive struct {
	c     *engine.Context
	store string
	rows  *kv.Store[[]byte, []byte]
}

func (p *foreignReceive) Init(c *engine.Context) (err error) {
	p.c = c
	p.rows, err = engine.Open[*kv.Store[[]byte, []byte]](c, p.store)
	return err
}

func (p *foreignReceive) Process(r engine.Record) error {
	s := r.Value.(subscribing)
	if s.foreign == nil {
		if s.Instruction != wire.Answer {
			p.c.Drop(noForeignKey)
			return nil
		}
		return p.c.Forward(r) // for the answer alone
	}
	key, err := wire.AppendForeignKey(nil, s.foreign, s.PrimaryKey)
	if err != nil {
		return err
	}
	p.rows.SetRecord(p.c.Record())
	if s.Instruction == wire.Unsubscribe || s.Instruction == wire.UnsubscribeAndAnswer {
		err = p.rows.Tombstone(key)
	} else {
		var value []byte
		if value, err = wire.AppendSubscription(nil, s.Subscription); err == nil {
			err = p.rows.Put(key, store.Value[[]byte]{Data: value, Timestamp: r.Timestamp, Headers: r.Headers})
		}
	}
	if err != nil {
		return err
	}
	return p.c.Forward(r)
}

// answering is an answer on its way to a row of the left table.
type answering struct {
	hash      *wire.Hash
	value     any
	partition int32
}

// foreignLookup answers subscriptions.
type foreignLookup struct {
	c *engine.Context
	foreignJoin
	open func(*engine.Context) (view, error)
	view view
}

func (p *foreignLookup) Init(c *engine.Context) (err error) {
	p.c = c
	p.view, err = p.open(c)
	return err
}

func (p *foreignLookup) Process(r engine.Record) error {
	s := r.Value.(subscribing)
	var right row
	var ok bool
	if s.foreign != nil {
		var err error
		if right, ok, err = p.view.get(p.c.Record(), r.Key); err != nil {
			return err
		}
	}
	if s.Instruction == wire.Unsubscribe || s.Instruction == wire.AnswerIfPresent && !ok {
		return nil
	}
	if ok {
		r.Timestamp = max(r.Timestamp, right.timestamp)
	}
	out := answering{s.Hash, right.value, s.Partition}
	if s.Instruction == wire.UnsubscribeAndAnswer {
		out.value = nil
	}
	return p.c.Forward(engine.Record{Key: s.primary, Value: out, Timestamp: r.Timestamp, Headers: r.Headers})
}

// foreignNotify tells all subscribers of a changed row of the right table.
type foreignNotify struct {
	c *engine.Context
	foreignJoin
	store string
	rows  *kv.Store[[]byte, []byte]
}

func (p *foreignNotify) Init(c *engine.Context) (err error) {
	p.c = c
	p.rows, err = engine.Open[*kv.Store[[]byte, []byte]](c, p.store)
	return err
}

func (p *foreignNotify) Process(r engine.Record) error {
	switch {
	case r.Key == nil:
		p.c.Drop(nullKey)
		return nil
	case r.Stale:
		p.c.Drop(stale)
		return nil
	}
	h := r.Headers.Copy()
	foreign, err := p.foreignKey.encode(p.pseudo(p.c, "fk"), &h, r.Key)
	if err != nil {
		return err
	}
	prefix, err := wire.AppendForeignKey(nil, foreign, nil)
	if err != nil {
		return err
	}
	for row, err := range p.rows.Prefix(prefix) {
		if err != nil {
			return err
		}
		s, err := wire.DecodeSubscription(bytes.Clone(row.Data))
		if err != nil {
			return store.Locate(err, p.store, "", row.Key)
		}
		h := r.Headers.Copy()
		if p.headers {
			h = row.Headers.Copy()
		}
		primary, err := p.primary.decode(p.pseudo(p.c, "pk"), &h, s.PrimaryKey)
		if err != nil {
			return err
		}
		out := answering{s.Hash, r.Value, s.Partition}
		if err := p.c.Forward(engine.Record{Key: primary, Value: out, Timestamp: r.Timestamp, Headers: r.Headers}); err != nil {
			return err
		}
	}
	return nil
}

func (f *foreignJoin) encodeAnswer(topic string, h *store.Headers, r engine.Record) (key, value []byte, err error) {
	a := r.Value.(answering)
	if key, err = f.primary.encode(topic, h, r.Key); err != nil {
		return nil, nil, fmt.Errorf("the key cannot be written: %w", err)
	}
	right, err := f.foreignRow.encode(topic, h, a.value)
	if err != nil {
		return nil, nil, fmt.Errorf("the value cannot be written: %w", err)
	}
	*h = withoutReplaced(r.Headers, *h)
	value, err = wire.AppendResponse(nil, wire.Response{Hash: a.hash, Value: right})
	return key, value, err
}

// toSubscriber sends an answer to the partition that asked.
func toSubscriber(topic string, r engine.Record, key []byte, n int32) int32 {
	if p := r.Value.(answering).partition; p != wire.NoPartition {
		return p
	}
	return byKey(topic, r, key, n)
}

// answer is one as it arrives.
type answer struct {
	hash  *wire.Hash
	value any
}

func (f *foreignJoin) decodeAnswer(topic string, h *store.Headers, key, value []byte) (k, v, old any, err error) {
	a, err := wire.DecodeResponse(value)
	if err != nil {
		return nil, nil, nil, err
	}
	if k, err = f.primary.decode(topic, h, key); err != nil {
		return nil, nil, nil, fmt.Errorf("the key cannot be read: %w", err)
	}
	right, err := f.foreignRow.decode(topic, h, a.Value)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("the value cannot be read: %w", err)
	}
	return k, answer{a.Hash, right}, nil, nil
}

// foreignResolve joins answers with the rows that asked, if those are still the same.
type foreignResolve struct {
	c *engine.Context
	foreignJoin
	open func(*engine.Context) (view, error)
	view view
}

func (p *foreignResolve) Init(c *engine.Context) (err error) {
	p.c = c
	p.view, err = p.open(c)
	return err
}

func (p *foreignResolve) Process(r engine.Record) error {
	if r.Key == nil {
		p.c.Drop(nullKey)
		return nil
	}
	left, ok, err := p.view.get(p.c.Record(), r.Key)
	if err != nil {
		return err
	}
	var now *wire.Hash
	if ok {
		if now, err = p.hash(p.c, r.Headers, left.value); err != nil {
			return err
		}
	}
	a := r.Value.(answer)
	if !now.Equal(a.hash) {
		p.c.Drop("an answer to a row that has changed since")
		return nil
	}
	r.Value = nil
	if ok && (a.value != nil || p.left) {
		r.Value = p.join(left.value, a.value)
	}
	return p.c.Forward(r)
}
