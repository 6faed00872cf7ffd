package dsl

import (
	"errors"

	"github.com/forebay-streams/forebay/dsl/internal/engine"
	"github.com/forebay-streams/forebay/kv"
	"github.com/forebay-streams/forebay/store"
)

// StateStore is a store for processors of the user's own.
type StateStore interface {
	state() *engine.Store
	recorder(c *engine.Context) (recorder, error)
}

// KeyValueStore is a key-value store for processors. It keeps what they pass: no header
// policy applies.
type KeyValueStore[K, V any] struct {
	name  string
	store *engine.Store
}

// AddKeyValueStore adds a key-value store. A processor that has it among [WithStores] finds
// it with [KeyValueStore.In].
func AddKeyValueStore[K, V any](b *Builder, name string, key store.Serde[K], value store.Serde[V], options ...StoreOption) *KeyValueStore[K, V] {
	s := collect(options)
	k, v := serdeFor(b, name, "a key", key), serdeFor(b, name, "a value", value)
	if s.history != nil || s.retention != nil {
		b.fail(name, errors.New("a key-value store has neither versions nor windows"))
	}
	headers, _ := b.rowHeaders(name, s)
	st := b.store(name, &engine.Store{Name: name, Changelog: logged(s, engine.Compacted, 0), Open: func(e *engine.Env) (engine.State, error) {
		return kv.Open(e.Dir, name, k.serde, v.serde, b.keyValueOptions(e, s, layout(headers, store.Timestamped))...)
	}})
	return &KeyValueStore[K, V]{name, st}
}

// In is the store of a processor's task. During Process it knows the record being processed.
func (s *KeyValueStore[K, V]) In(c TaskContext) (*kv.Store[K, V], error) {
	return engine.Open[*kv.Store[K, V]](c.engine(), s.name)
}

// TaskContext is a [Context] of any types.
type TaskContext interface{ engine() *engine.Context }

func (c *Context[K, V]) engine() *engine.Context { return c.c }

func (s *KeyValueStore[K, V]) state() *engine.Store { return s.store }

func (s *KeyValueStore[K, V]) recorder(c *engine.Context) (recorder, error) {
	return engine.Open[*kv.Store[K, V]](c, s.name)
}

// keyValueOptions are those of every key-value store of the DSL.
func (b *Builder) keyValueOptions(e *engine.Env, s settings, l store.Layout) []kv.Option {
	options := []kv.Option{kv.Format(l), kv.ChangelogTopic(e.Topic, e.Partition), kv.Shared(e.Budget)}
	if e.Log != nil {
		options = append(options, kv.Changelog(e.Log))
	}
	if b.inMemory(e, s) {
		options = append(options, kv.InMemory())
	}
	if e.Cache && !s.uncached {
		options = append(options, kv.Cache(e.Budget))
	}
	return options
}
