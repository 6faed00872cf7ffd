package engine

import (
	"fmt"
	"strings"
)

// language is how a graph is written down. Verbs take an identifier and a label, or two
// identifiers.
type language struct {
	begin, end              string
	group, groupEnd         string
	topic, processor, store string
	edge, use               string
	label                   *strings.Replacer
	id                      func(kind, name string) string
}

var dot = language{
	begin: "digraph topology {\n  rankdir=LR;\n", end: "}\n",
	group: "  subgraph cluster_%d {\n    label=\"%s\";\n", groupEnd: "  }\n",
	topic:     "  %s [shape=cds, label=\"%s\"];\n",
	processor: "    %s [shape=box, style=rounded, label=\"%s\"];\n",
	store:     "    %s [shape=cylinder, label=\"%s\"];\n",
	edge:      "  %s -> %s;\n",
	use:       "  %s -> %s [dir=none, style=dashed];\n",
	label:     strings.NewReplacer(`\`, `\\`, `"`, `\"`),
	id:        func(kind, name string) string { return fmt.Sprintf("%q", kind+" "+name) },
}

var mermaid = language{
	begin: "flowchart LR\n",
	group: "  subgraph g%d[\"%s\"]\n", groupEnd: "  end\n",
	topic:     "  %s>\"%s\"]\n",
	processor: "    %s(\"%s\")\n",
	store:     "    %s[(\"%s\")]\n",
	edge:      "  %s --> %s\n",
	use:       "  %s -.- %s\n",
	label:     strings.NewReplacer(`"`, "#quot;"),
	// Mermaid's identifiers have few characters; the others are written as numbers, so that
	// no two names meet.
	id: func(kind, name string) string {
		var b strings.Builder
		b.WriteString(kind)
		b.WriteByte('_')
		for _, r := range name {
			if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
				b.WriteRune(r)
			} else {
				fmt.Fprintf(&b, "_%x_", r)
			}
		}
		return b.String()
	},
}

// Dot draws the topology for Graphviz: topics, processors and stores, with a box around each
// sub-topology.
func (g *Graph) Dot() string { return g.draw(&dot) }

// Mermaid draws the topology as a flow chart for Markdown.
func (g *Graph) Mermaid() string { return g.draw(&mermaid) }

func (g *Graph) draw(l *language) string {
	var b, edges strings.Builder
	b.WriteString(l.begin)
	topics, stores := map[string]bool{}, map[*Store]bool{}
	topic := func(name string) string {
		id := l.id("topic", name)
		if !topics[name] {
			topics[name] = true
			fmt.Fprintf(&edges, l.topic, id, l.label.Replace(name))
		}
		return id
	}
	for _, group := range g.Groups() {
		title := fmt.Sprintf("Sub-topology %d", group.ID)
		if group.Global {
			title += ", global"
		}
		fmt.Fprintf(&b, l.group, group.ID, title)
		for _, n := range group.Nodes {
			fmt.Fprintf(&b, l.processor, l.id("node", n.Name), l.label.Replace(n.Name))
			for _, s := range n.Stores {
				if !stores[s] {
					stores[s] = true
					fmt.Fprintf(&b, l.store, l.id("store", s.Name), l.label.Replace(s.Name))
				}
			}
		}
		b.WriteString(l.groupEnd)
	}
	for _, n := range g.Nodes {
		id := l.id("node", n.Name)
		if n.Source != nil {
			for _, t := range n.Source.Topics {
				fmt.Fprintf(&edges, l.edge, topic(t.Name), id)
			}
		}
		for _, c := range n.children {
			fmt.Fprintf(&edges, l.edge, id, l.id("node", c.Name))
		}
		for _, s := range n.Stores {
			fmt.Fprintf(&edges, l.use, id, l.id("store", s.Name))
		}
		if n.Sink != nil {
			fmt.Fprintf(&edges, l.edge, id, topic(n.Sink.name()))
		}
	}
	return b.String() + edges.String() + l.end
}
