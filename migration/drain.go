package migration

import (
	"sync/atomic"
	"time"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/failpoint"
	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/internal/versions"
	"github.com/forebay-streams/forebay/store"
)

// Stats says how far a migration is.
type Stats struct {
	// Migrating tells whether rows of an older format are left.
	Migrating bool
	// LegacyLeft estimates how many.
	LegacyLeft int64
	// LegacyLookups counts look-ups that went on to the legacy family because the new one
	// had no row, LegacyReads those that found one there. Both since the store was opened.
	LegacyLookups, LegacyReads int64
	// Migrated counts keys that left the legacy family: by a write or by a drain.
	Migrated int64
}

type counters struct{ legacyLookups, legacyReads, migrated atomic.Int64 }

// Stats may be called from any goroutine.
func (t *Table) Stats() (Stats, error) {
	out := Stats{
		LegacyLookups: t.counters.legacyLookups.Load(),
		LegacyReads:   t.counters.legacyReads.Load(),
		Migrated:      t.counters.migrated.Load(),
	}
	s := t.state.Load()
	if s.legacy == nil {
		return out, nil
	}
	n, err := s.db.IntProperty(s.legacy.family, estimateKeys)
	out.Migrating, out.LegacyLeft = true, int64(n)
	return out, err
}

// DrainSlice moves up to rows rows from the legacy family to the new one, in one batch;
// done means that none is left. The last slice makes everything durable, drops the
// legacy family unless it is default, which cannot be dropped, and from then on the
// table reads one family. For the owner only.
func (t *Table) DrainSlice(rows int) (moved int, done bool, err error) {
	s := t.state.Load()
	if s.legacy == nil {
		return 0, true, nil
	}
	t.moves.Add(1)
	last, moved, end, err := move(s.db, *s.legacy, s.rows, t.drainFrom, rows, false)
	t.moves.Add(1)
	failpoint.Hit("drain/slice")
	if moved > 0 {
		t.counters.migrated.Add(int64(moved))
		t.drainFrom = append(last, 0)
	}
	if err != nil || !end {
		return moved, false, err
	}
	err = t.finish(s)
	return moved, err == nil, err
}

// finish ends dual mode. Rows reach the disk before the family they came from goes: a
// drop is durable at once, and there is no log to bring memtables back.
func (t *Table) finish(s *state) error {
	failpoint.Hit("drain/unflushed")
	if err := s.db.Flush(); err != nil {
		return err
	}
	failpoint.Hit("drain/flushed")
	if s.legacy.family.Name != rocks.Default {
		if err := s.db.Drop(s.legacy.family); err != nil {
			return err
		}
	}
	failpoint.Hit("drain/dropped")
	t.drainFrom = nil
	t.state.Store(&state{db: s.db, rows: s.rows, offsets: s.offsets})
	return nil
}

// moveBytes bounds the batch of a move.
const moveBytes = 4 << 20

// move writes up to rows rows from one family, beginning at a key, into another, and
// deletes them in the first, in one batch. Where the other has the key, its row stays
// unless overwrite. It returns the last key moved; end means that there are no more.
func move(db *rocks.DB, from, to source, start []byte, rows int, overwrite bool) (last []byte, moved int, end bool, err error) {
	batch := db.NewBatch(0)
	defer batch.Close()
	scan := db.Scan(from.family, base.Span{From: start})
	defer scan.Close()
	var value []byte
	size := 0
	for moved < rows && size <= moveBytes {
		if !scan.Next() {
			end = true
			break
		}
		key := scan.Key()
		keep := false
		if !overwrite {
			if keep, err = db.Has(to.family, key); err != nil {
				return nil, 0, false, err
			}
		}
		if !keep {
			if value, err = from.convert(value[:0], to, key, scan.Value()); err != nil {
				return nil, 0, false, err
			}
			batch.Put(to.family, key, value)
			if to.index != nil && len(key) > 0 && key[0] == basePrefix {
				// The older store may have had no index. Its rows have no headers.
				batch.Put(to.family, to.index.Of(nil, key), nil)
			}
		}
		batch.Delete(from.family, key)
		last = append(last[:0], key...)
		moved++
		size += len(key) + len(value)
	}
	if err := scan.Err(); err != nil {
		return nil, 0, false, err
	}
	if moved == 0 {
		return nil, 0, end, nil
	}
	if err := batch.Write(); err != nil {
		return nil, 0, false, err
	}
	return last, moved, end, nil
}

// convert appends the row's bytes as the other source has them.
func (s *source) convert(dst []byte, to source, key, value []byte) ([]byte, error) {
	if s.index.Has(key) {
		return dst, nil // no older index row holds anything
	}
	var err error
	if s.versions {
		dst, err = versions.Convert(dst, s.layout, to.layout, key, value)
	} else {
		dst, err = s.layout.Convert(dst, to.layout, value)
	}
	if err != nil {
		err = store.Locate(err, s.store, s.family.Name, key)
	}
	return dst, err
}

// Drainable is a store whose migration can be finished, by its owner.
type Drainable interface {
	// DrainSlice moves up to rows rows; done means that none is left.
	DrainSlice(rows int) (moved int, done bool, err error)
	// Migration says how far it is.
	Migration() (Stats, error)
}

// Drain finishes a migration in slices between an owner's commits, so that state which is
// never written again reaches the new format too. It needs no memory between runs: a new
// Drain goes on where the rows are.
type Drain struct {
	target   Drainable
	slice    int
	perSec   float64
	listener func(DrainProgress)

	began time.Time
	moved int64
	done  bool
}

// DrainProgress is what a listener is told after each slice.
type DrainProgress struct {
	// Moved is the number of rows moved so far, Left an estimate of what remains.
	Moved, Left int64
	Elapsed     time.Duration
	Done        bool
}

// DrainOption changes a [Drain].
type DrainOption func(*Drain)

// SliceRows sets how many rows a step moves at most. Default 1000.
func SliceRows(rows int) DrainOption { return func(d *Drain) { d.slice = max(rows, 1) } }

// RowsPerSecond bounds the mean rate; steps that come too early move nothing. Default 0:
// no bound.
func RowsPerSecond(rows float64) DrainOption { return func(d *Drain) { d.perSec = rows } }

// OnProgress sets a listener, called by the goroutine that steps.
func OnProgress(listener func(DrainProgress)) DrainOption {
	return func(d *Drain) { d.listener = listener }
}

// NewDrain prepares a drain; nothing moves before the first step.
func NewDrain(target Drainable, options ...DrainOption) *Drain {
	d := &Drain{target: target, slice: 1000}
	for _, option := range options {
		option(d)
	}
	return d
}

// Step moves one slice, or nothing when the rate does not allow it yet. done means that
// the migration is over. The store's owner calls it between commits. After an error the
// rows are where they were, and a later step tries again.
func (d *Drain) Step() (done bool, err error) {
	if d.done {
		return true, nil
	}
	if d.began.IsZero() {
		d.began = time.Now()
	}
	rows := d.slice
	if d.perSec > 0 {
		allowed := int64(time.Since(d.began).Seconds()*d.perSec) + 1 - d.moved
		if rows = int(min(int64(rows), allowed)); rows <= 0 {
			return false, nil
		}
	}
	moved, done, err := d.target.DrainSlice(rows)
	d.moved += int64(moved)
	d.done = done && err == nil
	if err != nil || d.listener == nil {
		return d.done, err
	}
	stats, err := d.target.Migration()
	d.listener(DrainProgress{Moved: d.moved, Left: stats.LegacyLeft, Elapsed: time.Since(d.began), Done: d.done})
	return d.done, err
}
