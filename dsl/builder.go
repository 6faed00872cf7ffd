package dsl

import (
	"errors"
	"fmt"
	"slices"

	"github.com/forebay-streams/forebay/dsl/internal/engine"
	"github.com/forebay-streams/forebay/store"
)

// Builder collects a topology. Its streams and tables are handles on nodes; nothing runs
// before [Builder.Build]. It is not safe for many goroutines.
type Builder struct {
	graph   engine.Graph
	counter int
	stores  map[string]*engine.Store
	errs    []error
	config  config
	readers map[engine.Topic]*engine.Node
	streams map[string]reading // by their topics
	// joined are streams that went through a repartition topic of their own name for a join.
	joined map[*engine.Node]*engine.Node
	late   []func() // steps that need the whole topology, before it is built
	built  bool
}

// NewBuilder returns an empty builder.
func NewBuilder(options ...BuilderOption) *Builder {
	b := &Builder{stores: map[string]*engine.Store{}, readers: map[engine.Topic]*engine.Node{}, streams: map[string]reading{}, joined: map[*engine.Node]*engine.Node{}, config: config{policy: Latest()}}
	for _, o := range options {
		if err := o(&b.config); err != nil {
			b.fail("NewBuilder", err)
		}
	}
	return b
}

// Topology is what a builder built: it is run by an application or by package dsltest.
type Topology struct {
	graph *engine.Graph
}

// Describe prints the topology as Kafka Streams' TopologyDescription does, so that the two
// can be compared.
func (t *Topology) Describe() string { return t.graph.Describe() }

// Dot draws the topology for Graphviz: dot -Tsvg.
func (t *Topology) Dot() string { return t.graph.Dot() }

// Mermaid draws the topology as a flow chart, as Markdown shows it.
func (t *Topology) Mermaid() string { return t.graph.Mermaid() }

// Graph is for the packages below dsl.
func (t *Topology) Graph() *engine.Graph { return t.graph }

// Build checks the topology and closes the builder: what is added afterwards has no part in
// it, and a second Build is an error. Its error joins all that went wrong, each with the
// operator's name; they are [BuildError]s. Functions and inputs that are nil are among them.
func (b *Builder) Build() (*Topology, error) {
	if b.built {
		b.fail("Build", errors.New("the topology was built before"))
	}
	b.built = true
	for _, step := range b.late {
		step()
	}
	b.late = nil
	if len(b.graph.Nodes) == 0 && len(b.errs) == 0 {
		b.fail("Build", errors.New("the topology is empty"))
	}
	if err := errors.Join(b.errs...); err != nil {
		return nil, err
	}
	return &Topology{graph: &b.graph}, nil
}

// BuildError is what is wrong with one operator.
type BuildError struct {
	// Operator is the name of the node, as [Topology.Describe] prints it, or that of the
	// function when there is no node.
	Operator string
	Err      error
}

func (e *BuildError) Error() string { return fmt.Sprintf("dsl: %s: %v", e.Operator, e.Err) }
func (e *BuildError) Unwrap() error { return e.Err }

func (b *Builder) fail(operator string, err error) {
	b.errs = append(b.errs, &BuildError{operator, err})
}

// needs reports a nil function at the operator that would call it, and panic, at its first
// record.
func (b *Builder) needs(operator, function string, given bool) {
	if !given {
		b.fail(operator, nilFunction(function))
	}
}

// takes reports inputs of other builders, and nil ones, which have none.
func (b *Builder) takes(operator string, of ...*Builder) {
	for _, other := range of {
		switch other {
		case b:
		case nil:
			b.fail(operator, errNilInput)
		default:
			b.fail(operator, errOtherBuilder)
		}
	}
}

// name takes a number, whether the name is used or not.
func (b *Builder) name(prefix string) string {
	n := b.counter
	b.counter++
	return fmt.Sprintf("%s%010d", prefix, n)
}

// nameOr is the user's name if there is one. The number is taken all the same.
func (b *Builder) nameOr(given, prefix string) string {
	name := b.name(prefix)
	if given != "" {
		return given
	}
	return name
}

// add appends a node behind its parents.
func (b *Builder) add(n *engine.Node) *engine.Node {
	if b.built {
		b.fail(n.Name, errors.New("the operator was added after Build"))
		return n
	}
	if n.Source != nil {
		for _, t := range n.Source.Topics {
			t.Partitions = 0
			if r := b.readers[t]; r != nil && r != n {
				b.fail(n.Name, fmt.Errorf("the topic %q is read already, by %s", t.Name, r.Name))
			}
			b.readers[t] = n
		}
	}
	if b.graph.Add(n) {
		b.fail(n.Name, errors.New("the name is taken by another operator"))
	}
	if n.Name == "" {
		b.fail("", errors.New("an operator has an empty name"))
	}
	return n
}

// processor adds a node that processes.
func (b *Builder) processor(name string, make func() engine.Processor, parents ...*engine.Node) *engine.Node {
	return b.add(&engine.Node{Name: name, New: make, Parents: parents})
}

// store registers a store. Two of one name are an error, since they would share a directory.
func (b *Builder) store(operator string, s *engine.Store) *engine.Store {
	if b.stores[s.Name] != nil {
		b.fail(operator, fmt.Errorf("the store %q exists already", s.Name))
	}
	b.stores[s.Name] = s
	return s
}

// serde reports a missing one at the operator that needs it.
func serdeFor[T any](b *Builder, operator, of string, s store.Serde[T]) codec[T] {
	s = known(s)
	if s == nil {
		b.fail(operator, fmt.Errorf("%s of type %T: %w", of, *new(T), errNoSerde))
	}
	return newCodec(s)
}

// distinct refuses a topic list that names none, or one twice.
func distinct(topics []string) error {
	if len(topics) == 0 {
		return errors.New("no topic is given")
	}
	for i, t := range topics {
		if t == "" {
			return errors.New("a topic's name is empty")
		}
		if slices.Contains(topics[:i], t) {
			return fmt.Errorf("the topic %q is given twice", t)
		}
	}
	return nil
}
