package crash

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/checkpointfile"
	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

// disk is what a directory holds, read past the code under test.
type disk struct {
	rows     rows
	offset   int64 // -1: none
	position store.Position
	half     bool // a bulk load was cut, and the next open empties the database
	families []string
	twice    map[string]bool // keys that lie in two families
	count    map[store.Layout]int
}

// newestFirst are the families of rows: the row of the newest counts.
var newestFirst = []struct {
	family string
	layout store.Layout
}{{migration.HeadersFamily, store.WithHeaders}, {migration.TimestampedFamily, store.Timestamped}, {rocks.Default, store.Plain}}

// readDisk changes no file.
func readDisk(dir string) (d disk, err error) {
	d = disk{rows: rows{}, offset: -1, twice: map[string]bool{}, count: map[store.Layout]int{}}
	if d.half, err = exists(filepath.Join(bulkDir(dir), "joining")); err != nil {
		return d, err
	}
	if d.half {
		return d, d.readFiles(dir)
	}
	if d.families, err = rocks.List(dbDir(dir)); err != nil {
		return d, err
	}
	if len(d.families) == 0 {
		return d, d.readFiles(dir)
	}
	logs := filepath.Join(dir, "logs")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return d, err
	}
	db, err := rocks.OpenReadOnly(dbDir(dir), d.families, logs)
	if err != nil {
		return d, err
	}
	defer db.Close()
	for _, f := range newestFirst {
		if db.Family(f.family) == nil {
			continue
		}
		scan := db.Scan(db.Family(f.family), base.Span{})
		for scan.Next() {
			d.count[f.layout]++
			key := string(scan.Key())
			if _, has := d.rows[key]; has {
				d.twice[key] = true
				continue
			}
			row, err := f.layout.Decode(append([]byte{}, scan.Value()...))
			if err != nil {
				return d, fmt.Errorf("family %s, key %q: %w", f.family, key, err)
			}
			d.rows[key] = row
		}
		scan.Close()
		if err := scan.Err(); err != nil {
			return d, err
		}
	}
	if err := d.readFiles(dir); err != nil || db.Family(rocks.Offsets) == nil {
		return d, err
	}
	var scratch []byte
	b, ok, err := db.Get(db.Family(rocks.Offsets), []byte(logTopic+"-0"), &scratch)
	if err != nil {
		return d, err
	}
	if ok {
		d.offset = max(int64(binary.BigEndian.Uint64(b)), -1) // -4 is unknown too
	}
	b, ok, err = db.Get(db.Family(rocks.Offsets), []byte("position"), &scratch)
	if err != nil || !ok {
		return d, err
	}
	p, err := store.DecodePosition(b)
	d.position.Merge(p)
	return d, err
}

func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// readFiles reads what a downgrade for Kafka Streams 4.2 leaves instead of the offsets
// family.
func (d *disk) readFiles(dir string) error {
	offsets, err := checkpointfile.Read(filepath.Join(taskDir(dir), checkpointfile.Name))
	if err != nil {
		return err
	}
	for _, e := range offsets {
		d.offset = e.Offset
	}
	positions, err := checkpointfile.Read(filepath.Join(taskDir(dir), storeName+".position"))
	for _, e := range positions {
		d.position.Advance(e.Topic, e.Partition, e.Offset)
	}
	return err
}

// leaveBehind makes of a directory of an older format what a Kafka Streams 4.3 leaves
// that was killed between its two writes of a row: some keys lie in the newest family,
// with an old row still in the older one.
func leaveBehind(dir string, keys []string, of rows, stale func(key string) store.Row) error {
	listed, err := rocks.List(dbDir(dir))
	if err != nil {
		return err
	}
	wanted := append([]string{}, listed...)
	db, err := rocks.Open(dbDir(dir), append(wanted, migration.HeadersFamily), listed, nil)
	if err != nil {
		return err
	}
	defer db.Close()
	batch := db.NewBatch(0)
	defer batch.Close()
	for _, key := range keys {
		row := of[key]
		batch.PutRow(db.Family(migration.HeadersFamily), []byte(key), store.WithHeaders, &row)
		for _, f := range newestFirst[1:] {
			if db.Family(f.family) == nil {
				continue
			}
			if has, err := db.Has(db.Family(f.family), []byte(key)); err != nil {
				return err
			} else if has {
				old := stale(key)
				batch.PutRow(db.Family(f.family), []byte(key), f.layout, &old)
			}
		}
	}
	return batch.Write()
}
