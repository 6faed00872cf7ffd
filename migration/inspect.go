package migration

import (
	"fmt"
	"slices"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/internal/versions"
	"github.com/forebay-streams/forebay/store"
)

// Report is what a database directory holds, or a store's directory with a database for
// each segment: then all but Segments sums these up.
type Report struct {
	Dir      string
	Families []FamilyReport // in order of their creation; empty: no database
	// Format is that of the newest rows; 0 when no family is known. Those of versions with
	// headers and of sessions with headers are Aggregation.
	Format store.Layout
	// Legacy is the oldest format of which rows are left; 0 when there is none but Format.
	Legacy store.Layout
	// Offsets of changelog partitions, topic-partition to the offset of the last record
	// the store holds; [store.UnknownOffset] when not known. Of segments the least.
	Offsets  map[string]int64
	Position store.Position
	// Status is what Kafka Streams stored: 1 open, 0 closed, -1 nothing. Of segments the
	// largest.
	Status int64
	// Segments of a window or session store, oldest first.
	Segments []Report
}

// FamilyReport is one column family.
type FamilyReport struct {
	Name string
	// Layout of its rows; 0 for a family that holds none.
	Layout store.Layout
	// Estimate is RocksDB's estimate of its entries, Exact their number if it was asked
	// for, else -1.
	Estimate, Exact int64
	// Bytes of its table files.
	Bytes int64
}

// InspectOption changes what [Inspect] does.
type InspectOption interface{ inspect(*inspection) }

type inspectOption func(*inspection)

func (o inspectOption) inspect(i *inspection) { o(i) }

type inspection struct {
	count, check, ordered bool
	formats               []Format
	full                  map[string]bool // families with rows
}

// CountRows makes Inspect read every family and count its entries.
func CountRows() InspectOption { return inspectOption(func(i *inspection) { i.count = true }) }

// CheckRows makes Inspect decode every row, header blocks included, and fail at the
// first that is malformed. It implies CountRows.
func CheckRows() InspectOption {
	return inspectOption(func(i *inspection) { i.count, i.check = true, true })
}

// OrderedOption is one of [Inspect] and of [Downgrade].
type OrderedOption struct{}

// TimeOrdered says that the directory is of a window or session store that was opened as
// time-ordered. Of session stores it must be said, as their column families are those of
// ordinary ones: CheckRows and Downgrade fail when the rows are of the other kind.
func TimeOrdered() OrderedOption { return OrderedOption{} }

func (OrderedOption) inspect(i *inspection)  { i.ordered = true }
func (OrderedOption) downgrade(d *downgrade) { d.ordered = true }

// Inspect looks into a database directory, such as <task>/rocksdb/<store>, or into that of
// a window or session store, <task>/<store>, without changing anything in it. It sees what
// is on disk: rows that a running process keeps in memtables are not.
func Inspect(dir string, options ...InspectOption) (Report, error) {
	in := inspection{full: map[string]bool{}}
	for _, option := range options {
		option.inspect(&in)
	}
	r := Report{Dir: dir, Status: -1, Offsets: map[string]int64{}}
	all, err := databases(dir)
	if err != nil || len(all) == 0 {
		return r, err
	}
	if in.formats, err = formatsOf(families(all), in.ordered); err != nil {
		return r, err
	}
	if all[0].segment == "" {
		return in.database(all[0])
	}
	for _, d := range all {
		segment, err := in.database(d)
		if err != nil {
			return r, err
		}
		r.Segments = append(r.Segments, segment)
	}
	r.sum()
	r.setFormats(in.formats, in.full)
	return r, nil
}

func (in *inspection) database(d database) (Report, error) {
	r := Report{Dir: d.dir, Status: -1, Offsets: map[string]int64{}}
	return r, d.read(func(db *rocks.DB) error { return in.read(db, d.listed, &r) })
}

func (in *inspection) read(db *rocks.DB, listed []string, r *Report) error {
	full := map[string]bool{}
	for _, name := range listed {
		f, err := in.family(db, r.Dir, name)
		if err != nil {
			return err
		}
		r.Families = append(r.Families, f)
		if full[name], err = hasData(db, db.Family(name)); err != nil {
			return err
		}
		in.full[name] = in.full[name] || full[name]
	}
	r.setFormats(in.formats, full)
	offsets, position, status, err := readOffsets(db, r.Dir)
	for _, e := range offsets {
		r.Offsets[fmt.Sprintf("%s-%d", e.Topic, e.Partition)] = e.Offset
	}
	r.Position, r.Status = position, status
	return err
}

func (in *inspection) family(db *rocks.DB, dir, name string) (FamilyReport, error) {
	f := FamilyReport{Name: name, Exact: -1}
	var format Format
	if at := find(in.formats, name); at >= 0 {
		format = in.formats[at]
		f.Layout = format.Layout
	}
	family := db.Family(name)
	n, err := db.IntProperty(family, estimateKeys)
	if err != nil {
		return f, err
	}
	size, err := db.IntProperty(family, "rocksdb.live-sst-files-size")
	if err != nil {
		return f, err
	}
	f.Estimate, f.Bytes = int64(n), int64(size)
	if !in.count {
		return f, nil
	}
	check := in.check && f.Layout != 0
	if check {
		if err := refuseKind(db, format); err != nil {
			return f, err
		}
	}
	scan := db.Scan(family, base.Span{})
	defer scan.Close()
	for f.Exact = 0; scan.Next(); f.Exact++ {
		if !check {
			continue
		}
		err := format.refuseRow(db, scan.Key(), scan.Value())
		if err == nil {
			_, err = format.check(scan.Key(), scan.Value())
		}
		if err != nil {
			return f, store.Locate(err, dir, name, scan.Key())
		}
	}
	return f, scan.Err()
}

// setFormats finds the newest family and the oldest one that has rows beside it.
func (r *Report) setFormats(formats []Format, full map[string]bool) {
	for _, f := range slices.Backward(formats) {
		switch {
		case r.family(f.Family) == nil:
		case r.Format == 0:
			r.Format = f.keeps()
		case full[f.Family]:
			r.Legacy = f.keeps()
		}
	}
}

func (r *Report) family(name string) *FamilyReport {
	for i := range r.Families {
		if r.Families[i].Name == name {
			return &r.Families[i]
		}
	}
	return nil
}

// sum adds up what the segments hold.
func (r *Report) sum() {
	var offsets []map[string]int64
	for _, s := range r.Segments {
		for _, f := range s.Families {
			sum := r.family(f.Name)
			if sum == nil {
				r.Families = append(r.Families, f)
				continue
			}
			sum.Estimate += f.Estimate
			sum.Bytes += f.Bytes
			if f.Exact >= 0 {
				sum.Exact += f.Exact
			}
		}
		offsets = append(offsets, s.Offsets)
		r.Position.Merge(s.Position)
		r.Status = max(r.Status, s.Status)
	}
	r.Offsets = least(offsets)
}

// check decodes a row, header blocks included, and tells whether it has headers.
func (f Format) check(key, b []byte) (headers bool, err error) {
	if f.Versions {
		return versions.Check(f.Layout, key, b)
	}
	var row store.Row
	if f.Index.Has(key) {
		err = f.Index.decode(b, &row)
	} else {
		row, err = f.Layout.Decode(b)
	}
	if err == nil {
		err = row.Headers.Err()
	}
	return !row.Headers.Empty(), err
}
