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
type DowngradeOption interface{ downgrade(*downgrade) }

type downgradeOption func(*downgrade)

func (o downgradeOption) downgrade(d *downgrade) { o(d) }

type downgrade struct {
	headers    bool // may be lost
	timestamps bool
	kafka42    bool
	ordered    bool
	rows       int
	afterSlice func() // for tests that kill the process

	formats []Format // of the store, oldest first
	target  int      // the place of the wanted one
}

// DiscardHeaders lets the downgrade drop headers for good. Without it, a store in which
// any row has headers is refused. The changelog keeps them, if it was written with them.
func DiscardHeaders() DowngradeOption {
	return downgradeOption(func(d *downgrade) { d.headers = true })
}

// DiscardTimestamps lets a downgrade to plain drop timestamps for good.
func DiscardTimestamps() DowngradeOption {
	return downgradeOption(func(d *downgrade) { d.timestamps = true })
}

// ForKafka42 also writes what Kafka Streams up to 4.2 needs: changelog offsets in the
// task's .checkpoint and the position in <store>.position instead of the column family
// offsets, which those versions cannot open. The directory must be <task>/rocksdb/<store>,
// or <task>/<store> for a window or session store.
func ForKafka42() DowngradeOption { return downgradeOption(func(d *downgrade) { d.kafka42 = true }) }

// DowngradeResult says what was done.
type DowngradeResult struct {
	Dir string
	// Rows is the number of rows rewritten.
	Rows int64
	// Dropped names the column families that are gone.
	Dropped []string
	// Segments of a window or session store, oldest first: Rows and Dropped then are those
	// of all. The segments that an interrupted call left as wanted come with no rows.
	Segments []DowngradeResult
}

// Downgrade turns the directory of a closed store back into that of a timestamped or
// plain one, in place, so that an older writer can open it: a database directory, or that
// of a window or session store, whose segments follow one another. Before the first change
// it looks at all rows and refuses with [ErrLossy] what would be lost. A downgrade that
// was interrupted goes on when it is called again; in between, the directory opens in the
// newer format.
func Downgrade(dir string, to store.Layout, options ...DowngradeOption) (DowngradeResult, error) {
	d := &downgrade{rows: 10_000}
	for _, option := range options {
		option.downgrade(d)
	}
	result, err := d.run(dir, to)
	if err != nil {
		err = &store.Error{Store: filepath.Base(dir), Op: "downgrade to " + to.String(), Err: err}
	}
	return result, err
}

func (d *downgrade) run(dir string, to store.Layout) (result DowngradeResult, err error) {
	result.Dir = dir
	if to != store.Plain && to != store.Timestamped {
		return result, fmt.Errorf("%w: a store can be downgraded to timestamped or plain", store.ErrConfig)
	}
	all, err := databases(dir)
	if err != nil {
		return result, err
	}
	if len(all) == 0 {
		return result, fmt.Errorf("%w: no database in %s", store.ErrConfig, dir)
	}
	taskDir, name, err := d.place(dir, all)
	if err != nil {
		return result, err
	}
	if err := d.choose(families(all), to); err != nil {
		return result, err
	}
	for i := range all {
		if err := d.vet(&all[i]); err != nil {
			return result, err
		}
	}
	done := make([]DowngradeResult, len(all))
	defer func() { result.sum(all, done) }()
	for i := range all {
		done[i].Dir = all[i].dir
		if err := d.database(&all[i], &done[i]); err != nil {
			return result, all[i].locate(err)
		}
	}
	if d.kafka42 {
		return result, leaveOffsets(taskDir, name, all, done)
	}
	return result, nil
}

// sum adds up what was done in all databases of a store.
func (r *DowngradeResult) sum(all []database, done []DowngradeResult) {
	if all[0].segment != "" {
		r.Segments = done
	}
	for _, one := range done {
		r.Rows += one.Rows
		for _, name := range one.Dropped {
			if !slices.Contains(r.Dropped, name) {
				r.Dropped = append(r.Dropped, name)
			}
		}
	}
}

// place finds the task and the name of the store, where files are to be left.
func (d *downgrade) place(dir string, all []database) (taskDir, name string, err error) {
	if !d.kafka42 {
		return "", "", nil
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", "", err
	}
	parent := filepath.Dir(dir)
	if all[0].segment != "" {
		return parent, filepath.Base(dir), nil
	}
	if filepath.Base(parent) != "rocksdb" {
		return "", "", fmt.Errorf("%w: %s is not <task>/rocksdb/<store>, so there is no place for the files; of a window or session store give the directory with all segments", store.ErrConfig, dir)
	}
	return filepath.Dir(parent), filepath.Base(dir), nil
}

// choose finds the formats of the store with these families, and the target among them.
func (d *downgrade) choose(listed []string, to store.Layout) (err error) {
	if d.formats, err = formatsOf(listed, d.ordered); err != nil {
		return err
	}
	newest := 0
	for _, name := range listed {
		at := find(d.formats, name)
		if at < 0 && name != rocks.Offsets {
			return fmt.Errorf("%w: unknown column family %q", store.ErrIncompatible, name)
		}
		newest = max(newest, at)
	}
	// Rows of default alone are as old as can be, whatever they are.
	if d.target = 0; newest == 0 {
		return nil
	}
	d.target = slices.IndexFunc(d.formats, func(f Format) bool { return f.keeps() == to })
	if d.target < 0 {
		return fmt.Errorf("%w: a store with the column family %s has no %s format", store.ErrConfig, d.formats[newest].Family, to)
	}
	return nil
}

// above are the formats newer than the target.
func (d *downgrade) above() []Format { return d.formats[d.target+1:] }

// database moves the rows of all formats above the target down.
func (d *downgrade) database(on *database, result *DowngradeResult) error {
	if !slices.ContainsFunc(d.above(), func(f Format) bool { return on.has(f.Family) }) {
		return nil
	}
	wanted := slices.Clone(on.listed)
	if to := d.formats[d.target].Family; !on.has(to) {
		wanted = append(wanted, to)
	}
	db, err := rocks.Open(on.dir, wanted, on.listed, nil)
	if err != nil {
		return err
	}
	defer db.Close()
	m := mover{d, on.dir, db, result}
	// The newest format first: its rows count where an older family has the key too.
	for at := len(d.formats) - 1; at > d.target; at-- {
		if db.Family(d.formats[at].Family) == nil {
			continue
		}
		if err := m.moveDown(at); err != nil {
			return err
		}
	}
	return nil
}

// mover moves the rows of one database.
type mover struct {
	*downgrade
	dir    string
	db     *rocks.DB
	result *DowngradeResult
}

// moveDown empties a family into the next older one that is left, and drops it.
func (m mover) moveDown(at int) error {
	// By way of the family between, so that rows of three formats never lie side by side.
	below := at - 1
	for below > m.target && m.db.Family(m.formats[below].Family) == nil {
		below--
	}
	from, to := m.formats[at], m.formats[below]
	// Rows older still would bar the way up again, and so would some without an index beside
	// some with: a half-done upgrade is finished first. Where both have a key, the newer
	// family's row stays.
	older := m.formats[:below]
	if unindexed, err := lacksIndex(m.db, to); err != nil {
		return err
	} else if unindexed {
		older = m.formats[:below+1]
	}
	for _, f := range older {
		if m.db.Family(f.Family) == nil {
			continue
		}
		if err := m.empty(f, from, false); err != nil {
			return err
		}
	}
	if err := m.empty(from, to, true); err != nil {
		return err
	}
	failpoint.Hit("downgrade/moved")
	if err := m.db.Flush(); err != nil {
		return err
	}
	failpoint.Hit("downgrade/flushed")
	if err := m.db.Drop(m.db.Family(from.Family)); err != nil {
		return err
	}
	failpoint.Hit("downgrade/dropped")
	m.result.Dropped = append(m.result.Dropped, from.Family)
	return nil
}

// lacksIndex tells whether the rows of a time-ordered format were written by a store
// without an index.
func lacksIndex(db *rocks.DB, f Format) (bool, error) {
	if f.Index == nil {
		return false, nil
	}
	family := Unopened{db}
	first, ok, err := family.First(f.Family, nil)
	if err != nil || !ok || first[0] != basePrefix {
		return false, err
	}
	_, indexed, err := family.First(f.Family, []byte{indexPrefix})
	return !indexed, err
}

// empty moves all rows of a family into another.
func (m mover) empty(from, to Format, overwrite bool) error {
	source, target := newSource(m.dir, m.db, from, from), newSource(m.dir, m.db, to, to)
	var start []byte
	for {
		last, moved, end, err := move(m.db, source, target, start, m.rows, overwrite)
		if err != nil {
			return err
		}
		m.result.Rows += int64(moved)
		start = append(last, 0)
		if m.afterSlice != nil && moved > 0 {
			m.afterSlice()
		}
		if end {
			return nil
		}
	}
}

// vet reads all rows of formats above the target, without opening for writing.
func (d *downgrade) vet(on *database) error {
	return on.read(func(db *rocks.DB) error {
		for _, f := range d.above() {
			if !on.has(f.Family) {
				continue
			}
			if err := refuseKind(db, f); err != nil {
				return err
			}
			if err := d.vetRows(db, on.dir, f); err != nil {
				return err
			}
		}
		return nil
	})
}

func (d *downgrade) vetRows(db *rocks.DB, dir string, f Format) error {
	to := d.formats[d.target]
	source, target := newSource(dir, db, f, f), newSource(dir, db, to, to)
	scan := db.Scan(source.family, base.Span{})
	defer scan.Close()
	var converted []byte
	for scan.Next() {
		key, value := scan.Key(), scan.Value()
		err := f.refuseRow(db, key, value)
		if err == nil {
			converted, err = source.convert(converted[:0], target, key, value)
		}
		if err == nil {
			err = d.refuseLoss(&source, f, key, value)
		}
		if err != nil {
			return store.Locate(err, dir, f.Family, key)
		}
	}
	return scan.Err()
}

func (d *downgrade) refuseLoss(s *source, f Format, key, value []byte) error {
	var row store.Row
	err := s.decode(key, value, &row)
	headers := !row.Headers.Empty()
	if err == nil && f.Versions && !d.headers {
		headers, err = f.check(key, value)
	}
	switch {
	case err != nil:
		return err
	case headers && !d.headers:
		return fmt.Errorf("%w: key %x has headers; allow it with DiscardHeaders", ErrLossy, key)
	case row.Timestamp != store.NoTimestamp && !d.timestamps && !d.formats[d.target].Layout.HasTimestamp():
		return fmt.Errorf("%w: key %x has a timestamp; allow it with DiscardTimestamps", ErrLossy, key)
	}
	return nil
}

// leaveOffsets replaces the offsets families by files, which are durable before the first
// family goes.
func leaveOffsets(taskDir, name string, all []database, done []DowngradeResult) error {
	if !slices.ContainsFunc(all, func(d database) bool { return d.has(rocks.Offsets) }) {
		return nil
	}
	for i := range all {
		listed, err := rocks.List(all[i].dir)
		if err != nil {
			return err
		}
		all[i].listed = listed
	}
	if err := writeFiles(taskDir, name, all); err != nil {
		return err
	}
	for i := range all {
		if !all[i].has(rocks.Offsets) {
			continue
		}
		failpoint.Hit("downgrade/offsets")
		if err := dropOffsets(&all[i]); err != nil {
			return all[i].locate(err)
		}
		done[i].Dropped = append(done[i].Dropped, rocks.Offsets)
	}
	return nil
}

func dropOffsets(d *database) error {
	db, err := rocks.Open(d.dir, d.listed, d.listed, nil)
	if err != nil {
		return err
	}
	defer db.Close()
	return db.Drop(db.Family(rocks.Offsets))
}
