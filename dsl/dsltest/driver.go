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
	logs     map[string][]Record // changelogs and topics of global tables, to restore from
	resume   []resume            // by group, as of the last commit
	err      error               // the first one: nothing runs after it
}

// resume is what an application commits with its input offsets.
type resume struct {
	streamTime int64
	marks      map[string]int64
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
	d.resume = make([]resume, len(d.groups))
	for i := range d.resume {
		d.resume[i].streamTime = -1
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
			t.Resume(d.resume[i].streamTime, d.resume[i].marks)
			if err := d.refill(t, g); err != nil {
				return err
			}
			if global {
				for _, s := range t.States() {
					d.global[s.Name()] = s
				}
			}
		}
	}
	return nil
}

// restore brings a store up to date from its changelog.
func (d *Driver) restore(s engine.State) error {
	topic, _ := s.ChangelogPartition()
	next := int64(0)
	if offset, ok := s.RestoredOffset(); ok && offset >= 0 {
		next = offset + 1
	}
	log := d.logs[topic]
	if next >= int64(len(log)) {
		return nil
	}
	var changes []store.Change
	for _, r := range log[next:] {
		changes = append(changes, store.Change{Key: r.Key, Row: store.Row{Value: r.Value, Timestamp: r.Timestamp, Headers: r.Headers}})
	}
	return s.RestoreBatch(changes, int64(len(log)-1))
}

// refill processes the topics of global tables again.
func (d *Driver) refill(t *engine.Task, g engine.Group) error {
	if !g.Global {
		return nil
	}
	for _, topic := range d.topics {
		if !t.Reads(topic) {
			continue
		}
		for i, r := range d.logs[topic] {
			if d.err = t.Process(input(r, int64(i))); d.err != nil {
				return d.err
			}
			if err := d.commit(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// Restart closes the topology and starts it again, as an application does that was stopped
// after a commit. With wipe the stores' directory is lost, and everything comes back from
// the changelogs. Records that were produced and not read yet stay.
func (d *Driver) Restart(wipe bool) error {
	if d.err != nil {
		return d.err
	}
	if err := d.closeTasks(); err != nil {
		return err
	}
	if wipe && !d.settings.memory {
		if err := os.RemoveAll(filepath.Join(d.settings.dir, d.settings.app)); err != nil {
			return err
		}
	}
	return d.open()
}

func (d *Driver) closeTasks() error {
	var errs []error
	for _, t := range slices.Backward(d.tasks) {
		if t != nil {
			errs = append(errs, t.Close())
		}
	}
	d.tasks = nil
	return errors.Join(errs...)
}

func (d *Driver) config(g engine.Group) engine.Config {
	c := engine.Config{
		App: d.settings.app, InMemory: d.settings.memory, Budget: d.budget, Cache: d.settings.cache > 0,
		Produce: d.produce, Log: d.changelog, Partitions: func(string) int32 { return 1 },
		Now: func() time.Time { return d.settings.now }, EmitInterval: d.settings.interval,
		Shared: d.global, Logger: d.settings.logger, Restore: d.restore,
	}
	c.Dir = store.TaskDir(d.settings.dir, d.settings.app, g.ID, 0)
	if g.Global {
		c.Dir = filepath.Join(d.settings.dir, d.settings.app, "global")
	}
	return c
}

// Pipe gives a record to the topology and processes all that follows from it, with a commit
// after each step.
func (d *Driver) Pipe(r Record) error { return d.PipeAll(r) }

// PipeAll gives records to the topology that an application would process between two
// commits: caches are flushed after the last of them.
func (d *Driver) PipeAll(records ...Record) error {
	if d.err != nil {
		return d.err
	}
	for _, r := range records {
		if !slices.Contains(d.topics, r.Topic) {
			return fmt.Errorf("the topology does not read the topic %q", r.Topic)
		}
		if r.Timestamp < 0 {
			return fmt.Errorf("%w: %d", store.ErrNegativeTimestamp, r.Timestamp)
		}
	}
	for _, r := range records {
		d.enqueue(r)
		if len(records) == 1 {
			break
		}
		if err := d.step(r.Topic, func(*engine.Task) error { return nil }); err != nil {
			return err
		}
	}
	if len(records) > 1 {
		for _, t := range d.tasks {
			if err := d.commit(t); err != nil {
				return err
			}
		}
	}
	return d.run()
}

// Advance lets wall-clock time pass, and calls what is scheduled by it.
func (d *Driver) Advance(by time.Duration) error {
	if d.err != nil {
		return d.err
	}
	d.settings.now = d.settings.now.Add(by)
	for _, t := range d.tasks {
		if _, d.err = t.Punctuate(); d.err != nil {
			return d.err
		}
		if err := d.commit(t); err != nil {
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
		if err := d.step(topic, d.commit); err != nil {
			return err
		}
	}
}

// step processes the first record of a topic.
func (d *Driver) step(topic string, after func(*engine.Task) error) error {
	in := d.queues[topic][0]
	d.queues[topic] = d.queues[topic][1:]
	for _, t := range d.tasks {
		if !t.Reads(topic) {
			continue
		}
		err := t.Process(in)
		if err == nil {
			_, err = t.Punctuate()
		}
		if err != nil {
			d.err = err
			return err
		}
		if err := after(t); err != nil {
			return err
		}
	}
	return nil
}

func (d *Driver) next() (topic string, ok bool) {
	for _, t := range d.topics {
		if q := d.queues[t]; len(q) > 0 && (!ok || q[0].Timestamp < d.queues[topic][0].Timestamp) {
			topic, ok = t, true
		}
	}
	return topic, ok
}

// commit ends a step of a task.
func (d *Driver) commit(t *engine.Task) error {
	ctx := context.Background()
	if d.err = t.Flush(ctx); d.err == nil {
		d.err = t.Commit(ctx)
	}
	if d.err == nil {
		d.resume[slices.Index(d.tasks, t)] = resume{t.StreamTime(), maps.Clone(t.Marks())}
	}
	return d.err
}

func (d *Driver) enqueue(r Record) {
	d.queues[r.Topic] = append(d.queues[r.Topic], input(r, d.offsets[r.Topic]))
	d.offsets[r.Topic]++
	if d.isGlobal(r.Topic) {
		d.logs[r.Topic] = append(d.logs[r.Topic], r)
	}
}

func input(r Record, offset int64) engine.Input {
	return engine.Input{Topic: r.Topic, Offset: offset, Timestamp: r.Timestamp, Headers: r.Headers, Key: r.Key, Value: r.Value}
}

func (d *Driver) isGlobal(topic string) bool {
	for i, t := range d.tasks {
		if d.groups[i].Global && t.Reads(topic) {
			return true
		}
	}
	return false
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
	err := d.closeTasks()
	d.err = store.ErrClosed
	if d.own {
		err = errors.Join(err, os.RemoveAll(d.settings.dir))
	}
	return err
}

// changelog is the writer of a store.
func (d *Driver) changelog(topic string, partition int32) (store.Changelog, error) {
	return &changelog{d, topic, partition}, nil
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
