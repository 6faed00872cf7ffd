package dsl

import (
	"strconv"

	"github.com/forebay-streams/forebay/dsl/internal/engine"
)

// Branches is a stream that is being split. Each record goes to the first branch whose
// predicate holds; without a default branch those that fit none are gone.
type Branches[K, V any] struct {
	stream *Stream[K, V]
	node   *engine.Node
	list   []branch[K, V]
}

type branch[K, V any] struct {
	holds func(K, V) bool
	rest  bool // takes all that is left
	name  string
}

// Split begins to split the stream. The name is the beginning of the branches' names.
func (s *Stream[K, V]) Split(options ...Option) *Branches[K, V] {
	b := &Branches[K, V]{stream: s}
	b.node = s.then("KSTREAM-BRANCH-", options, func() engine.Processor {
		return &function{f: b.route}
	})
	return b
}

func (b *Branches[K, V]) route(c *engine.Context, r engine.Record) error {
	for _, branch := range b.list {
		if branch.rest || holds(branch.holds, r.Key, r.Value) {
			return c.ForwardTo(branch.name, r)
		}
	}
	return nil
}

// Branch is the stream of the records that the predicate holds for, of those that no branch
// before it took. A branch's name comes behind that of the split.
func (b *Branches[K, V]) Branch(holds func(key K, value V) bool, options ...Option) *Stream[K, V] {
	return b.branch(holds, false, strconv.Itoa(len(b.list)+1), options).needs("Branch", holds != nil)
}

// Default is the stream of the records that no branch took. No branch may follow it.
func (b *Branches[K, V]) Default(options ...Option) *Stream[K, V] {
	return b.branch(nil, true, "0", options)
}

func (b *Branches[K, V]) branch(holds func(K, V) bool, rest bool, index string, options []Option) *Stream[K, V] {
	out := *b.stream
	given := collect(options).name
	if given == "" {
		given = index
	}
	name := b.stream.b.nameOr(b.node.Name+given, "KSTREAM-BRANCHCHILD-")
	if n := len(b.list); n > 0 && b.list[n-1].rest {
		b.stream.b.fail(name, errAfterDefault)
	}
	out.node = b.stream.b.processor(name, stateless(func(c *engine.Context, r engine.Record) error { return c.Forward(r) }), b.node)
	b.list = append(b.list, branch[K, V]{holds, rest, name})
	return &out
}
