package crash

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/forebay-streams/forebay/internal/failpoint"
	"github.com/forebay-streams/forebay/internal/subject"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

// childEnv holds the task of a child process.
const childEnv = "FOREBAY_CRASH_CHILD"

// task is what a child does.
type task struct {
	Mode    string // run, downgrade, full
	Dir     string
	Seed    uint64 // of this cycle's own choices
	Variant variant
	Layout  store.Layout
	Base    int64 // offset of the base rows, of a key-value store
	Eras    []era // formats that the directory had before
	Bulk    bool  // restore in bulk if the store can
	Half    bool  // the directory holds half a bulk load, of which nothing may be left

	Kill kill
	// Until is the input offset at which the child ends, negative: when it has done -Until
	// operations.
	Until int64
	// To and Kafka42 are those of a downgrade.
	To      store.Layout
	Kafka42 bool
}

// variant is how a group's stores are opened and used.
type variant struct {
	Family       subject.Family
	Ordered      bool  // in order of time
	Step         int64 // milliseconds that time moves on in an operation
	ExactlyOnce  bool
	Cache        int64 // bytes; 0: none
	WriteBuffers int64 // bytes; 0: memtables reach the disk at a close only
	LogBuffer    int   // records that wait before they are written
	CommitEvery  int   // operations at most
	Drain        bool
	Keys         int
	Big          bool
	InputSeed    uint64
}

func (v variant) String() string {
	b, _ := json.Marshal(v)
	return string(b)
}

// kill says when a child ends.
type kill struct {
	// Mark and Hit: at that hit of that mark. Empty: the parent kills after After.
	Mark  string
	Hit   int
	After time.Duration
	// Early counts from before the open, else from the end of the checks after the restore.
	Early bool
	// Wait passes between the mark and the end, so that what the library does behind comes
	// further.
	Wait time.Duration
	// Close the store before a child ends that met its Until.
	Close bool
	// Dirty leaves out the commit before the Close: a transaction that failed at its end.
	Dirty bool
	// Drain moves rows after every commit, and all of them before a Close.
	Drain bool
	// Slice is how many rows a drain moves at a time; 0: any number.
	Slice int
	// None lets the child end by itself.
	None bool
}

// The child's words to its parent, a line each.
const (
	saidReady   = "ready"   // a kill may come
	saidHit     = "hit"     // this mark ends the child
	saidChecked = "checked" // all checks after the restore passed
	saidLoaded  = "loaded"  // a bulk load is on disk up to this changelog offset
	saidClosed  = "closed"  // the store was closed at this changelog offset
	saidFail    = "fail"    // a failure follows
	saidDone    = "done"    // the task is done
	saidInfo    = "info"    // to be shown
	saidNoMount = "nomount" // no file system of its own to be had
)

// failure is a check that did not hold.
type failure struct {
	What string
	difference
}

func (f *failure) Error() string { return f.What }

func differ(d difference, what string, args ...any) error {
	if !d.any() {
		return nil
	}
	return &failure{fmt.Sprintf(what, args...), d}
}

func failed(what string, args ...any) error { return &failure{What: fmt.Sprintf(what, args...)} }

func say(word string, args ...any) {
	// One write, so that a kill leaves whole lines.
	fmt.Fprintln(os.Stdout, append([]any{word}, args...)...)
}

// child runs a task; it returns only if it was not told to die.
func child(spec string) int {
	var t task
	if err := json.Unmarshal([]byte(spec), &t); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	go func() { // the parent is gone
		_, _ = io.Copy(io.Discard, bufio.NewReader(os.Stdin))
		die()
	}()
	var err error
	switch t.Mode {
	case "run":
		err = (&worker{task: t, r: rand.New(rand.NewPCG(t.Seed, 1))}).run()
	case "downgrade":
		err = t.downgrade()
	case "full":
		err = (&worker{task: t, r: rand.New(rand.NewPCG(t.Seed, 1))}).fill()
	}
	if err == nil {
		say(saidDone)
		return 0
	}
	out := failure{What: err.Error()}
	if f := (*failure)(nil); errors.As(err, &f) {
		out.difference = f.difference
	}
	b, _ := json.Marshal(out)
	say(saidFail, string(b))
	return 3
}

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// arm begins to count hits. The goroutine that meets its end stands still.
func (k kill) arm() {
	hits := 0
	failpoint.Set(func(name string) {
		if k.Mark != name {
			return
		}
		if hits++; hits == k.Hit {
			say(saidHit, name)
			time.Sleep(k.Wait)
			die()
		}
	})
}

func (t task) path(name string) string { return filepath.Join(t.Dir, name) }
func taskDir(dir string) string        { return store.TaskDir(dir, appName, 0, 0) }
func dbDir(dir string) string          { return filepath.Join(taskDir(dir), "rocksdb", storeName) }
func bulkDir(dir string) string        { return filepath.Join(dbDir(dir), "forebay-bulk") }

func (t task) downgrade() error {
	if t.Kill.Mark != "" {
		t.Kill.arm()
	}
	say(saidReady)
	options := []migration.DowngradeOption{migration.DiscardHeaders(), migration.DiscardTimestamps()}
	if t.Kafka42 {
		options = append(options, migration.ForKafka42())
	}
	if _, err := migration.Downgrade(dbDir(t.Dir), t.To, options...); err != nil {
		return err
	}
	say(saidDone)
	die()
	return nil
}

// worker is an app with one store: it recovers, and works on its input.
type worker struct {
	task
	r       *rand.Rand
	content content
	log     *logFile
	journal *journal
	store   subject.Store
	drain   *migration.Drain

	next      int64 // input offset
	committed int64
	// position is the one that the next commit must store.
	position, committedPosition store.Position
}

// content is what differs between the families: the operations, and a model of what the
// store must hold.
type content interface {
	open(subject.Config) (subject.Store, error)
	// load makes the model what the changelog says up to an offset, and checks it.
	load(log view, from int64) error
	// restored is a change that the store was given.
	restored(logged)
	// step does an input operation on store and model, and compares what they say.
	step(n int64) error
	// check compares what the owner sees, committed what a commit has, with the model.
	check(when string) error
	committed(when string) error
	// failedCommit compares what is committed after a commit that failed.
	failedCommit(when string) error
	// whole compares the model with what the first n operations make.
	whole(when string, n int64) error
	// settle makes the model's last commit out of what it has, or goes back to that.
	settle(committed bool)
}

func (w *worker) newContent() content {
	if w.Variant.Family == subject.KV {
		return &rowsContent{worker: w}
	}
	return &timedContent{worker: w}
}

func (w *worker) run() error {
	if err := w.open(); err != nil {
		return err
	}
	if err := w.restore(); err != nil {
		return err
	}
	say(saidChecked)
	if !w.Kill.Early {
		w.begin()
	}
	until := w.Until
	if until < 0 {
		until = w.next - until
	}
	nextCommit := w.next + w.interval()
	for w.next < until {
		if err := w.content.step(w.next); err != nil {
			return fmt.Errorf("input %d: %w", w.next, err)
		}
		w.next++
		if w.next < nextCommit {
			continue
		}
		if err := w.endRound(); err != nil {
			return err
		}
		nextCommit = w.next + w.interval()
	}
	if w.Kill.Close || w.Kill.None {
		if err := w.close(); err != nil {
			return err
		}
	}
	if !w.Kill.None {
		die()
	}
	return nil
}

// close ends as an app does that is told to.
func (w *worker) close() (err error) {
	if w.Kill.Dirty {
		err = w.store.Flush(context.Background())
	} else {
		err = w.commit()
	}
	for done := !w.Kill.Drain; !done && err == nil; {
		done, err = w.drain.Step()
	}
	if err != nil {
		return err
	}
	offset, _ := w.store.RestoredOffset()
	if err := w.content.check("at the end"); err != nil {
		return err
	}
	if w.Kill.None {
		if err := w.content.whole("at the end", w.next); err != nil {
			return err
		}
	}
	if err := w.store.Close(); err != nil {
		return err
	}
	say(saidClosed, offset)
	return nil
}

func (w *worker) begin() {
	if w.Kill.Mark != "" {
		w.Kill.arm()
	}
	say(saidReady)
}

func (w *worker) interval() int64 { return 1 + w.r.Int64N(int64(w.Variant.CommitEvery)) }

// open opens store and files, and checks that the store holds what the changelog says up
// to the stored offset.
func (w *worker) open() (err error) {
	v := w.Variant
	w.content = w.newContent()
	if w.Kill.Early {
		w.begin()
	}
	if w.journal, err = openJournal(w.path("journal")); err != nil {
		return err
	}
	if w.log, err = openLog(w.path("changelog"), v.ExactlyOnce, v.LogBuffer); err != nil {
		return err
	}
	w.log.flushed = func() error { return w.journal.note(w.offset(), w.position) }
	budget := store.NewBudget(v.Cache, store.WriteBuffers(v.WriteBuffers), store.BlockCache(8<<20))
	config := subject.Config{Layout: w.Layout, Log: w.log, Budget: budget, Cache: v.Cache > 0, ExactlyOnce: v.ExactlyOnce, Ordered: v.Ordered}
	failpoint.Hit("open/begin")
	if w.store, err = w.content.open(config); err != nil {
		return err
	}
	failpoint.Hit("open/done")
	if left, err := exists(bulkDir(w.Dir)); left || err != nil {
		return errors.Join(err, failed("the open left what there was of a bulk load"))
	}
	if offset, known := w.store.RestoredOffset(); w.Half && known {
		return failed("half a bulk load was opened at offset %d", offset)
	}
	slice := w.Kill.Slice
	if slice == 0 {
		slice = 1 + w.r.IntN(20)
	}
	w.drain = migration.NewDrain(w.store, migration.SliceRows(slice))
	w.position = w.store.Position()
	w.committedPosition = w.position.Clone()
	return nil
}

// restore brings the store up to the changelog's end.
func (w *worker) restore() error {
	log, err := readLog(w.path("changelog"), w.Variant.ExactlyOnce)
	if err != nil {
		return err
	}
	from, known := w.store.RestoredOffset()
	if !known {
		from = -1
	}
	if err := w.content.load(log, from); err != nil {
		return err
	}
	end, err := w.bulk(known)
	if err != nil {
		return err
	}
	var batch []store.Change
	size := 1 + w.r.IntN(100)
	for i, r := range log.records {
		if r.offset <= from {
			continue
		}
		batch = append(batch, r.change)
		w.content.restored(r)
		if len(batch) < size && i+1 < len(log.records) {
			continue
		}
		if err := w.journal.note(r.offset, w.position); err != nil {
			return err
		}
		if err := w.store.RestoreBatch(batch, r.offset); err != nil {
			return err
		}
		failpoint.Hit("restore/batch")
		batch = nil
	}
	if err := end(); err != nil {
		return err
	}
	if err := w.content.check("after the restore"); err != nil {
		return err
	}
	if w.next, err = readInput(w.path("input")); err != nil {
		return err
	}
	if w.Variant.ExactlyOnce {
		w.next = log.input
		if err := w.content.whole("after the restore", w.next); err != nil {
			return err
		}
	}
	w.committed = w.next
	w.content.settle(true)
	return nil
}

// bulk begins a bulk load, if one is wanted and the store takes it. end follows the last batch.
func (w *worker) bulk(known bool) (end func() error, err error) {
	target, begun := w.store.(store.BulkTarget), false
	if w.Bulk {
		if begun, err = target.BeginBulk(); err != nil {
			return nil, err
		}
	}
	if want := w.Bulk && w.Variant.Family.Bulk() && !known; begun != want {
		return nil, failed("a bulk load began: %t, want %t", begun, want)
	}
	return func() error {
		if !begun {
			return nil
		}
		if err := target.EndBulk(); err != nil {
			return err
		}
		offset, _ := w.store.RestoredOffset()
		say(saidLoaded, offset)
		return nil
	}, nil
}

// endRound commits, or aborts, and does what an owner does between commits.
func (w *worker) endRound() error {
	if w.Variant.ExactlyOnce && w.r.IntN(8) == 0 {
		return w.abort()
	}
	if err := w.commit(); err != nil {
		return err
	}
	if w.Kill.Drain || w.Variant.Drain && w.r.IntN(4) == 0 {
		if _, err := w.drain.Step(); err != nil {
			return err
		}
	}
	if w.r.IntN(12) == 0 {
		when := fmt.Sprintf("between commits, at input %d", w.next)
		if err := w.content.committed(when); err != nil {
			return err
		}
		return w.content.check(when)
	}
	return nil
}

// offset is the changelog offset that a commit stores now.
func (w *worker) offset() int64 {
	if w.log.any {
		return w.log.acked
	}
	if offset, known := w.store.RestoredOffset(); known {
		return offset
	}
	return store.UnknownOffset
}

func (w *worker) commitInput() error {
	err := commitInput(w.path("input"), w.next)
	failpoint.Hit("input/committed")
	return err
}

func (w *worker) commit() error {
	ctx := context.Background()
	// At-least-once allows the other order, in which the store's commit does the flush.
	early := !w.Variant.ExactlyOnce && w.r.IntN(4) == 0
	if !early {
		if err := w.store.Flush(ctx); err != nil {
			return err
		}
		failpoint.Hit("store/flushed")
	}
	switch {
	case w.Variant.ExactlyOnce:
		if err := w.log.end(commit, w.next); err != nil {
			return err
		}
		failpoint.Hit("transaction/committed")
	case !early:
		if err := w.commitInput(); err != nil {
			return err
		}
	}
	if err := w.store.Commit(ctx); err != nil {
		return err
	}
	failpoint.Hit("store/committed")
	if early {
		if err := w.commitInput(); err != nil {
			return err
		}
	}
	offset := w.offset()
	if stored, known := w.store.RestoredOffset(); stored != offset || known != (offset >= 0) || !w.store.Position().Equal(w.position) {
		return failed("after a commit: offset %d and position %s, want %d and %s", stored, w.store.Position(), offset, w.position)
	}
	w.committed = w.next
	w.committedPosition = w.position.Clone()
	w.content.settle(true)
	return nil
}

// abort ends a transaction the other way, and does its input again.
func (w *worker) abort() error {
	if w.r.IntN(2) == 0 { // it failed at its end
		if err := w.store.Flush(context.Background()); err != nil {
			return err
		}
	}
	w.store.Abort()
	if err := w.log.end(abort, 0); err != nil {
		return err
	}
	failpoint.Hit("transaction/aborted")
	w.content.settle(false)
	w.next = w.committed
	w.position = w.committedPosition.Clone()
	return w.content.check("after an abort")
}
