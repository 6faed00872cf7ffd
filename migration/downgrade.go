package migration

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/failpoint"
	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/store"
)

// ErrLossy: a downgrade would lose headers or timestamps and was not told that it may.
var ErrLossy = errors.New("the downgrade would lose data")

// DowngradeOption changes what [Downgrade] does.
type DowngradeOption func(*downgrade)

type downgrade struct {
	dir        string
	to         Format
	headers    bool // may be lost
	timestamps bool
	kafka42    bool
	rows       int
	result     DowngradeResult
	afterSlice func() // for tests that kill the process
}

// DiscardHeaders lets the downgrade drop headers for good. Without it, a store in which
// any row has headers is refused. The changelog keeps them, if it was written with them.
func DiscardHeaders() DowngradeOption { return func(d *downgrade) { d.headers = true } }

// DiscardTimestamps lets a downgrade to plain drop timestamps for good.
func DiscardTimestamps() DowngradeOption { return func(d *downgrade) { d.timestamps = true } }

// ForKafka42 also writes what Kafka Streams up to 4.2 needs: changelog offsets in the
// task's .checkpoint and the position in <store>.position instead of the column family
// offsets, which those versions cannot open. dir must be <task>/rocksdb/<store>.
func ForKafka42() DowngradeOption { return func(d *downgrade) { d.kafka42 = true } }

// DowngradeResult says what was done.
type DowngradeResult struct {
	// Rows is the number of rows rewritten.
	Rows int64
	// Dropped names the column families that are gone.
	Dropped []string
}

// Downgrade turns the database directory of a closed store back into that of a
// timestamped or plain one, in place, so that an older writer can open it. Before the
// first change it looks at all rows and refuses with [ErrLossy] what would be lost. A
// downgrade that was interrupted goes on when it is called again; in between, the
// directory opens in the newer format.
func Downgrade(dir string, to store.Layout, options ...DowngradeOption) (DowngradeResult, error) {
	d := &downgrade{dir: dir, rows: 10_000}
	for _, option := range options {
		option(d)
	}
	if err := d.run(to); err != nil {
		return d.result, &store.Error{Store: filepath.Base(dir), Op: "downgrade to " + to.String(), Err: err}
	}
	return d.result, nil
}

func (d *downgrade) run(to store.Layout) error {
	switch to {
	case store.Plain:
		d.to = plainRows
	case store.Timestamped:
		d.to = timestampedRows
	default:
		return fmt.Errorf("%w: a store can be downgraded to timestamped or plain", store.ErrConfig)
	}
	listed, err := rocks.List(d.dir)
	if err != nil {
		return err
	}
	if len(listed) == 0 {
		return fmt.Errorf("%w: no database in %s", store.ErrConfig, d.dir)
	}
	for _, name := range listed {
		if name != rocks.Offsets && formatOf(name).Layout == 0 {
			return fmt.Errorf("%w: unknown column family %q", store.ErrIncompatible, name)
		}
	}
	if slices.Contains(listed, VersionsFamily) {
		if d.to = plainVersions; to != store.Plain {
			return fmt.Errorf("%w: a versioned store has no %s format", store.ErrConfig, to)
		}
	}
	wanted := slices.Clone(listed)
	if !slices.Contains(wanted, d.to.Family) {
		wanted = append(wanted, d.to.Family)
	}
	if err := d.refuseLoss(listed); err != nil {
		return err
	}
	db, err := rocks.Open(d.dir, wanted, listed, nil)
	if err != nil {
		return err
	}
	defer db.Close()
	// The newest format first: its rows count where an older family has the key too.
	for _, f := range slices.Backward(knownRows) {
		if f.Layout <= d.to.Layout || db.Family(f.Family) == nil {
			continue
		}
		if err := d.moveDown(db, f); err != nil {
			return err
		}
	}
	return d.leaveOffsets(db)
}

// moveDown empties a family into the next older one that is left, and drops it.
func (d *downgrade) moveDown(db *rocks.DB, f Format) error {
	to := d.to
	if f == headersRows && db.Family(TimestampedFamily) != nil {
		// By way of the timestamped family, so that rows of three formats never lie side by side.
		to = timestampedRows
	}
	if to == timestampedRows {
		// Plain rows beside timestamped ones would bar the way up again: a half-done upgrade is
		// finished first. Where both have a key, the newer family's row stays.
		if err := d.empty(db, plainRows, f, false); err != nil {
			return err
		}
	}
	if err := d.empty(db, f, to, true); err != nil {
		return err
	}
	failpoint.Hit("downgrade/moved")
	if err := db.Flush(); err != nil {
		return err
	}
	failpoint.Hit("downgrade/flushed")
	if err := db.Drop(db.Family(f.Family)); err != nil {
		return err
	}
	d.result.Dropped = append(d.result.Dropped, f.Family)
	return nil
}

// empty moves all rows of a family into another.
func (d *downgrade) empty(db *rocks.DB, from, to Format, overwrite bool) error {
	source, target := newSource(d.dir, db, from, from), newSource(d.dir, db, to, to)
	var start []byte
	for {
		last, moved, end, err := move(db, source, target, start, d.rows, overwrite)
		if err != nil {
			return err
		}
		d.result.Rows += int64(moved)
		start = append(last, 0)
		if d.afterSlice != nil && moved > 0 {
			d.afterSlice()
		}
		if end {
			return nil
		}
	}
}

// refuseLoss reads all rows of formats above the target, without opening for writing.
func (d *downgrade) refuseLoss(listed []string) error {
	checkHeaders := !d.headers
	checkTimestamps := !d.timestamps && d.to == plainRows // versions keep theirs
	if !checkHeaders && !checkTimestamps {
		return nil
	}
	return readOnly(d.dir, listed, func(db *rocks.DB) error {
		for _, f := range knownRows {
			if f.Layout <= d.to.Layout || db.Family(f.Family) == nil {
				continue
			}
			if err := d.lossOf(db, f, checkHeaders, checkTimestamps); err != nil {
				return err
			}
		}
		return nil
	})
}

func (d *downgrade) lossOf(db *rocks.DB, f Format, headers, timestamps bool) error {
	s := newSource(d.dir, db, f, f)
	rows := s.cursor(db, base.Span{})
	defer rows.Close()
	for rows.Next() {
		row, has := rows.Row(), false
		if f.Versions {
			var err error
			if has, err = f.check(rows.Key(), row.Value); err != nil {
				return store.Locate(err, d.dir, f.Family, rows.Key())
			}
		}
		switch {
		case headers && (has || !row.Headers.Empty()):
			return fmt.Errorf("%w: key %x has headers; allow it with DiscardHeaders", ErrLossy, rows.Key())
		case timestamps && row.Timestamp != store.NoTimestamp:
			return fmt.Errorf("%w: key %x has a timestamp; allow it with DiscardTimestamps", ErrLossy, rows.Key())
		}
	}
	return rows.Err()
}

// leaveOffsets replaces the offsets family by files, if asked to. The files are durable
// before the family goes.
func (d *downgrade) leaveOffsets(db *rocks.DB) error {
	offsets := db.Family(rocks.Offsets)
	if !d.kafka42 || offsets == nil {
		return nil
	}
	taskDir := filepath.Dir(filepath.Dir(d.dir))
	if err := writeFiles(db, taskDir, filepath.Base(d.dir)); err != nil {
		return err
	}
	if err := db.Flush(); err != nil {
		return err
	}
	if err := db.Drop(offsets); err != nil {
		return err
	}
	d.result.Dropped = append(d.result.Dropped, rocks.Offsets)
	return nil
}
