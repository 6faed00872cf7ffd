package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/forebay-streams/forebay/store"
)

// Config is what a task needs of whoever drives it.
type Config struct {
	App       string
	Partition int32
	// Dir is the task's directory.
	Dir string
	// InMemory keeps all stores in memory, whatever they ask for.
	InMemory bool
	// Budget is shared by the stores of all tasks. Cache tells whether it has any bytes for
	// record caches.
	Budget *store.Budget
	Cache  bool
	// Produce takes what sinks produce. It may return before the record is sent.
	Produce func(Produced) error
	// Log makes the writer of a changelog.
	Log func(topic string, partition int32) (store.Changelog, error)
	// Partitions tells how many partitions a topic has.
	Partitions func(topic string) int32
	Now        func() time.Time
	// EmitInterval is how much wall-clock time passes between two emissions of closed windows
	// or unmatched rows, at least.
	EmitInterval time.Duration
	// Restore brings a store up to date before the first record; nil: it is.
	Restore func(State) error
	// Shared are the states of global stores, which other tasks opened.
	Shared map[string]State
	Logger *slog.Logger
}

// Task runs one sub-topology for one partition. One goroutine owns it.
type Task struct {
	config  Config
	nodes   []*Node
	sources map[string]*Node
	procs   map[*Node]Processor
	states  map[string]State
	owned   []State // in the order of the topology

	current    store.Record
	running    *Node // whose processor is at work
	runs       int   // how often one was
	streamTime int64
	times      map[partition]int64
	marks      map[string]int64
	shared     map[string]any
	schedules  []*schedule
	closers    []func() error
	dropped    map[drop]int64
	warned     map[drop]int64
}

type partition struct {
	topic string
	index int32
}

type drop struct{ node, reason string }

// NewTask opens the stores of a group and makes its processors. After an error nothing
// is left open.
func NewTask(g Group, c Config) (_ *Task, err error) {
	t := &Task{
		config: c, nodes: g.Nodes, streamTime: -1, current: nowhere,
		sources: map[string]*Node{}, procs: map[*Node]Processor{}, states: map[string]State{},
		times: map[partition]int64{}, marks: map[string]int64{}, shared: map[string]any{}, dropped: map[drop]int64{}, warned: map[drop]int64{},
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Close())
		}
	}()
	for name, s := range c.Shared {
		t.states[name] = s
	}
	for _, s := range g.Stores {
		env := &Env{Dir: c.Dir, Topic: s.topic(c.App), Partition: c.Partition, InMemory: c.InMemory, Budget: c.Budget, Cache: c.Cache}
		if s.Changelog != nil {
			if env.Log, err = c.Log(env.Topic, c.Partition); err != nil {
				return nil, err
			}
		}
		state, err := s.Open(env)
		if err != nil {
			return nil, err
		}
		t.states[s.Name] = state
		t.owned = append(t.owned, state)
		if c.Restore != nil {
			if err := c.Restore(state); err != nil {
				return nil, err
			}
		}
	}
	for _, n := range g.Nodes {
		if n.Source != nil {
			for _, topic := range n.Source.Topics {
				t.sources[topic.In(c.App)] = n
			}
		}
		if n.New != nil {
			t.procs[n] = n.New()
		}
	}
	for _, n := range g.Nodes {
		if p := t.procs[n]; p != nil {
			if err := p.Init(&Context{t, n}); err != nil {
				return nil, fmt.Errorf("%s: %w", n.Name, err)
			}
		}
	}
	return t, nil
}

// nowhere is the record context when no record is being processed.
var nowhere = store.Record{Partition: -1, Offset: -1, Timestamp: store.NoTimestamp}

// Reads tells whether the task has a source for the topic.
func (t *Task) Reads(topic string) bool { return t.sources[topic] != nil }

// Process runs a record through the topology.
func (t *Task) Process(in Input) error { return t.guard(func() error { return t.process(in) }) }

// guard turns a panic, of a user's function most likely, into an error with the node's name:
// what the task did since the last commit must not be committed, and other tasks may go on.
func (t *Task) guard(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a function panicked at %s-%d, offset %d: %v\n%s", t.current.Topic, t.current.Partition, t.current.Offset, p, debug.Stack())
			if t.running != nil {
				err = &nodeError{t.running.Name, err}
			}
		}
		t.current, t.running = nowhere, nil
	}()
	return do()
}

func (t *Task) process(in Input) error {
	n := t.sources[in.Topic]
	if n == nil {
		return fmt.Errorf("no source reads the topic %q", in.Topic)
	}
	h := in.Headers.Copy()
	r := Record{Timestamp: in.Timestamp, Headers: in.Headers}
	var err error
	if r.Key, r.Value, r.Old, err = n.Source.Decode(in.Topic, &h, in.Key, in.Value); err != nil {
		return fmt.Errorf("%s: %s-%d, offset %d: %w", n.Name, in.Topic, in.Partition, in.Offset, err)
	}
	p := partition{in.Topic, in.Partition}
	previous, known := t.times[p]
	if !known {
		previous = -1
	}
	if n.Source.Timestamp != nil {
		t.current = store.Record{Topic: in.Topic, Partition: in.Partition, Offset: in.Offset, Timestamp: in.Timestamp, Headers: in.Headers}
		r.Timestamp = n.Source.Timestamp(r, previous)
	}
	if r.Timestamp < 0 {
		t.drop(n.Name, "negative timestamp")
		return nil
	}
	t.times[p] = max(previous, r.Timestamp)
	t.streamTime = max(t.streamTime, r.Timestamp)
	t.current = store.Record{Topic: in.Topic, Partition: in.Partition, Offset: in.Offset, Timestamp: r.Timestamp, Headers: in.Headers}
	return t.forward(n, r, "")
}

// forward runs the children of a node, or one of them.
func (t *Task) forward(from *Node, r Record, only string) error {
	if r.Timestamp < 0 {
		return fmt.Errorf("%s forwards a record: %w: %d", from.Name, store.ErrNegativeTimestamp, r.Timestamp)
	}
	saved := t.current
	for _, n := range from.children {
		if only != "" && n.Name != only {
			continue
		}
		t.current.Timestamp, t.current.Headers = r.Timestamp, r.Headers
		if err := t.run(n, r); err != nil {
			t.current = saved
			return err
		}
	}
	t.current = saved
	return nil
}

func (t *Task) run(n *Node, r Record) (err error) {
	from := t.running
	t.running = n
	t.runs++
	if n.Sink != nil {
		err = t.send(n.Sink, r)
	} else {
		err = t.procs[n].Process(r)
	}
	t.running = from
	return named(n, err)
}

// nodeError names the node in which an error arose, the innermost only.
type nodeError struct {
	node string
	err  error
}

func (e *nodeError) Error() string { return e.node + ": " + e.err.Error() }
func (e *nodeError) Unwrap() error { return e.err }

func named(n *Node, err error) error {
	if err == nil {
		return nil
	}
	if inner := (*nodeError)(nil); errors.As(err, &inner) {
		return err
	}
	return &nodeError{n.Name, err}
}

func (t *Task) send(s *Sink, r Record) error {
	topic := s.Topic.In(t.config.App)
	if s.Dynamic != nil {
		topic = s.Dynamic(t.current, r)
	}
	out := Produced{Topic: topic, Partition: AnyPartition, Timestamp: r.Timestamp, Headers: r.Headers.Copy()}
	var err error
	if out.Key, out.Value, err = s.Encode(topic, &out.Headers, r); err != nil {
		return err
	}
	out.Partition = s.Partition(topic, r, out.Key, t.config.Partitions(topic))
	return t.config.Produce(out)
}

// ByWallClock tells whether a schedule waits for the time of day: whoever drives the task
// then punctuates without input, too.
func (t *Task) ByWallClock() bool {
	return slices.ContainsFunc(t.schedules, func(s *schedule) bool { return s.kind == WallClock && !s.cancelled })
}

// Punctuate calls the schedules that are due, and tells whether there were any.
func (t *Task) Punctuate() (called bool, err error) {
	for _, s := range t.schedules {
		now := t.streamTime
		if s.kind == WallClock {
			now = t.config.Now().UnixMilli()
		}
		if s.cancelled || now < s.next || s.kind == StreamClock && now < 0 {
			continue
		}
		s.next += ((now-s.next)/s.interval + 1) * s.interval
		t.current, t.running = store.Record{Partition: -1, Offset: -1, Timestamp: now}, s.node
		called = true
		if err := t.guard(func() error { return s.punctuate(now) }); err != nil {
			return called, named(s.node, err)
		}
	}
	t.schedules = slices.DeleteFunc(t.schedules, func(s *schedule) bool { return s.cancelled })
	return called, nil
}

// Flush forwards and logs what the caches hold back, in the order of the topology. What is
// forwarded may be written to a store that was flushed before, one that a processor further
// up uses too: then they are flushed again, until nothing is forwarded any more.
func (t *Task) Flush(ctx context.Context) error {
	for before := -1; before != t.runs; {
		before = t.runs
		for _, s := range t.owned {
			if err := t.guard(func() error { return s.Flush(ctx) }); err != nil {
				return err
			}
		}
	}
	for _, n := range t.nodes {
		if c, ok := t.procs[n].(Committer); ok {
			if err := c.BeforeCommit(); err != nil {
				return named(n, err)
			}
		}
	}
	return nil
}

// Commit writes everything since the last commit to the stores. Whoever drives the task
// has flushed it, and committed the input offsets.
func (t *Task) Commit(ctx context.Context) error {
	var errs []error
	for _, s := range t.owned {
		errs = append(errs, s.Commit(ctx))
	}
	return errors.Join(errs...)
}

// NeedsCommit tells whether the stores hold so many uncommitted bytes that the next commit
// should not wait.
func (t *Task) NeedsCommit() bool {
	for _, s := range t.owned {
		if s, ok := s.(interface{ NeedsCommit() bool }); ok && s.NeedsCommit() {
			return true
		}
	}
	return false
}

// Abort drops everything since the last commit. Whoever drives the task processes the same
// input again, with a task that is made anew: processors may remember what is gone.
func (t *Task) Abort() {
	for _, s := range t.owned {
		s.Abort()
	}
}

// Close drops what is not committed and frees everything.
func (t *Task) Close() error {
	var errs []error
	for _, n := range slices.Backward(t.nodes) {
		if c, ok := t.procs[n].(Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	for _, closed := range slices.Backward(t.closers) {
		errs = append(errs, closed())
	}
	t.closers = nil
	for _, s := range slices.Backward(t.owned) {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// State returns an open store of the task.
func (t *Task) State(name string) (State, bool) {
	s, ok := t.states[name]
	return s, ok
}

// States are the task's own stores, in the order of the topology.
func (t *Task) States() []State { return t.owned }

// StreamTime is the largest timestamp that the task has taken in, -1 at first.
func (t *Task) StreamTime() int64 { return t.streamTime }

// Marks are the values that are committed with the input offsets.
func (t *Task) Marks() map[string]int64 { return t.marks }

// Resume sets time and marks to those of a commit; of several, the newest count.
func (t *Task) Resume(streamTime int64, marks map[string]int64) {
	t.streamTime = max(t.streamTime, streamTime)
	for k, v := range marks {
		if old, ok := t.marks[k]; !ok || v > old {
			t.marks[k] = v
		}
	}
}

// Metadata is what is committed with the offset of a partition.
func (t *Task) Metadata(topic string, index int32) Metadata {
	out := Metadata{Time: -1, Marks: t.marks}
	if at, ok := t.times[partition{topic, index}]; ok {
		out.Time = at
	}
	return out
}

// ResumePartition sets time and marks to those that were committed with a partition's offset.
func (t *Task) ResumePartition(topic string, index int32, m Metadata) {
	if m.Time >= 0 {
		t.times[partition{topic, index}] = m.Time
	}
	t.Resume(m.Time, m.Marks)
}

// Dropped is how many records were dropped, in all.
func (t *Task) Dropped() (n int64) {
	for _, d := range t.dropped {
		n += d
	}
	return n
}

func (t *Task) drop(node, reason string) {
	t.count(t.dropped, "record dropped", node, reason)
}

func (t *Task) warn(node, what string) {
	t.count(t.warned, "record processed all the same", node, what)
}

func (t *Task) count(counts map[drop]int64, message, node, reason string) {
	key := drop{node, reason}
	counts[key]++
	if n := counts[key]; n&(n-1) == 0 {
		t.config.Logger.Warn(message, "node", node, "reason", reason, "topic", t.current.Topic,
			"partition", t.current.Partition, "offset", t.current.Offset, "total", n)
	}
}
