package migration

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/store"
)

// database is one of a store's: its only one, or that of a segment.
type database struct {
	segment string // the directory's name; empty: the only one
	start   int64
	dir     string
	listed  []string // column families
}

// databases finds what a directory holds: one database, or one for each segment, oldest
// first. Directories that a store would skip or delete are left out.
func databases(dir string) ([]database, error) {
	listed, err := rocks.List(dir)
	if err != nil {
		return nil, err
	}
	if len(listed) > 0 {
		if err := refuseHalfLoaded(dir); err != nil {
			return nil, err
		}
		return []database{{dir: dir, listed: listed}}, nil
	}
	name, err := storeName(dir)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []database
	for _, e := range entries {
		start, ok := segmentStart(name, e.Name())
		if !ok || !e.IsDir() {
			continue
		}
		d := database{segment: e.Name(), start: start, dir: filepath.Join(dir, e.Name())}
		if d.listed, err = rocks.List(d.dir); err != nil {
			return nil, d.locate(err)
		}
		if len(d.listed) > 0 {
			if err := refuseHalfLoaded(d.dir); err != nil {
				return nil, err
			}
			all = append(all, d)
		}
	}
	slices.SortStableFunc(all, func(a, b database) int { return cmp.Compare(a.start, b.start) })
	return all, nil
}

func refuseHalfLoaded(dir string) error {
	half, err := halfLoaded(dir)
	if half {
		err = fmt.Errorf("%w: a restore was interrupted while rows joined %s; open the store, which empties it, or delete the directory", store.ErrIncompatible, dir)
	}
	return err
}

// storeName is the name of the store that a directory is of.
func storeName(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	return filepath.Base(dir), err
}

// segmentStart reads the name of a segment's directory, in today's form <store>.<start>
// or in one of Kafka Streams' older forms, which stores rename when they open.
func segmentStart(storeName, name string) (start int64, ok bool) {
	n := len(storeName)
	if len(name) < n+2 || name[:n] != storeName {
		return 0, false
	}
	var err error
	switch rest := name[n+1:]; name[n] {
	case '.', ':':
		start, err = strconv.ParseInt(rest, 10, 64)
	case '-':
		var at time.Time
		at, err = time.Parse("200601021504", rest)
		start = at.UnixMilli()
	default:
		return 0, false
	}
	return start, err == nil && start >= 0
}

func (d *database) has(family string) bool { return slices.Contains(d.listed, family) }

// locate adds the segment to an error.
func (d *database) locate(err error) error {
	if err == nil || d.segment == "" {
		return err
	}
	return fmt.Errorf("segment %s: %w", d.segment, err)
}

func (d *database) read(look func(*rocks.DB) error) error {
	return d.locate(readOnly(d.dir, d.listed, look))
}

// families are the column families of any of them.
func families(all []database) (names []string) {
	for _, d := range all {
		for _, name := range d.listed {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// least is the least of each offset over all databases of a store, unknown where that of
// any is not known: each may have lost a different part in a crash.
func least[K comparable](all []map[K]int64) map[K]int64 {
	out := map[K]int64{}
	for _, offsets := range all {
		for k := range offsets {
			out[k] = offsets[k]
		}
	}
	for k := range out {
		for _, offsets := range all {
			if n, ok := offsets[k]; !ok || n < 0 {
				out[k] = store.UnknownOffset
				break
			} else {
				out[k] = min(out[k], n)
			}
		}
	}
	return out
}
