package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
)

// Describe prints the topology as Kafka Streams' TopologyDescription does.
func (g *Graph) Describe() string {
	g.measure()
	var b strings.Builder
	b.WriteString("Topologies:\n ")
	for _, group := range g.Groups() {
		if group.Global {
			fmt.Fprintf(&b, "  Sub-topology: %d for global store (will not generate tasks)\n", group.ID)
		} else {
			fmt.Fprintf(&b, "  Sub-topology: %d\n", group.ID)
		}
		for _, n := range sorted(group.Nodes) {
			n.describe(&b)
		}
		if !group.Global {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func (n *Node) describe(b *strings.Builder) {
	switch {
	case n.Source != nil:
		fmt.Fprintf(b, "    Source: %s (topics: [%s])\n      --> %s\n", n.Name, strings.Join(n.Source.names(), ", "), names(sorted(n.children)))
	case n.Sink != nil:
		fmt.Fprintf(b, "    Sink: %s (topic: %s)\n      <-- %s\n", n.Name, n.Sink.name(), names(n.Parents))
	default:
		fmt.Fprintf(b, "    Processor: %s (stores: [%s])\n      --> %s\n      <-- %s\n", n.Name, strings.Join(n.storeNames(), ", "), names(sorted(n.children)), names(n.Parents))
	}
}

func (s *Source) names() []string {
	var out []string
	for _, t := range s.Topics {
		out = append(out, t.Name)
	}
	slices.Sort(out)
	return out
}

func (s *Sink) name() string {
	if s.Dynamic != nil {
		return "chosen for each record"
	}
	return s.Topic.Name
}

// storeNames are in the order in which a Java set of few strings lists them.
func (n *Node) storeNames() []string {
	var out []string
	for _, s := range n.Stores {
		if !s.Global || n.Global {
			out = append(out, s.Name)
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return cmp.Compare(bucket(a), bucket(b)) })
	return out
}

// bucket is that of a string among 16, as java.util.HashSet has it.
func bucket(s string) uint32 {
	var h uint32
	for _, c := range utf16.Encode([]rune(s)) {
		h = 31*h + uint32(c)
	}
	return (h ^ h>>16) & 15
}

func names(nodes []*Node) string {
	if len(nodes) == 0 {
		return "none"
	}
	var out []string
	for _, n := range nodes {
		out = append(out, n.Name)
	}
	return strings.Join(out, ", ")
}

func sorted(nodes []*Node) []*Node { return slices.SortedFunc(slices.Values(nodes), bySize) }
