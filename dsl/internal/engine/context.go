package engine

import (
	"fmt"
	"time"

	"github.com/forebay-streams/forebay/store"
)

// Processor is what a node does with records. Its methods are called by the task's one
// goroutine.
type Processor interface {
	// Init is called once, when the task's stores are open and before the first record.
	Init(*Context) error
	// Process handles one record. An error ends the task.
	Process(Record) error
}

// Closer is what a processor may be beside: Close is called when the task ends.
type Closer interface{ Close() error }

// Committer is what a processor may be beside: BeforeCommit is called at each commit, after
// the caches were flushed, for what is logged once per commit.
type Committer interface{ BeforeCommit() error }

// Context is how a processor sees its task.
type Context struct {
	task *Task
	node *Node
}

// Node is the processor's name.
func (c *Context) Node() string { return c.node.Name }

// App is the application id.
func (c *Context) App() string { return c.task.config.App }

// Partition is the task's.
func (c *Context) Partition() int32 { return c.task.config.Partition }

// Record is the record context: where the record being processed was read, with the
// timestamp and headers of the record that was forwarded to this node.
func (c *Context) Record() store.Record { return c.task.current }

// Leaf tells whether nobody is downstream, so that there is nothing to forward.
func (c *Context) Leaf() bool { return len(c.node.children) == 0 }

// Forward hands a record to all children, depth first. Its timestamp and headers are the
// record context of what follows. The old value and staleness travel with it.
func (c *Context) Forward(r Record) error {
	return c.task.forward(c.node, r, "")
}

// ForwardTo is Forward to one child.
func (c *Context) ForwardTo(child string, r Record) error {
	return c.task.forward(c.node, r, child)
}

// Under runs do with another record context, as a flush and the eviction of a buffer do.
func (c *Context) Under(r store.Record, do func() error) error {
	saved, running := c.task.current, c.task.running
	c.task.current, c.task.running = r, c.node
	err := do()
	c.task.current, c.task.running = saved, running // after a panic they tell where it was
	return err
}

// StreamTime is the largest timestamp that the task has taken in, -1 at first.
func (c *Context) StreamTime() int64 { return c.task.streamTime }

// OnClose has a function called when the task ends, before its stores are closed.
func (c *Context) OnClose(closed func() error) { c.task.closers = append(c.task.closers, closed) }

// Now is wall-clock time.
func (c *Context) Now() time.Time { return c.task.config.Now() }

// Drop counts a record that is dropped, and logs the first, the second, the fourth and so on.
func (c *Context) Drop(reason string) { c.task.drop(c.node.Name, reason) }

// EmitInterval is how much wall-clock time passes between two emissions, at least.
func (c *Context) EmitInterval() time.Duration { return c.task.config.EmitInterval }

// Warn logs what is odd about a record that is processed all the same: the first time, the
// second, the fourth and so on.
func (c *Context) Warn(what string) { c.task.warn(c.node.Name, what) }

// Mark returns a value that is committed with the input offsets (the last emitted close of
// a store, for example); ok is false when it was never set.
func (c *Context) Mark(name string) (value int64, ok bool) {
	value, ok = c.task.marks[name]
	return value, ok
}

// SetMark sets such a value.
func (c *Context) SetMark(name string, value int64) { c.task.marks[name] = value }

// Share returns what make makes at first, and then the same for all processors of the task
// that ask for the name: the stream time that both sides of a join have in common.
func Share[T any](c *Context, name string, make func() T) T {
	if v, ok := c.task.shared[name]; ok {
		return v.(T)
	}
	v := make()
	c.task.shared[name] = v
	return v
}

// Open returns one of the node's stores.
func Open[S State](c *Context, name string) (S, error) {
	s, ok := c.task.states[name].(S)
	if !ok {
		return s, fmt.Errorf("the store %q is %T, not %T", name, c.task.states[name], s)
	}
	return s, nil
}

// ClockKind is which time a schedule follows.
type ClockKind uint8

const (
	// StreamClock is time as it passes in the input.
	StreamClock ClockKind = iota
	// WallClock is the time of day.
	WallClock
)

// Schedule calls punctuate at every interval of ms, until cancel is called. By stream time
// it first fires with the first record, by wall clock after an interval.
func (c *Context) Schedule(interval int64, kind ClockKind, punctuate func(now int64) error) (cancel func()) {
	s := &schedule{node: c.node, interval: interval, kind: kind, punctuate: punctuate}
	if kind == WallClock {
		s.next = c.Now().UnixMilli() + interval
	}
	c.task.schedules = append(c.task.schedules, s)
	return func() { s.cancelled = true }
}

type schedule struct {
	node           *Node
	interval, next int64
	kind           ClockKind
	punctuate      func(now int64) error
	cancelled      bool
}
