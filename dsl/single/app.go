// Package single runs a topology in one process, alone: for topics of one partition, at
// least once. It consumes, processes and commits with the same tasks as the test driver,
// and restores stores from their changelogs at start.
package single

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-streams/forebay/changelog"
	"github.com/forebay-streams/forebay/dsl"
	"github.com/forebay-streams/forebay/dsl/internal/engine"
	"github.com/forebay-streams/forebay/store"
)

// Config is what an application needs beside its topology.
type Config struct {
	// App is the application id: the consumer group, and the start of internal topics' names.
	App string
	// Brokers are addresses to start from, host:port.
	Brokers []string
	// StateDir is where the stores lie: <StateDir>/<App>/<group>_0.
	StateDir string
	// CacheBytes is for the record caches of all stores (statestore.cache.max.bytes); 0: none.
	CacheBytes int64
	// CommitEvery is how many records are processed between two commits, at most; 0: 50,000.
	// A commit comes at the end of [App.Run] too, and when the stores ask for one.
	CommitEvery int
	// Restoring is told how stores are restored.
	Restoring changelog.Listener
	// Changelogs makes the writers of changelogs; nil: [changelog.NewWriter].
	Changelogs func(cl *kgo.Client, topic string, partition int32) (store.Changelog, error)
	// Logger is where drops are logged; nil: [slog.Default].
	Logger *slog.Logger
}

// App is a topology that runs. One goroutine owns it; others may read through a [View].
type App struct {
	config   Config
	graph    *engine.Graph
	producer *kgo.Client // of sinks and changelogs
	consumer *kgo.Client
	tasks    []*engine.Task
	budget   *store.Budget
	sources  []string
	sent     kgo.FirstErrPromise
	restored int64
	next     map[string]kgo.EpochOffset // what to read next, of each topic that was read
	behind   bool                       // some of it is not committed
	failed   error                      // in the middle of a batch: nothing runs or commits any more
}

const (
	pollRecords   = 10_000 // at most, at a time
	commitEvery   = 50_000
	emitEvery     = time.Second
	onlyPartition = 0
)

// Open makes the internal topics, opens the stores and brings them up to date. Topics of
// the user's must exist, with one partition each.
func Open(ctx context.Context, t *dsl.Topology, c Config) (_ *App, err error) {
	if c.App == "" || c.StateDir == "" || len(c.Brokers) == 0 {
		return nil, fmt.Errorf("%w: App, Brokers and StateDir must be given", store.ErrConfig)
	}
	if c.CommitEvery <= 0 {
		c.CommitEvery = commitEvery
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Changelogs == nil {
		c.Changelogs = func(cl *kgo.Client, topic string, partition int32) (store.Changelog, error) {
			return changelog.NewWriter(cl, topic, partition)
		}
	}
	a := &App{config: c, graph: t.Graph(), budget: store.NewBudget(c.CacheBytes), next: map[string]kgo.EpochOffset{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	if a.producer, err = a.client(changelog.ProducerOpts()...); err != nil {
		return nil, err
	}
	if err := a.prepare(ctx); err != nil {
		return nil, err
	}
	for _, g := range a.graph.Groups() {
		task, err := engine.NewTask(g, a.taskConfig(ctx, g))
		if err != nil {
			return nil, err
		}
		a.tasks = append(a.tasks, task)
	}
	if err := a.resume(ctx); err != nil {
		return nil, err
	}
	a.consumer, err = a.client(
		kgo.ConsumerGroup(c.App),
		kgo.ConsumeTopics(a.sources...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.FetchMaxWait(500*time.Millisecond),
	)
	return a, err
}

func (a *App) client(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(options, kgo.SeedBrokers(a.config.Brokers...), kgo.ClientID(a.config.App))...)
}

// prepare makes internal topics and looks at the others.
func (a *App) prepare(ctx context.Context) error {
	adm := kadm.NewClient(a.producer)
	for _, g := range a.graph.Groups() {
		if g.Global {
			return fmt.Errorf("%w: the topology has a global table, which one process alone does not run", store.ErrConfig)
		}
		for _, s := range g.Stores {
			if s.Changelog != nil {
				if err := ensureChangelog(ctx, adm, a.config.App, s); err != nil {
					return err
				}
			}
		}
	}
	for _, n := range a.graph.Nodes {
		if n.Source == nil {
			continue
		}
		for _, t := range n.Source.Topics {
			name := t.In(a.config.App)
			if t.Internal {
				if err := ensureRepartition(ctx, adm, name); err != nil {
					return err
				}
			}
			a.sources = append(a.sources, name)
		}
	}
	users := slices.Clone(a.sources)
	for _, n := range a.graph.Nodes {
		if n.Sink != nil && n.Sink.Dynamic == nil {
			users = append(users, n.Sink.Topic.In(a.config.App))
		}
	}
	topics, err := adm.ListTopics(ctx, users...)
	if err != nil {
		return err
	}
	for _, name := range users {
		if err := topics[name].Err; err != nil {
			return fmt.Errorf("the topic %q: %w", name, err)
		}
		if n := len(topics[name].Partitions); n != 1 {
			return fmt.Errorf("%w: the topic %q has %d partitions; one process alone takes topics of one", store.ErrConfig, name, n)
		}
	}
	return nil
}

func (a *App) taskConfig(ctx context.Context, g engine.Group) engine.Config {
	c := a.config
	return engine.Config{
		App: c.App, Partition: onlyPartition, Dir: store.TaskDir(c.StateDir, c.App, g.ID, onlyPartition),
		Budget: a.budget, Cache: c.CacheBytes > 0, Logger: c.Logger,
		Produce: a.produce,
		Log: func(topic string, partition int32) (store.Changelog, error) {
			log, err := c.Changelogs(a.producer, topic, partition)
			return dated{log}, err
		},
		Partitions: func(string) int32 { return 1 },
		Now:        time.Now, EmitInterval: emitEvery,
		Restore: func(s engine.State) error {
			result, err := changelog.Restore(ctx, a.producer, s, changelog.WithListener(c.Restoring))
			a.restored += result.Rows
			return err
		},
	}
}

// Restored is how many rows came back from changelogs when the application started.
func (a *App) Restored() int64 { return a.restored }

func (a *App) produce(p engine.Produced) error {
	headers, err := changelog.RecordHeaders(p.Headers)
	if err != nil {
		return err
	}
	a.producer.Produce(context.Background(), &kgo.Record{
		Topic: p.Topic, Partition: max(p.Partition, onlyPartition), Key: p.Key, Value: p.Value,
		Timestamp: time.UnixMilli(p.Timestamp), Headers: headers,
	}, a.sent.Promise())
	return nil // a commit tells: to ask here would be to wait for the record
}

// Run processes records until done, which is asked after each batch with the number of
// records processed so far, or ctx ends. What was processed is committed. After an error in
// the middle of a batch the application must be closed and opened again, from the last
// commit: the rest of the batch would be missed.
func (a *App) Run(ctx context.Context, done func(processed int) bool) error {
	if a.failed != nil {
		return a.failed
	}
	uncommitted := 0
	for processed := 0; !done(processed) && ctx.Err() == nil; {
		fetches, idle, err := a.poll(ctx, uncommitted > 0 || a.byWallClock())
		switch {
		case err == nil:
		case fetches.NumRecords() > 0:
			a.failed = err
			return err
		case ctx.Err() != nil:
			return errors.Join(err, a.commitAnyway(ctx))
		default:
			return err
		}
		for r := range fetches.RecordsAll() {
			if err := a.process(r); err != nil {
				a.failed = err
				return err
			}
			processed++
			if uncommitted++; uncommitted >= a.config.CommitEvery || a.needsCommit() {
				if err := a.commitAnyway(ctx); err != nil {
					a.failed = err
					return err
				}
				uncommitted = 0
			}
		}
		punctuated, err := a.punctuate()
		if err != nil {
			a.failed = err
			return err
		}
		if idle && uncommitted > 0 || punctuated {
			if err := a.commitAnyway(ctx); err != nil {
				return err
			}
			uncommitted = 0
		}
	}
	return errors.Join(ctx.Err(), a.commitAnyway(ctx))
}

// commitAnyway commits even if ctx has ended already, but does not try for ever.
func (a *App) commitAnyway(ctx context.Context) error {
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), lastCommit)
		defer cancel()
	}
	return a.Commit(ctx)
}

// lastCommit is how long a commit may take once the application is told to end.
const lastCommit = 10 * time.Second

// punctuate calls the schedules that are due, of all tasks: by the time of day they are
// without input, too.
func (a *App) punctuate() (called bool, err error) {
	for _, t := range a.tasks {
		ran, err := t.Punctuate()
		called = called || ran
		if err != nil {
			return called, err
		}
	}
	return called, nil
}

func (a *App) byWallClock() bool { return slices.ContainsFunc(a.tasks, (*engine.Task).ByWallClock) }

// poll waits for records. With something pending it does not wait for long: caches hold
// results back until a commit, and schedules go by the time of day.
func (a *App) poll(ctx context.Context, pending bool) (fetches kgo.Fetches, idle bool, err error) {
	wait := ctx
	if pending {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(ctx, idleCommit)
		defer cancel()
	}
	fetches = a.consumer.PollRecords(wait, pollRecords)
	err = fetches.Err()
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil, true, nil
	}
	return fetches, false, err
}

// idleCommit is how long an application waits for more records before it commits, and looks
// at the time of day.
const idleCommit = 100 * time.Millisecond

func (a *App) process(r *kgo.Record) error {
	in := engine.Input{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: changelog.RecordOf(r).Timestamp,
		Headers: changelog.Headers(r), Key: r.Key, Value: r.Value}
	for _, t := range a.tasks {
		if !t.Reads(r.Topic) {
			continue
		}
		if err := t.Process(in); err != nil {
			return err
		}
		if _, err := t.Punctuate(); err != nil {
			return err
		}
	}
	a.next[r.Topic], a.behind = kgo.EpochOffset{Epoch: r.LeaderEpoch, Offset: r.Offset + 1}, true
	return nil
}

func (a *App) needsCommit() bool {
	for _, t := range a.tasks {
		if t.NeedsCommit() {
			return true
		}
	}
	return false
}

// Commit ends a round in the order that loses nothing: caches are flushed, what was produced
// and logged is acknowledged, then the input counts as read, then the rows are on disk. A
// crash between two steps repeats records, and never skips one.
func (a *App) Commit(ctx context.Context) error {
	if a.failed != nil {
		return a.failed
	}
	for _, t := range a.tasks {
		if err := t.Flush(ctx); err != nil {
			return err
		}
	}
	if err := a.producer.Flush(ctx); err != nil {
		return err
	}
	if err := a.sent.Err(); err != nil {
		return err
	}
	if a.behind {
		if err := a.commitInput(ctx); err != nil {
			return err
		}
	}
	for _, t := range a.tasks {
		if err := t.Commit(ctx); err != nil {
			return err
		}
	}
	a.behind = false
	return nil
}

// Close drops what is not committed and frees everything.
func (a *App) Close() error {
	var errs []error
	for _, t := range a.tasks {
		errs = append(errs, t.Close())
	}
	a.tasks = nil
	for _, cl := range []*kgo.Client{a.consumer, a.producer} {
		if cl != nil {
			cl.Close()
		}
	}
	return errors.Join(errs...)
}
