package segment

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/checkpointfile"
	"github.com/forebay-streams/forebay/internal/failpoint"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

// Config says what a table opens.
type Config struct {
	// Dir is the store's directory, <task>/<store>.
	Dir string
	// Store is the store's name.
	Store string
	Clock *Clock
	// Formats of every segment.
	Formats []migration.Format
	// ChangelogTopic and Partition name the changelog offset.
	ChangelogTopic string
	Partition      int32
	// TaskDir holds the files that Kafka Streams before 4.3 kept beside its stores.
	TaskDir string
	// ExactlyOnce refuses segments that may hold uncommitted rows of Kafka Streams.
	ExactlyOnce bool
	// Budget shares a block cache with other stores; nil: the segments share one of their own.
	Budget *store.Budget
}

// Table is the segments of a store as one table. It implements base.Table and
// base.Combed. Only the owner commits; any goroutine may read.
type Table struct {
	config Config
	index  *migration.Index

	// mu is held for writing while a commit changes segments, so that readers of several
	// see all of it or nothing. set is replaced, never changed; nil: closed.
	mu  sync.RWMutex
	set atomic.Pointer[[]*segment]

	about      sync.Mutex // guards the checkpoint
	checkpoint base.Checkpoint
	known      bool

	// torn is the error of a commit that reached some segments only, tornAt the number of
	// aborts before it. The owner's.
	torn   error
	tornAt int
	// expired segments that scans may still hold. The owner's.
	expired []*segment
	// own is what a write has for one segment; reused. The owner's.
	own []store.Change
}

var (
	_ base.Table  = (*Table)(nil)
	_ base.Combed = (*Table)(nil)
)

// segment is one database.
type segment struct {
	*migration.Table
	holds
	id      int64
	retired atomic.Bool // expired: readers take its end for that of its rows
	// unindexed says that base rows of an older format have no index rows.
	unindexed bool
}

// Open opens every segment of the directory, or says with a remedy why it cannot.
func Open(c Config) (*Table, error) {
	if c.Budget == nil {
		c.Budget = store.NewBudget(0)
	}
	t := &Table{config: c, index: c.Formats[len(c.Formats)-1].Index}
	if err := t.open(); err != nil {
		var named *store.Error
		if errors.As(err, &named) {
			return nil, err
		}
		return nil, &store.Error{Store: c.Store, Op: "open", Err: err}
	}
	return t, nil
}

func (t *Table) open() (err error) {
	found, err := t.config.list()
	if err != nil {
		return err
	}
	// All are looked at before the first changes: a store that is refused stays as it was.
	files, err := t.readFiles()
	if err != nil {
		return err
	}
	vetted := make([]*migration.Vetted, len(found))
	for i, f := range found {
		if path := filepath.Join(t.config.Dir, f.name); !isRemnant(path) {
			if vetted[i], err = t.vet(f.id, path); err != nil {
				return err
			}
		}
	}
	if err := os.MkdirAll(t.config.Dir, 0o755); err != nil {
		return err
	}
	set := []*segment{}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll(set))
		}
	}()
	for i, f := range found {
		path := filepath.Join(t.config.Dir, f.name)
		if vetted[i] == nil {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
			continue
		}
		if now := t.config.path(f.id); now != path {
			if err := os.Rename(path, now); err != nil {
				return err
			}
			vetted[i].Moved(now)
		}
		s, err := t.openSegment(f.id, vetted[i])
		if err != nil {
			return err
		}
		set = append(set, s)
		unborn, err := t.endBirth(s)
		if err != nil {
			return err
		}
		if unborn {
			set = set[:len(set)-1]
		}
	}
	c, known := oldest(set)
	if err := t.adoptFiles(files, set, &c, &known); err != nil {
		return err
	}
	t.setCheckpoint(c, known)
	t.set.Store(&set)
	return nil
}

func (t *Table) vet(id int64, path string) (*migration.Vetted, error) {
	c := &t.config
	v, err := migration.Vet(migration.Config{
		Dir: path, Store: c.Store, Formats: c.Formats, ChangelogTopic: c.ChangelogTopic, Partition: c.Partition,
		ExactlyOnce: c.ExactlyOnce, Budget: c.Budget,
	})
	if err != nil {
		return nil, fmt.Errorf("segment %s: %w", c.Name(id), err)
	}
	return v, nil
}

func (t *Table) openSegment(id int64, v *migration.Vetted) (*segment, error) {
	table, err := v.Open()
	if err != nil {
		return nil, fmt.Errorf("segment %s: %w", t.config.Name(id), err)
	}
	s := &segment{Table: table, id: id}
	if t.index != nil && table.Migrating() {
		if s.unindexed, err = t.lacksIndex(table); err != nil {
			return nil, errors.Join(err, table.Close())
		}
	}
	return s, nil
}

// unborn is a file in the directory of a segment that is being made.
const unborn = "forebay.unborn"

// create makes the segment's database. It begins with what the store knows already, on
// disk: without, a crash before its first commit would leave the store without an offset.
// Until then a file says that nothing is lost with it.
func (t *Table) create(id int64) (*segment, error) {
	c, known := t.Checkpoint()
	c.Logged = true
	path := t.config.path(id)
	mark := filepath.Join(path, unborn)
	if known {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(mark, nil, 0o644); err != nil {
			return nil, err
		}
	}
	v, err := t.vet(id, path)
	if err != nil {
		return nil, err
	}
	s, err := t.openSegment(id, v)
	if err != nil || !known {
		return s, err
	}
	failpoint.Hit("segments/making")
	if err := cmp.Or(s.Commit(nil, c), s.Flush()); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := os.Remove(mark); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// endBirth deletes a segment that a crash left before it had its checkpoint on disk.
func (t *Table) endBirth(s *segment) (gone bool, err error) {
	path := t.config.path(s.id)
	if _, err := os.Stat(filepath.Join(path, unborn)); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if _, known := s.Checkpoint(); known {
		return false, os.Remove(filepath.Join(path, unborn))
	}
	return true, cmp.Or(s.Close(), remove(path))
}

// oldest is the least offset of all segments, not known if that of any is not, and what
// all their positions know.
func oldest(set []*segment) (c base.Checkpoint, known bool) {
	c.Offset, known = math.MaxInt64, len(set) > 0
	for _, s := range set {
		one, ok := s.Checkpoint()
		known = known && ok
		c.Offset = min(c.Offset, one.Offset)
		c.Position.Merge(one.Position)
	}
	if !known {
		c.Offset = store.UnknownOffset
	}
	return c, known
}

// adoptFiles takes over what Kafka Streams before 4.3 kept in files of the task.
func (t *Table) adoptFiles(f oldFiles, set []*segment, c *base.Checkpoint, known *bool) error {
	for _, e := range f.positions {
		c.Position.Advance(e.Topic, e.Partition, e.Offset)
	}
	for _, e := range f.offsets {
		if e.Topic != t.config.ChangelogTopic || e.Partition != t.config.Partition || e.Offset == store.UnknownOffset {
			continue
		}
		c.Logged, c.Offset, *known = true, e.Offset, len(set) > 0
		for _, s := range set {
			// On disk before the file forgets it.
			if err := cmp.Or(s.Commit(nil, *c), s.Flush()); err != nil {
				return err
			}
		}
		return checkpointfile.Remove(t.checkpointFile(), e.Topic, e.Partition)
	}
	return nil
}

// oldFiles are what they hold.
type oldFiles struct{ positions, offsets []checkpointfile.Entry }

func (t *Table) readFiles() (f oldFiles, err error) {
	if t.config.TaskDir == "" {
		return f, nil
	}
	if f.positions, err = checkpointfile.Read(t.positionFile()); err != nil {
		return f, err
	}
	if f.offsets, err = checkpointfile.Read(t.checkpointFile()); err != nil {
		return f, fmt.Errorf("%w; delete the file and the store's directory, and restore from the changelog", err)
	}
	return f, nil
}

func (t *Table) positionFile() string {
	return filepath.Join(t.config.TaskDir, t.config.Store+".position")
}

func (t *Table) checkpointFile() string { return filepath.Join(t.config.TaskDir, checkpointfile.Name) }

func (t *Table) setCheckpoint(c base.Checkpoint, known bool) {
	t.about.Lock()
	defer t.about.Unlock()
	t.checkpoint, t.known = c, known
	t.checkpoint.Position, t.checkpoint.Restored = c.Position.Clone(), false
}

// Checkpoint is that of the last commit. After opening it is the least of all segments.
func (t *Table) Checkpoint() (base.Checkpoint, bool) {
	t.about.Lock()
	defer t.about.Unlock()
	c := t.checkpoint
	c.Position = c.Position.Clone()
	return c, t.known
}

// IDs are the open segments, oldest first.
func (t *Table) IDs() []int64 {
	var ids []int64
	for _, s := range t.segments() {
		ids = append(ids, s.id)
	}
	return ids
}

func (t *Table) segments() []*segment {
	if set := t.set.Load(); set != nil {
		return *set
	}
	return nil
}

// find returns the place of a segment in a set.
func find(set []*segment, id int64) (int, bool) {
	return slices.BinarySearchFunc(set, id, func(s *segment, id int64) int { return cmp.Compare(s.id, id) })
}

// Commit writes the changes of segments that have not expired, and the checkpoint into
// all of them, oldest first; it makes segments that are missing and deletes those that
// have expired. Each segment's part is atomic. If a later part fails, the same commit
// can be tried again; once it is aborted the table takes no more commits.
func (t *Table) Commit(changes []store.Change, c base.Checkpoint) error {
	if t.closed() {
		return store.ErrClosed
	}
	if t.torn != nil && t.config.Clock.aborts != t.tornAt {
		return fmt.Errorf("%w: a commit that failed in part was aborted (%w); wipe the store and restore it from the changelog", store.ErrFailed, t.torn)
	}
	floor := t.config.Clock.Now().Floor
	set, err := t.withMissing(changes, floor)
	if err != nil {
		return err
	}
	expired, _ := find(set, floor)
	failpoint.Hit("segments/made")
	if err := t.config.Clock.Publish(func() error { return t.apply(set, expired, changes, c) }); err != nil {
		return err
	}
	failpoint.Hit("segments/written")
	t.remove(set[:expired])
	return nil
}

// maxOwn bounds the memory kept from commit to commit, in changes.
const maxOwn = 1 << 14

// apply shows readers all of a commit at once. The first segments of the set, as many as
// expired says, are given up.
func (t *Table) apply(set []*segment, expired int, changes []store.Change, c base.Checkpoint) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.write(set[expired:], changes, c); err != nil {
		return err
	}
	for _, s := range set[:expired] {
		s.retired.Store(true)
	}
	live := slices.Clone(set[expired:])
	t.set.Store(&live)
	t.setCheckpoint(c, c.Logged && c.Offset != store.UnknownOffset)
	return nil
}

func (t *Table) write(set []*segment, changes []store.Change, c base.Checkpoint) error {
	own := t.own
	defer func() {
		clear(own)
		if t.own = own[:0]; cap(own) > maxOwn {
			t.own = nil
		}
	}()
	for i, s := range set {
		for len(changes) > 0 && prefixOf(changes[0].Key) < Prefix(s.id) {
			changes = changes[1:] // of an expired segment, or a delete where there is none
		}
		clear(own)
		own = own[:0]
		for len(changes) > 0 && prefixOf(changes[0].Key) == Prefix(s.id) {
			own = append(own, store.Change{Key: changes[0].Key[base.PrefixSize:], Row: changes[0].Row})
			changes = changes[1:]
		}
		if one, known := s.Checkpoint(); c.Restored && known && one.Offset > c.Offset {
			// A restore begins at the oldest offset of all. What it has up to here is in this
			// segment already, and must not make its offset older than its rows.
			continue
		}
		if err := s.Commit(own, c); err != nil {
			if i > 0 {
				t.torn, t.tornAt = err, t.config.Clock.aborts
			}
			return err
		}
		failpoint.Hit("segments/one")
	}
	t.torn = nil
	return nil
}

// withMissing returns the segments with those that the commit needs beside them.
func (t *Table) withMissing(changes []store.Change, floor int64) ([]*segment, error) {
	set := t.segments()
	var missing []int64
	need := func(id int64) {
		if _, ok := find(set, id); !ok && id >= floor && !slices.Contains(missing, id) {
			missing = append(missing, id)
		}
	}
	for _, id := range t.config.Clock.wanted {
		need(id)
	}
	last := uint64(0)
	for i := range changes {
		if p := prefixOf(changes[i].Key); p != last && !changes[i].Tombstone() {
			need(idOf(p))
			last = p
		}
	}
	if len(missing) == 0 {
		return set, nil
	}
	set = slices.Clone(set)
	var made []*segment
	for _, id := range missing {
		s, err := t.create(id)
		if err != nil {
			return nil, errors.Join(err, closeAll(made))
		}
		made = append(made, s)
		at, _ := find(set, id)
		set = slices.Insert(set, at, s)
	}
	// Kept even if the commit fails: they are open, and hold what the store knew before.
	t.set.Store(&set)
	return set, nil
}

// remove deletes expired segments once nobody reads them. What cannot be deleted is found
// again by the next open, and expires again.
func (t *Table) remove(expired []*segment) {
	t.expired = slices.DeleteFunc(t.expired, func(s *segment) bool { return !s.waits() })
	for _, s := range expired {
		s.whenUnused(func() {
			if err := errors.Join(s.Close(), remove(t.config.path(s.id))); err != nil {
				slog.Warn("an expired segment was not deleted well", "store", t.config.Store, "segment", t.config.Name(s.id), "error", err)
			}
		})
	}
	for _, s := range expired {
		if s.waits() {
			t.expired = append(t.expired, s)
		}
	}
}

// removeNow deletes expired segments that are still read.
func (t *Table) removeNow() {
	for _, s := range t.expired {
		s.now()
	}
	t.expired = nil
}

// current is the file without which a directory holds no database.
const current = "CURRENT"

// remove deletes a database. A crash on the way leaves a directory that the next open
// knows for a remnant: half of a database could not be opened.
func remove(dir string) error {
	if err := os.Remove(filepath.Join(dir, current)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	failpoint.Hit("segments/removing")
	return os.RemoveAll(dir)
}

// isRemnant tells whether a directory is what a crash left of a database that was being
// deleted or made.
func isRemnant(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, current))
	return errors.Is(err, fs.ErrNotExist)
}

// Flush makes the last commit durable.
func (t *Table) Flush() error {
	if t.closed() {
		return store.ErrClosed
	}
	for _, s := range t.segments() {
		if err := s.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// ApproximateCount is the sum of all segments; an index row is none.
func (t *Table) ApproximateCount() (sum int64, err error) {
	if t.closed() {
		return 0, store.ErrClosed
	}
	for _, s := range t.segments() {
		n, err := s.ApproximateCount()
		if err != nil && !s.retired.Load() {
			return 0, err
		}
		sum += n
	}
	if t.index != nil {
		sum /= 2
	}
	return sum, nil
}

// Wipe deletes all segments.
func (t *Table) Wipe() error {
	if t.closed() {
		return store.ErrClosed
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.removeNow()
	old := t.segments()
	t.set.Store(&[]*segment{})
	t.setCheckpoint(base.Checkpoint{Offset: store.UnknownOffset}, false)
	for _, s := range old {
		_ = s.Close() // its files go anyway
	}
	t.torn = nil
	// Files first: an offset that is left without its rows would be taken for theirs.
	if err := t.forgetFiles(); err != nil {
		return errors.Join(store.ErrFailed, err)
	}
	if err := cmp.Or(os.RemoveAll(t.config.Dir), os.MkdirAll(t.config.Dir, 0o755)); err != nil {
		return errors.Join(store.ErrFailed, err)
	}
	return nil
}

func (t *Table) forgetFiles() error {
	if t.config.TaskDir == "" {
		return nil
	}
	if err := os.RemoveAll(t.positionFile()); err != nil {
		return err
	}
	return checkpointfile.Remove(t.checkpointFile(), t.config.ChangelogTopic, t.config.Partition)
}

func (t *Table) closed() bool { return t.set.Load() == nil }

// Close flushes and frees every segment.
func (t *Table) Close() error {
	t.mu.Lock()
	t.removeNow()
	old := t.segments()
	t.set.Store(nil)
	t.mu.Unlock()
	return closeAll(old)
}

func closeAll(set []*segment) (err error) {
	for _, s := range set {
		err = errors.Join(err, s.Close())
	}
	return err
}
