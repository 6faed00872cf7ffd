package family

import (
	"context"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

// Shell is the life of a store around its core. The public stores embed it, so its
// methods are theirs. Unless said otherwise they are for the owner.
type Shell struct{ core *Core }

// Name is the store's name.
func (s Shell) Name() string { return s.core.Name }

// SetRecord sets the input record being processed, once per record. The store takes
// from it the timestamp and headers of tombstones, what serializers see in look-ups, and
// its position in the input.
func (s Shell) SetRecord(r store.Record) { s.core.Record = r }

// Position is how far the store has come in its input, as of the last commit. It may be
// called from any goroutine.
func (s Shell) Position() store.Position {
	c, _ := s.core.Table.Checkpoint()
	return c.Position
}

// ApproximateCount estimates the number of committed rows.
func (s Shell) ApproximateCount() (int64, error) {
	if err := s.core.Check("count"); err != nil {
		return 0, err
	}
	n, err := s.core.Table.ApproximateCount()
	return n, s.core.Fail("count", err)
}

// NeedsCommit tells whether the stores of the budget hold so many uncommitted bytes that
// the next commit should not wait.
func (s Shell) NeedsCommit() bool { return s.core.Overlay.NeedsCommit() }

// Flush logs what the cache holds back, and returns once the changelog has acknowledged
// everything. An app that commits in transactions flushes its stores, ends the
// transaction, and then commits the stores.
func (s Shell) Flush(ctx context.Context) error {
	return s.core.Do("flush", func() error { return s.core.Overlay.Flush(ctx) })
}

// Commit flushes, and writes everything since the last commit in one atomic step, with
// the last acknowledged changelog offset and the position. After an error nothing is
// written: commit again, or abort. A commit survives a crash of the process only once
// RocksDB has written it to disk: when its buffers are full, at the first Commit that comes a
// minute later, at Close at the latest; the changelog has the rest. So commit quiet stores
// too, when there is nothing to write: else the stored offset of one could fall behind what
// its changelog still has.
func (s Shell) Commit(ctx context.Context) error {
	return s.core.Do("commit", func() error {
		err := s.core.Overlay.Commit(ctx)
		if staged := s.core.segments.Staged; staged != nil && err == nil {
			staged.Committed()
		}
		return err
	})
}

// Abort drops everything since the last commit. It does not take back what was logged: an
// app that does not log in transactions must process the same input again, or Wipe the
// store and restore it, else the changelog has rows that the store has not.
func (s Shell) Abort() {
	s.core.Overlay.Abort()
	if staged := s.core.segments.Staged; staged != nil {
		staged.Aborted()
	}
}

// Close drops what is not committed and frees the store; what was committed reaches the
// disk. Views and scans end with [store.ErrClosed]. Closing again does nothing.
func (s Shell) Close() error {
	if s.core.closed.Swap(true) {
		return nil
	}
	s.core.Overlay.Clear()
	return s.core.Fail("close", s.core.Table.Close())
}

// OpenScans is the number of scans that were begun and not ended. A loop ends its scan
// however it is left; a sequence pulled by hand must be stopped. It may be called from
// any goroutine.
func (s Shell) OpenScans() int64 { return s.core.open.Load() }

var _ store.RestoreTarget = Shell{}

// ChangelogPartition names the changelog that the store is restored from.
func (s Shell) ChangelogPartition() (topic string, partition int32) {
	return s.core.Config.Topic, s.core.Config.Partition
}

// RestoredOffset is the offset of the last changelog record that the store holds; ok is
// false when it is not known.
func (s Shell) RestoredOffset() (offset int64, ok bool) {
	c, ok := s.core.Table.Checkpoint()
	return c.Offset, ok
}

var _ store.BulkTarget = Shell{}

// BeginBulk says that a whole changelog follows: batches of RestoreBatch are then gathered
// and become visible in large steps, each with its offset, the last one with EndBulk. ok is
// false, and nothing changes, when the store holds something already, is in memory, or has
// segments. Until EndBulk the store cannot commit.
func (s Shell) BeginBulk() (ok bool, err error) {
	err = s.core.Do("restore", func() error {
		table, bulky := s.core.Table.(base.BulkTable)
		if !bulky || s.core.segments.Restore != nil {
			return nil
		}
		if err := s.core.Overlay.Settled(); err != nil {
			return err
		}
		ok, err = table.BeginBulk()
		return err
	})
	return ok, err
}

// EndBulk writes what is gathered since BeginBulk; without one it does nothing. After an
// error see [store.BulkTarget].
func (s Shell) EndBulk() error {
	return s.core.Do("restore", func() error {
		table, ok := s.core.Table.(base.BulkTable)
		if !ok {
			return nil
		}
		err := table.EndBulk()
		s.core.Overlay.ForgetClean() // read before rows joined
		return err
	})
}

// RestoreBatch applies changes of the changelog in one atomic write, past cache and
// changelog, or gathers them after BeginBulk. No user code runs. There must be no uncommitted
// rows.
func (s Shell) RestoreBatch(changes []store.Change, offset int64) error {
	return s.core.Do("restore", func() error {
		if restore := s.core.segments.Restore; restore != nil {
			return restore(changes, offset)
		}
		return s.core.Overlay.Restore(changes, offset)
	})
}

// Wipe empties the store, uncommitted rows included, and forgets its offset. Views go on
// with the empty store.
func (s Shell) Wipe() error {
	return s.core.Do("wipe", func() error {
		s.core.Overlay.Clear()
		err := s.core.Table.Wipe()
		if staged := s.core.segments.Staged; staged != nil {
			staged.Wiped() // now that no reader finds a row that had expired
		}
		return err
	})
}

var _ migration.Drainable = Shell{}

// drainable is a table that can hold rows of an older format.
type drainable interface {
	DrainSlice(rows int) (moved int, done bool, err error)
	Stats() (migration.Stats, error)
}

// DrainSlice moves up to rows rows (at least one) of an older format to the store's own; done means that
// none is left. [migration.Drain] calls it, for the store's owner and between commits.
// Nothing is logged: the changelog has the rows already.
func (s Shell) DrainSlice(rows int) (moved int, done bool, err error) {
	table, ok := s.core.Table.(drainable)
	if !ok {
		return 0, true, s.core.Check("drain")
	}
	err = s.core.Do("drain", func() error {
		moved, done, err = table.DrainSlice(max(rows, 1))
		return err
	})
	return moved, done, err
}

// Migration says how many rows of an older format are left, and how often they were
// read or moved. It may be called from any goroutine.
func (s Shell) Migration() (stats migration.Stats, err error) {
	table, ok := s.core.Table.(drainable)
	if !ok {
		return stats, s.core.Check("migration")
	}
	err = s.core.Do("migration", func() error {
		stats, err = table.Stats()
		return err
	})
	return stats, err
}
