package segment

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/forebay-streams/forebay/store"
)

// Name is the directory of a segment inside the store's.
func (c *Config) Name(id int64) string { return fmt.Sprintf("%s.%d", c.Store, id*c.Clock.Interval) }

func (c *Config) path(id int64) string { return filepath.Join(c.Dir, c.Name(id)) }

// named is a segment on disk. Its name may be one of an older version.
type named struct {
	id   int64
	name string
}

// list returns the segments on disk, oldest first, with a warning for foreign names.
func (c *Config) list() ([]named, error) {
	entries, err := os.ReadDir(c.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var found []named
	for _, e := range entries {
		id, skip, err := c.parse(e.Name())
		if err != nil {
			return nil, err
		}
		if skip != "" || !e.IsDir() {
			slog.Warn("skipped in a store's directory", "store", c.Store, "name", e.Name(), "reason", skip)
			continue
		}
		if same := slices.IndexFunc(found, func(f named) bool { return f.id == id }); same >= 0 {
			return nil, fmt.Errorf("%w: %s and %s are the same segment; delete the store's directory and restore it from the changelog",
				store.ErrTaskCorrupted, found[same].name, e.Name())
		}
		found = append(found, named{id, e.Name()})
	}
	slices.SortFunc(found, func(a, b named) int { return cmp.Compare(a.id, b.id) })
	return found, nil
}

// parse reads a directory's name; skip says why it is none of a segment.
func (c *Config) parse(name string) (id int64, skip string, err error) {
	n := len(c.Store)
	if len(name) < n+2 || name[:n] != c.Store {
		return 0, "a foreign name", nil
	}
	rest := name[n+1:]
	switch name[n] {
	case '.', ':':
		start, err := strconv.ParseInt(rest, 10, 64)
		if err != nil {
			return 0, "not a number", nil
		}
		if id = c.Clock.ID(start); start < 0 {
			return 0, "a negative time, which Kafka Streams does not open again either", nil
		}
		// One that fits an old interval only: its rows would be lost from sight while the
		// others' offsets say that nothing is missing.
		if id*c.Clock.Interval != start {
			return 0, "", fmt.Errorf("%w: segment %s does not fit the segment interval of %d ms, so the store was written with another retention or interval; delete the store's directory and restore it from the changelog",
				store.ErrTaskCorrupted, name, c.Clock.Interval)
		}
	case '-':
		at, err := time.Parse("200601021504", rest)
		if err != nil {
			return 0, "not a date", nil
		}
		if id = c.Clock.ID(at.UnixMilli()); at.UnixMilli() < 0 {
			return 0, "a negative time", nil
		}
	default:
		return 0, "a foreign name", nil
	}
	return id, "", nil
}
