package dsltest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/forebay-streams/forebay/dsl"
	"github.com/forebay-streams/forebay/dsl/internal/engine"
	"github.com/forebay-streams/forebay/store"
)

// Option changes a [Driver].
type Option func(*settings)

type settings struct {
	app      string
	dir      string
	memory   bool
	cache    int64
	now      time.Time
	interval time.Duration
	logger   *slog.Logger
}

// App sets the application id, which internal topics begin with. Default: "test".
func App(id string) Option { return func(s *settings) { s.app = id } }

// StateDir keeps the stores below a directory, which stays when the driver is closed.
// Default: a directory of its own, which goes.
func StateDir(dir string) Option { return func(s *settings) { s.dir = dir } }

// InMemory keeps all stores in memory.
func InMemory() Option { return func(s *settings) { s.memory = true } }

// Cache gives the record caches so many bytes (statestore.cache.max.bytes). Default: 0, no
// cache. The driver flushes after every record, so that a cache merges only what one record
// leads to.
func Cache(bytes int64) Option { return func(s *settings) { s.cache = bytes } }

// Start sets wall-clock time. Default: the beginning of 1970.
func Start(t time.Time) Option { return func(s *settings) { s.now = t } }

// EmitInterval sets how much wall-clock time passes, at least, between two emissions of
// closed windows, or of rows that a join has not matched. Default: 0. An application has
// one second.
func EmitInterval(d time.Duration) Option { return func(s *settings) { s.interval = d } }

// Logger sets where drops are logged. Default: nowhere.
func Logger(l *slog.Logger) Option { return func(s *settings) { s.logger = l } }

// Record is a record as a topic has it.
type Record struct {
	Topic      string
	Key, Value []byte // nil: null
	Timestamp  int64
	Headers    store.Headers
}

// Driver runs one topology. It is not safe for many goroutines.
type Driver struct {
	settings settings
	own      bool // the directory is the driver's
	budget   *store.Budget
	groups   []engine.Group
	tasks    []*engine.Task // by group
	global   map[string]engine.State

	queues   map[string][]engine.Input // of topics that the topology reads
	topics   []string                  // of queues, in the order of their sources
	offsets  map[string]int64          // next ones, of every topic
	produced map[string][]Record
	logs     map[string][]Record // changelogs, to restore from
	err      error               // the first one: nothing runs after it
}

// New starts the topology.
func New(t *dsl.Topology, options ...Option) (_ *Driver, err error) {
	s := settings{app: "test", now: time.UnixMilli(0), logger: slog.New(slog.DiscardHandler)}
	for _, o := range options {
		o(&s)
	}
	d := &Driver{
		settings: s, budget: store.NewBudget(s.cache), groups: t.Graph().Groups(), global: map[string]engine.State{},
		queues: map[string][]engine.Input{}, offsets: map[string]int64{}, produced: map[string][]Record{}, logs: map[string][]Record{},
	}
	if !s.memory && s.dir == "" {
		d.own = true
		if d.settings.dir, err = os.MkdirTemp("", "dsltest"); err != nil {
			return nil, err
		}
	}
	for _, n := range t.Graph().Nodes {
		if n.Source != nil {
			for _, topic := range n.Source.Topics {
				d.topics = append(d.topics, topic.In(s.app))
			}
		}
	}
	if err := d.open(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// open makes the tasks, those of global stores first: the others read them.
func (d *Driver) open() error {
	d.tasks = make([]*engine.Task, len(d.groups))
	for _, global := range []bool{true, false} {
		for i, g := range d.groups {
			if g.Global != global {
				continue
			}
			t, err := engine.NewTask(g, d.config(g))
			if err != nil {
				return err
			}
			d.tasks[i] = t
			if global {
				for _, s := range t.States() {
					d.global[s.Name()] = s
				}
			}
		}
	}
	return nil
}

func (d *Driver) config(g engine.Group) engine.Config {
	c := engine.Config{
		App: d.settings.app, InMemory: d.settings.memory, Budget: d.budget, Cache: d.settings.cache > 0,
		Produce: d.produce, Log: d.changelog, Partitions: func(string) int32 { return 1 },
		Now: func() time.Time { return d.settings.now }, EmitInterval: d.settings.interval,
		Shared: d.global, Logger: d.settings.logger,
	}
	c.Dir = store.TaskDir(d.settings.dir, d.settings.app, g.ID, 0)
	if g.Global {
		c.Dir = filepath.Join(d.settings.dir, d.settings.app, "global")
	}
	return c
}

// Pipe gives a record to the topology and processes all that follows from it.
func (d *Driver) Pipe(r Record) error {
	if d.err != nil {
		return d.err
	}
	if !slices.Contains(d.topics, r.Topic) {
		return fmt.Errorf("the topology does not read the topic %q", r.Topic)
	}
	if r.Timestamp < 0 {
		return fmt.Errorf("%w: %d", store.ErrNegativeTimestamp, r.Timestamp)
	}
	d.enqueue(r)
	return d.run()
}

// Advance lets wall-clock time pass, and calls what is scheduled by it.
func (d *Driver) Advance(by time.Duration) error {
	if d.err != nil {
		return d.err
	}
	d.settings.now = d.settings.now.Add(by)
	for _, t := range d.tasks {
		if err := d.settle(t, t.Punctuate()); err != nil {
			return err
		}
	}
	return d.run()
}

// run processes until nothing is queued: the record with the smallest timestamp first.
func (d *Driver) run() error {
	for {
		topic, ok := d.next()
		if !ok {
			return nil
		}
		in := d.queues[topic][0]
		d.queues[topic] = d.queues[topic][1:]
		for _, t := range d.tasks {
			if !t.Reads(topic) {
				continue
			}
			err := t.Process(in)
			if err == nil {
				err = t.Punctuate()
			}
			if err := d.settle(t, err); err != nil {
				return err
			}
		}
	}
}

func (d *Driver) next() (topic string, ok bool) {
	for _, t := range d.topics {
		if q := d.queues[t]; len(q) > 0 && (!ok || q[0].Timestamp < d.queues[topic][0].Timestamp) {
			topic, ok = t, true
		}
	}
	return topic, ok
}

// settle ends a step of a task: with a commit, or for good.
func (d *Driver) settle(t *engine.Task, err error) error {
	ctx := context.Background()
	if err == nil {
		err = t.Flush(ctx)
	}
	if err == nil {
		err = t.Commit(ctx)
	}
	d.err = err
	return err
}

func (d *Driver) enqueue(r Record) {
	in := engine.Input{Topic: r.Topic, Offset: d.offsets[r.Topic], Timestamp: r.Timestamp, Headers: r.Headers, Key: r.Key, Value: r.Value}
	d.offsets[r.Topic]++
	d.queues[r.Topic] = append(d.queues[r.Topic], in)
}

func (d *Driver) produce(p engine.Produced) error {
	r := Record{Topic: p.Topic, Key: p.Key, Value: p.Value, Timestamp: p.Timestamp, Headers: p.Headers}
	d.produced[p.Topic] = append(d.produced[p.Topic], r)
	if slices.Contains(d.topics, p.Topic) {
		d.enqueue(r)
	}
	return nil
}

// Topics are the topics that something was produced to and not read yet, sorted. Internal
// topics and changelogs are among them.
func (d *Driver) Topics() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for topic, list := range maps.All(d.produced) {
			if len(list) > 0 && !yield(topic) {
				return
			}
		}
	})
}

// Read returns what was produced to a topic since the last Read.
func (d *Driver) Read(topic string) []Record {
	list := d.produced[topic]
	delete(d.produced, topic)
	return list
}

// Close ends the topology. Stores in a [StateDir] stay.
func (d *Driver) Close() error {
	var errs []error
	for _, t := range slices.Backward(d.tasks) {
		if t != nil {
			errs = append(errs, t.Close())
		}
	}
	d.tasks = nil
	d.err = store.ErrClosed
	if d.own {
		errs = append(errs, os.RemoveAll(d.settings.dir))
	}
	return errors.Join(errs...)
}

// changelog is the writer of a store.
func (d *Driver) changelog(topic string, partition int32) store.Changelog {
	return &changelog{d, topic, partition}
}

type changelog struct {
	driver    *Driver
	topic     string
	partition int32
}

func (l *changelog) Topic() string    { return l.topic }
func (l *changelog) Partition() int32 { return l.partition }

func (l *changelog) Append(c store.Change) error {
	r := Record{Topic: l.topic, Key: c.Key, Value: c.Value, Timestamp: c.Timestamp, Headers: c.Headers}
	d := l.driver
	d.produced[l.topic] = append(d.produced[l.topic], r)
	d.logs[l.topic] = append(d.logs[l.topic], r)
	return nil
}

func (l *changelog) Flush(context.Context) (int64, bool, error) {
	n := int64(len(l.driver.logs[l.topic]))
	return n - 1, n > 0, nil
}
