package crash

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/internal/subject"
	"github.com/forebay-streams/forebay/internal/windowkey"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

// part is one database of a store on disk: a segment, or all of a versioned store, whose
// rows it does not read.
type part struct {
	id       int64
	offset   int64 // -1: none
	position store.Position
	rows     map[subject.Place]store.Row
	index    map[subject.Place]bool // of a time-ordered store
}

// timedFamily is a column family, and as what its rows count.
type timedFamily struct {
	name   string
	layout store.Layout // of its rows
	as     store.Layout // what a store is opened with to write it
}

// timedFamilies are newest first.
func (v variant) timedFamilies() []timedFamily {
	switch {
	case v.Family == subject.Versioned:
		return []timedFamily{{migration.VersionsFamily, store.Aggregation, store.WithHeaders}, {rocks.Default, store.Plain, store.Plain}}
	case v.Family == subject.Session && v.Ordered:
		return []timedFamily{{migration.SessionHeadersFamily, store.Plain, store.WithHeaders}, {rocks.Default, store.Plain, store.Plain}}
	case v.Family == subject.Session:
		return []timedFamily{{migration.SessionHeadersFamily, store.Aggregation, store.WithHeaders}, {rocks.Default, store.Plain, store.Plain}}
	case v.Ordered:
		return []timedFamily{{migration.WindowHeadersFamily, store.WithHeaders, store.WithHeaders}, {rocks.Default, store.Timestamped, store.Timestamped}}
	}
	var out []timedFamily
	for _, f := range newestFirst {
		out = append(out, timedFamily{f.family, f.layout, f.layout})
	}
	return out
}

// readTimed changes no file. The disk's offset is the least of its parts.
func (g *group) readTimed() (disk, []part, error) {
	d := disk{rows: rows{}, offset: -1, twice: map[string]bool{}, count: map[store.Layout]int{}}
	var parts []part
	read := func(dir string, id int64) error {
		p, err := g.readPart(dir, id, &d)
		if err == nil {
			parts = append(parts, p)
		}
		return err
	}
	if g.variant.Family == subject.Versioned {
		if _, err := os.Stat(filepath.Join(dbDir(g.dir), "CURRENT")); errors.Is(err, fs.ErrNotExist) {
			return d, nil, nil
		}
		if err := read(dbDir(g.dir), 0); err != nil {
			return d, nil, err
		}
	} else {
		dir := filepath.Join(taskDir(g.dir), storeName)
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return d, nil, err
		}
		for _, e := range entries {
			start, err := strconv.ParseInt(strings.TrimPrefix(e.Name(), storeName+"."), 10, 64)
			if err != nil {
				return d, nil, err
			}
			if _, err := os.Stat(filepath.Join(dir, e.Name(), "CURRENT")); errors.Is(err, fs.ErrNotExist) {
				continue // was being made or deleted
			}
			if _, err := os.Stat(filepath.Join(dir, e.Name(), "forebay.unborn")); err == nil {
				continue // was being made
			}
			if err := read(filepath.Join(dir, e.Name()), start/timedInterval); err != nil {
				return d, nil, err
			}
		}
	}
	for i, p := range parts {
		if i == 0 || p.offset < d.offset {
			d.offset = p.offset
		}
		d.position.Merge(p.position)
	}
	return d, parts, nil
}

func (g *group) readPart(dir string, id int64, d *disk) (p part, err error) {
	p = part{id: id, offset: -1, rows: map[subject.Place]store.Row{}, index: map[subject.Place]bool{}}
	families, err := rocks.List(dir)
	if err != nil {
		return p, err
	}
	logs := filepath.Join(g.dir, "logs")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return p, err
	}
	db, err := rocks.OpenReadOnly(dir, families, logs)
	if err != nil {
		return p, err
	}
	defer db.Close()
	d.families = families
	for _, f := range g.variant.timedFamilies() {
		if db.Family(f.name) == nil {
			continue
		}
		if err := g.readFamily(db, f, &p, d); err != nil {
			return p, err
		}
	}
	offsets := db.Family(rocks.Offsets)
	if offsets == nil {
		return p, nil
	}
	var scratch []byte
	b, ok, err := db.Get(offsets, []byte(logTopic+"-0"), &scratch)
	if err != nil {
		return p, err
	}
	if ok {
		p.offset = max(int64(binary.BigEndian.Uint64(b)), -1)
	}
	if b, ok, err = db.Get(offsets, []byte("position"), &scratch); err != nil || !ok {
		return p, err
	}
	p.position, err = store.DecodePosition(b)
	return p, err
}

func (g *group) readFamily(db *rocks.DB, f timedFamily, p *part, d *disk) error {
	of := newTimeline(g.variant.Family, g.layout)
	scan := db.Scan(db.Family(f.name), base.Span{})
	defer scan.Close()
	for scan.Next() {
		d.count[f.as]++
		if g.variant.Family == subject.Versioned {
			continue
		}
		place, index, ok := g.placeOf(scan.Key())
		if !ok {
			return fmt.Errorf("family %s has the key %x", f.name, scan.Key())
		}
		if index {
			p.index[place] = true
			continue
		}
		if _, has := p.rows[place]; has {
			d.twice[place.String()] = true
			continue
		}
		row, err := f.layout.Decode(append([]byte{}, scan.Value()...))
		if err != nil {
			return fmt.Errorf("family %s, %s: %w", f.name, place, err)
		}
		p.rows[place] = of.keep(row, g.layout)
	}
	return scan.Err()
}

// placeOf parses a key on disk.
func (g *group) placeOf(key []byte) (p subject.Place, index, ok bool) {
	index = g.variant.Ordered && key[0] == windowkey.IndexPrefix
	if g.variant.Family == subject.Windowed {
		schema := windowkey.Window
		if g.variant.Ordered {
			schema = map[bool]windowkey.Schema{false: windowkey.Base, true: windowkey.Index}[index]
		}
		r, ok := schema.Parse(key)
		return subject.Place{Key: string(r.Key), From: r.Start}, index, ok
	}
	schema := windowkey.Session
	if g.variant.Ordered {
		schema = map[bool]windowkey.SessionSchema{false: windowkey.SessionBase, true: windowkey.SessionIndex}[index]
	}
	r, ok := schema.Parse(key)
	return subject.Place{Key: string(r.Key), From: r.Start, To: r.End}, index, ok
}

// lookTimed checks every part by its own offset, and that none is missing.
func (g *group) lookTimed(said words) error {
	log, err := readLog(g.path("changelog"), g.variant.ExactlyOnce)
	if err != nil {
		return err
	}
	d, parts, err := g.readTimed()
	if err != nil {
		return err
	}
	noted, err := readJournal(g.path("journal"))
	if err != nil {
		return err
	}
	noted[-1] = append(noted[store.UnknownOffset], store.Position{})
	end := log.end
	if g.variant.ExactlyOnce {
		end = log.marker
	}
	whole := newTimeline(g.variant.Family, g.layout).replay(log, end, g.eras)
	for _, p := range parts {
		if p.offset > end {
			return failed("the stored offset %d of part %d lies behind the changelog's committed end %d", p.offset, p.id, end)
		}
		if !g.handedOver(noted, p) {
			return failed("the stored position %s of part %d was never handed over with offset %d, but %v", p.position, p.id, p.offset, noted[p.offset])
		}
		if said.closed >= 0 && p.offset != said.closed {
			return failed("closed at offset %d, but part %d has %d", said.closed, p.id, p.offset)
		}
		if err := g.lookPart(p, log, whole.stream-timedRetention); err != nil {
			return err
		}
	}
	for key := range d.twice {
		return failed("the row %s lies in two of the families %v", key, d.families)
	}
	if len(parts) > 0 && d.offset < g.last.offset {
		return failed("the stored offset went from %d back to %d", g.last.offset, d.offset)
	}
	if g.variant.Family.Segmented() && len(parts) > 0 {
		// What the oldest offset promises lies in some segment, unless it has expired since: an
		// expired segment is deleted when the commit is written, which may reach the disk later.
		want := newTimeline(g.variant.Family, g.layout).replay(log, d.offset, g.eras)
		now := whole.live()
		for place := range want.live() {
			if _, live := now[place]; live && !slices.ContainsFunc(parts, func(p part) bool { return p.id == place.Time()/timedInterval }) {
				return &failure{fmt.Sprintf("the segment of %s is missing, the store's offset is %d", place, d.offset), difference{Lost: 1}}
			}
		}
	}
	g.last = d
	return nil
}

// handedOver tells whether offset and position can be those of one checkpoint. A segment that
// is made amid a restore begins with the oldest offset and the newest position of all.
func (g *group) handedOver(noted map[int64][]store.Position, p part) bool {
	for offset, positions := range noted {
		if (offset == p.offset || g.variant.Family.Segmented() && offset > p.offset) && slices.ContainsFunc(positions, p.position.Equal) {
			return true
		}
	}
	return false
}

// lookPart compares the rows of a segment. What has expired by the end of the changelog may
// be missing, since the segment may have been deleted and be made again by a restore until
// that comes so far.
func (g *group) lookPart(p part, log view, expired int64) error {
	if !g.variant.Family.Segmented() {
		return nil // the next child compares the rows before it restores any
	}
	want := newTimeline(g.variant.Family, g.layout).replay(log, p.offset, g.eras)
	same := equal
	if g.variant.Ordered && g.variant.Family == subject.Session {
		same = sameValue // headers are in the index
	}
	rows := maps.Clone(p.rows)
	maps.DeleteFunc(rows, func(place subject.Place, row store.Row) bool {
		return place.Time() <= expired && slices.ContainsFunc(want.ever[place], func(old store.Row) bool { return same(old, row) })
	})
	d := want.compare(rows, same, func(place subject.Place) bool { return place.Time()/timedInterval == p.id && place.Time() > expired })
	if err := differ(d, "after the kill: the rows of segment %d are not those of the changelog up to its offset %d", p.id, p.offset); err != nil {
		return err
	}
	if !g.variant.Ordered {
		return nil
	}
	for place := range p.rows {
		if !p.index[place] {
			return failed("segment %d has no index entry for %s", p.id, place)
		}
	}
	if len(p.index) != len(p.rows) {
		return failed("segment %d has %d rows and %d index entries: %v", p.id, len(p.rows), len(p.index), slices.Collect(maps.Keys(p.index)))
	}
	return nil
}
