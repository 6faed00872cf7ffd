package migration

import (
	"fmt"
	"slices"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/internal/versions"
	"github.com/forebay-streams/forebay/store"
)

// Report is what a database directory holds.
type Report struct {
	Dir      string
	Families []FamilyReport // in order of their creation; empty: no database
	// Format is that of the newest rows; 0 when no family is known.
	Format store.Layout
	// Legacy is the older format of which rows are left; 0 when there is none.
	Legacy store.Layout
	// Offsets of changelog partitions, topic-partition to the offset of the last record
	// the store holds; [store.UnknownOffset] when not known.
	Offsets  map[string]int64
	Position store.Position
	// Status is what Kafka Streams stored: 1 open, 0 closed, -1 nothing.
	Status int64
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
type InspectOption func(*inspection)

type inspection struct{ count, check bool }

// CountRows makes Inspect read every family and count its entries.
func CountRows() InspectOption { return func(i *inspection) { i.count = true } }

// CheckRows makes Inspect decode every row, header blocks included, and fail at the
// first that is malformed. It implies CountRows.
func CheckRows() InspectOption { return func(i *inspection) { i.count, i.check = true, true } }

// Inspect looks into a database directory, such as <task>/rocksdb/<store>, without
// changing anything in it. It sees what is on disk: rows that a running process keeps in
// memtables are not.
func Inspect(dir string, options ...InspectOption) (Report, error) {
	var in inspection
	for _, option := range options {
		option(&in)
	}
	r := Report{Dir: dir, Status: -1, Offsets: map[string]int64{}}
	listed, err := rocks.List(dir)
	if err != nil || len(listed) == 0 {
		return r, err
	}
	return r, readOnly(dir, listed, func(db *rocks.DB) error { return in.read(db, listed, &r) })
}

func (in inspection) read(db *rocks.DB, listed []string, r *Report) error {
	for _, name := range listed {
		f, err := in.family(db, r.Dir, name)
		if err != nil {
			return err
		}
		r.Families = append(r.Families, f)
	}
	if err := r.formats(db); err != nil {
		return err
	}
	offsets, position, status, err := readOffsets(db, r.Dir)
	for _, e := range offsets {
		r.Offsets[fmt.Sprintf("%s-%d", e.Topic, e.Partition)] = e.Offset
	}
	r.Position, r.Status = position, status
	return err
}

func (in inspection) family(db *rocks.DB, dir, name string) (FamilyReport, error) {
	format := formatOf(name)
	f := FamilyReport{Name: name, Exact: -1, Layout: format.Layout}
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
	scan := db.Scan(family, base.Span{})
	defer scan.Close()
	for f.Exact = 0; scan.Next(); f.Exact++ {
		if !in.check || f.Layout == 0 {
			continue
		}
		if _, err := format.check(scan.Key(), scan.Value()); err != nil {
			return f, store.Locate(err, dir, name, scan.Key())
		}
	}
	return f, scan.Err()
}

// knownRows are all families that hold rows, oldest format first.
var knownRows = []Format{plainRows, timestampedRows, headersRows, headersVersions}

// formatOf is the zero format for a family that holds no rows.
func formatOf(family string) (f Format) {
	if i := slices.IndexFunc(knownRows, func(f Format) bool { return f.Family == family }); i >= 0 {
		f = knownRows[i]
	}
	return f
}

// formats finds the newest family and the oldest one that has rows beside it.
func (r *Report) formats(db *rocks.DB) error {
	var older *rocks.Family
	for _, f := range knownRows {
		family := db.Family(f.Family)
		if family == nil {
			continue
		}
		if older != nil && r.Legacy == 0 {
			full, err := hasData(db, older)
			if err != nil {
				return err
			}
			if full {
				r.Legacy = r.Format
			}
		}
		r.Format, older = f.Layout, family
	}
	return nil
}

// check decodes a row, header blocks included, and tells whether it has headers.
func (f Format) check(key, b []byte) (headers bool, err error) {
	if f.Versions {
		return versions.Check(f.Layout, key, b)
	}
	row, err := f.Layout.Decode(b)
	if err == nil {
		err = row.Headers.Err()
	}
	return !row.Headers.Empty(), err
}
