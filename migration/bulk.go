package migration

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/failpoint"
	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/store"
)

// bulkDir lies in a database's directory while rows are loaded in bulk, and longer only after
// a crash. It holds the table file that is being made, and the mark.
const bulkDir = "forebay-bulk"

// bulkMark is there while a table file may have joined the rows whose offset is not stored
// yet: RocksDB cannot do both in one step. Rows without an offset must not stay, since the
// changelog may no longer hold the tombstones of some, so a database with the mark is emptied
// when it is opened.
const bulkMark = "joining"

// bulkBytes is the size of a run in memory that no configuration sets, if the load is the
// only one in the process; of n loads the n-th has the n-th part. Two runs are there at a
// time: one is filled while the other is written.
const (
	bulkBytes    = 64 << 20
	minBulkBytes = 4 << 20
	maxBulkBytes = 1 << 30
)

// loads is the number of bulk loads under way in the process.
var loads atomic.Int64

// bulkTrigger is how many runs there are before RocksDB compacts them, while a load lasts: with
// its usual 4 it would write every row of a large store several times meanwhile.
const bulkTrigger = 10

var _ base.BulkTable = (*Table)(nil)

// bulk loads an empty table. It is the owner's; only join runs beside it, on the run it is given.
type bulk struct {
	table   *Table
	size    int             // of a run, in bytes
	run     *rocks.Run      // being filled
	last    base.Checkpoint // of the last batch in it
	pending bool            // whether a batch is in it, with or without changes
	rows    bool            // whether a run with rows was written before
	spare   *rocks.Run      // the one that is being written, or was
	writing chan error      // the outcome of the write under way; nil: there is none
	err     error           // that ended it
}

// BeginBulk starts to load rows in large sorted runs, which join the table one by one with
// their offset. ok is false, and nothing begins, when the table has rows or an offset.
func (t *Table) BeginBulk() (ok bool, err error) {
	if err := t.EndBulk(); err != nil { // one that nobody ended
		return false, err
	}
	s := t.state.Load()
	if _, known := t.Checkpoint(); known || s.legacy != nil || t.torn != nil {
		return false, nil
	}
	if full, err := hasData(s.db, s.rows.family); full || err != nil {
		return false, err
	}
	dir := filepath.Join(t.config.Dir, bulkDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false, err
	}
	if !linksFiles(dir) {
		return false, os.RemoveAll(dir)
	}
	if err := s.db.SetCompactionTrigger(s.rows.family, bulkTrigger); err != nil {
		return false, err
	}
	size := max(failpoint.Small(bulkBytes)/int(loads.Add(1)), failpoint.Small(minBulkBytes))
	if n := t.config.BulkBytes; n > 0 {
		size = min(n, maxBulkBytes)
	}
	t.bulk = &bulk{table: t, size: size}
	t.bulk.run = rocks.NewRun(t.bulk.size)
	return true, nil
}

// AddBulk adds changes in any order, of which the last one of each key counts, with the
// checkpoint behind them; taken is false when no bulk load is under way. Readers see them,
// and the table has the checkpoint, some time later, at the latest after EndBulk. After an
// error the table holds an earlier checkpoint and takes no more.
func (t *Table) AddBulk(changes []store.Change, c base.Checkpoint) (taken bool, err error) {
	b := t.bulk
	if b == nil {
		return false, nil
	}
	if b.err == nil {
		b.err = b.add(changes, c)
	}
	return true, b.err
}

// EndBulk writes what AddBulk has gathered. What was added before an error stays as far as
// the table's checkpoint says.
func (t *Table) EndBulk() error {
	b := t.bulk
	if b == nil {
		return nil
	}
	err := b.err
	if err == nil {
		err = b.hand()
	}
	if err == nil {
		err = b.wait()
	}
	s := t.state.Load()
	err = errors.Join(err, t.dropBulk())
	if e := s.db.SetCompactionTrigger(s.rows.family, rocks.CompactionTrigger); e != nil {
		slog.Warn("a store compacts less often than it should until it is opened again", "store", t.config.Store, "error", e)
	}
	return err
}

// dropBulk ends bulk loading, and drops what is not written.
func (t *Table) dropBulk() error {
	b := t.bulk
	if b == nil {
		return nil
	}
	_ = b.wait() // its error is that of the caller's next step, or of nobody
	t.bulk = nil
	b.run.Close()
	if b.spare != nil {
		b.spare.Close()
	}
	loads.Add(-1)
	if t.torn != nil {
		return nil // the mark stays
	}
	if err := os.RemoveAll(filepath.Join(t.config.Dir, bulkDir)); err != nil {
		return err
	}
	return syncDir(t.config.Dir) // else a crash could bring the mark back
}

func (b *bulk) add(changes []store.Change, c base.Checkpoint) error {
	layout := b.table.state.Load().rows.layout
	fits, err := b.run.Add(changes, layout)
	if err == nil && !fits {
		// A run ends between two batches, because only there is an offset.
		if err = b.hand(); err == nil {
			fits, err = b.run.Add(changes, layout)
		}
		if err == nil && !fits {
			err = fmt.Errorf("%w: a batch of %d changes is too large for a table file", store.ErrConfig, len(changes))
		}
	}
	if err == nil {
		b.last = c
		b.pending = true
	}
	return err
}

// hand has the run written in the background, behind the one before.
func (b *bulk) hand() error {
	if err := b.wait(); err != nil || !b.pending {
		return err
	}
	full, c, keep := b.run, b.last, b.rows
	if b.spare == nil {
		b.spare = rocks.NewRun(b.size)
	}
	b.run, b.spare = b.spare, full
	b.run.Reset()
	b.rows = b.rows || !full.Empty()
	b.pending = false
	b.writing = make(chan error, 1)
	go func() { b.writing <- b.table.join(full, c, keep) }()
	return nil
}

// wait waits for the write under way.
func (b *bulk) wait() error {
	if b.writing == nil {
		return nil
	}
	err := <-b.writing
	b.writing = nil
	return err
}

// join writes a run and its checkpoint.
func (t *Table) join(run *rocks.Run, c base.Checkpoint, keep bool) error {
	s, dir := t.state.Load(), filepath.Join(t.config.Dir, bulkDir)
	file, mark := filepath.Join(dir, "run.sst"), filepath.Join(dir, bulkMark)
	// A link to a table of the database, if RocksDB could not delete it: not to be written to.
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	written, err := s.db.WriteTable(run, file, keep)
	if err != nil {
		return err
	}
	failpoint.Hit("bulk/written")
	commit := func() error {
		if err := t.commit(nil, c, base.Also{}); err != nil {
			return err
		}
		return s.db.Flush()
	}
	if !written {
		return commit()
	}
	if err := writeMark(mark); err != nil {
		_ = os.Remove(mark) // if it stays, the next open empties a store that could have gone on
		return err
	}
	failpoint.Hit("bulk/marked")
	if t.torn = s.ingest(file, commit); t.torn != nil {
		t.mu.Lock()
		t.known = false // so that whoever restores it is told, even with nothing left to read
		t.mu.Unlock()
		return t.torn
	}
	failpoint.Hit("bulk/committed")
	return os.Remove(mark)
}

// ingest moves a file into the rows and commits its offset, both durable when it returns.
func (s *state) ingest(file string, commit func() error) error {
	if err := s.db.Ingest(s.rows.family, file); err != nil {
		return err
	}
	failpoint.Hit("bulk/joined")
	return commit()
}

// linksFiles tells whether the file system has hard links, with which a file joins a database.
func linksFiles(dir string) bool {
	from, to := filepath.Join(dir, "link.from"), filepath.Join(dir, "link.to")
	if os.WriteFile(from, nil, 0o644) != nil {
		return true // what is wrong will show with the first run
	}
	err := os.Link(from, to)
	return err == nil && errors.Join(os.Remove(from), os.Remove(to)) == nil
}

// writeMark makes the mark, on disk when it returns.
func writeMark(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	for _, dir := range []string{filepath.Dir(path), filepath.Dir(filepath.Dir(path))} {
		if err := syncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// halfLoaded tells whether rows of a database may lack their offset.
func halfLoaded(dir string) (bool, error) {
	_, err := os.Stat(filepath.Join(dir, bulkDir, bulkMark))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// emptyHalfLoaded deletes a database that has the mark, unless another table has it open and is
// about to store the offset. The mark stays: it says that the rest must go.
func (t *Table) emptyHalfLoaded() error {
	c := t.config
	// Files first, as in Wipe.
	if err := t.forgetFiles(); err != nil {
		return err
	}
	if err := rocks.Destroy(c.Dir); err != nil {
		return err
	}
	slog.Warn("a restore was interrupted while rows joined the store: it begins anew", "store", c.Store, "dir", c.Dir)
	failpoint.Hit("bulk/emptied")
	return nil
}
