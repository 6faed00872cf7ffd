package engine

import (
	"cmp"
	"slices"

	"github.com/forebay-streams/forebay/store"
)

// Graph is a topology without types: nodes in the order in which they were added, each
// after its parents.
type Graph struct {
	Nodes []*Node

	names map[string]bool
}

// Node is a source, a processor or a sink. Exactly one of Source, New and Sink is set.
type Node struct {
	Name    string
	Parents []*Node
	// Stores that the processor reads or writes; they tie groups together as edges do.
	Stores []*Store
	Global bool // belongs to a global store: it has no tasks
	// NullKeys says that the processor makes use of records without a key, so that no
	// repartition upstream may drop them.
	NullKeys bool

	Source *Source
	New    func() Processor // makes the processor, once for each task
	Sink   *Sink

	children []*Node
	group    int
	size     int
}

// Topic is a topic's name as the topology has it.
type Topic struct {
	Name string
	// Internal topics belong to the application: its id and a hyphen go in front.
	Internal bool
	// Partitions of an internal topic; 0: as many as its group's inputs have.
	Partitions int
}

// In is the topic's name in an application.
func (t Topic) In(app string) string {
	if t.Internal {
		return app + "-" + t.Name
	}
	return t.Name
}

// Source reads topics.
type Source struct {
	Topics []Topic
	// Decode turns bytes, which may be nil, into a record's key, value and old value. The
	// headers are a private copy.
	Decode func(topic string, h *store.Headers, key, value []byte) (k, v, old any, err error)
	// Timestamp chooses a record's timestamp; nil: the record's own. previous is the largest
	// of the partition so far, -1 at first.
	Timestamp func(r Record, previous int64) int64
}

// Sink writes a topic.
type Sink struct {
	Topic Topic
	// Dynamic chooses the topic for each record, in its context; nil: Topic.
	Dynamic func(context store.Record, r Record) string
	// Encode turns a record into bytes. What it adds to the headers is produced.
	Encode func(topic string, h *store.Headers, r Record) (key, value []byte, err error)
	// Partition chooses among a number of partitions, or leaves it to the producer.
	Partition func(topic string, r Record, key []byte, partitions int32) int32
}

// Store is a state store of the topology.
type Store struct {
	Name   string
	Global bool
	// Open opens the store of a task.
	Open func(*Env) (State, error)
	// Changelog says how the store's changelog topic is kept; nil: it has none.
	Changelog *ChangelogTopic
}

// ChangelogTopic is what a changelog topic's settings follow from.
type ChangelogTopic struct {
	Kind      ChangelogKind
	Retention int64 // ms, of windowed and session stores; the history of versioned ones
}

// ChangelogKind tells the cleanup of changelog topics apart.
type ChangelogKind uint8

const (
	// Compacted changelogs keep a key's last record.
	Compacted ChangelogKind = iota
	// Windowed changelogs are compacted, and deleted after retention.
	Windowed
	// Deleted changelogs, of join windows, are not compacted.
	Deleted
	// Versioned changelogs are compacted once the history has passed.
	Versioned
)

// Add appends a node behind its parents. A name that is taken already is reported.
func (g *Graph) Add(n *Node) (taken bool) {
	if g.names == nil {
		g.names = map[string]bool{}
	}
	taken = g.names[n.Name]
	g.names[n.Name] = true
	g.Nodes = append(g.Nodes, n)
	for _, p := range n.Parents {
		p.children = append(p.children, n)
	}
	return taken
}

// Connect makes a store one of the node's.
func (n *Node) Connect(stores ...*Store) {
	for _, s := range stores {
		if s != nil && !slices.Contains(n.Stores, s) {
			n.Stores = append(n.Stores, s)
		}
	}
}

// Children are the nodes that the node forwards to, in order.
func (n *Node) Children() []*Node { return n.children }

// Downstream tells whether the condition holds for a node that the node's records can
// reach, through internal topics too.
func (g *Graph) Downstream(from *Node, holds func(*Node) bool) bool {
	seen := map[*Node]bool{}
	var walk func(n *Node) bool
	walk = func(n *Node) bool {
		if seen[n] {
			return false
		}
		seen[n] = true
		next := n.children
		if n.Sink != nil && n.Sink.Topic.Internal {
			next = g.readers(n.Sink.Topic)
		}
		for _, c := range next {
			if holds(c) || walk(c) {
				return true
			}
		}
		return false
	}
	return walk(from)
}

func (g *Graph) readers(t Topic) (out []*Node) {
	for _, n := range g.Nodes {
		if n.Source != nil && slices.ContainsFunc(n.Source.Topics, func(o Topic) bool { return o.Internal && o.Name == t.Name }) {
			out = append(out, n)
		}
	}
	return out
}

// Group is a sub-topology: nodes that are connected by edges or by stores.
type Group struct {
	ID     int
	Global bool
	Nodes  []*Node
	Stores []*Store // in the order in which their nodes come
}

// Groups returns the sub-topologies, numbered in the order of their first nodes.
func (g *Graph) Groups() []Group {
	parent := map[*Node]*Node{}
	var root func(*Node) *Node
	root = func(n *Node) *Node {
		if p := parent[n]; p != nil && p != n {
			parent[n] = root(p)
			return parent[n]
		}
		return n
	}
	users := map[*Store]*Node{}
	for _, n := range g.Nodes {
		for _, p := range n.Parents {
			parent[root(n)] = root(p)
		}
		for _, s := range n.Stores {
			if s.Global && !n.Global {
				continue // readers of a global store are in groups of their own
			}
			if u := users[s]; u != nil {
				if a, b := root(n), root(u); a != b {
					parent[a] = b
				}
			}
			users[s] = n
		}
	}
	var groups []Group
	ids := map[*Node]int{}
	for _, n := range g.Nodes {
		id, ok := ids[root(n)]
		if !ok {
			id = len(groups)
			ids[root(n)] = id
			groups = append(groups, Group{ID: id, Global: n.Global})
		}
		n.group = id
		groups[id].Nodes = append(groups[id].Nodes, n)
		for _, s := range n.Stores {
			if s.Global == n.Global && !slices.Contains(groups[id].Stores, s) {
				groups[id].Stores = append(groups[id].Stores, s)
			}
		}
	}
	return groups
}

// measure sets the sizes of nodes: the number of paths that begin at each.
func (g *Graph) measure() {
	for _, n := range slices.Backward(g.Nodes) {
		n.size = 1
		for _, c := range n.children {
			n.size += c.size
		}
	}
}

// bySize is the order in which Kafka describes nodes.
func bySize(a, b *Node) int {
	return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.Name, b.Name))
}
