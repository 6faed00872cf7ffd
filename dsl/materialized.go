package dsl

import (
	"errors"
	"fmt"

	"github.com/forebay-streams/forebay/dsl/internal/engine"
	"github.com/forebay-streams/forebay/kv"
	"github.com/forebay-streams/forebay/store"
	"github.com/forebay-streams/forebay/versioned"
)

// rowHeaders is whether a store keeps headers, and by which policy. Versioned stores keep
// them only if asked by name: without, their bytes are Kafka's.
func (b *Builder) rowHeaders(operator string, s settings) (on bool, p HeaderPolicy) {
	switch {
	case s.policy != nil && s.noHeaders:
		b.fail(operator, errors.New("Headers and NoHeaders exclude each other"))
	case s.policy != nil:
		if err := s.policy.check(); err != nil {
			b.fail(operator, err)
		}
		return true, *s.policy
	case s.noHeaders:
		return false, Empty()
	case s.history != nil:
		return false, Empty()
	}
	return b.config.headers, b.config.policy
}

func layout(headers bool, without store.Layout) store.Layout {
	if headers {
		return store.WithHeaders
	}
	return without
}

// keyValue makes a store with one row for each key, versioned if the settings say so.
func keyValue[K, V any](b *Builder, operator, name string, key store.Serde[K], value store.Serde[V], s settings) (*engine.Store, opener) {
	if s.retention != nil {
		b.fail(operator, errors.New("Retention is for windows and sessions; this store has none"))
	}
	f := format[K, V]{key: serdeFor(b, operator, "a key", key), value: serdeFor(b, operator, "a value", value)}
	f.headers, f.policy = b.rowHeaders(operator, s)
	if s.history != nil {
		return versionedStore(b, operator, name, f, s)
	}
	out := b.store(operator, &engine.Store{Name: name, Changelog: logged(s, engine.Compacted, 0), Open: func(e *engine.Env) (engine.State, error) {
		return kv.Open(e.Dir, name, store.RawBytes(), store.RawBytes(), b.keyValueOptions(e, s, layout(f.headers, store.Timestamped))...)
	}})
	return out, func(c *engine.Context) (rows, error) {
		st, err := engine.Open[*kv.Store[[]byte, []byte]](c, name)
		if err != nil {
			return nil, err
		}
		topic, _ := st.ChangelogPartition()
		return &kvRows[K, V]{f, topic, st}, nil
	}
}

func versionedStore[K, V any](b *Builder, operator, name string, f format[K, V], s settings) (*engine.Store, opener) {
	if *s.history < 0 {
		b.fail(operator, fmt.Errorf("the history %v is negative", *s.history))
	}
	out := b.store(operator, &engine.Store{Name: name, Changelog: logged(s, engine.Versioned, s.history.Milliseconds()), Open: func(e *engine.Env) (engine.State, error) {
		options := []versioned.Option{versioned.Format(layout(f.headers, store.Plain)), versioned.History(*s.history),
			versioned.ChangelogTopic(e.Topic, e.Partition), versioned.Shared(e.Budget)}
		if e.Log != nil {
			options = append(options, versioned.Changelog(e.Log))
		}
		if b.inMemory(e, s) {
			options = append(options, versioned.InMemory())
		}
		return versioned.Open(e.Dir, name, store.RawBytes(), store.RawBytes(), options...)
	}})
	return out, func(c *engine.Context) (rows, error) {
		st, err := engine.Open[*versioned.Store[[]byte, []byte]](c, name)
		if err != nil {
			return nil, err
		}
		topic, _ := st.ChangelogPartition()
		return &versionedRows[K, V]{f, topic, st}, nil
	}
}

func (b *Builder) inMemory(e *engine.Env, s settings) bool {
	return e.InMemory || s.memory || b.config.memory
}

func logged(s settings, kind engine.ChangelogKind, retention int64) *engine.ChangelogTopic {
	if s.unlogged {
		return nil
	}
	return &engine.ChangelogTopic{Kind: kind, Retention: retention}
}
