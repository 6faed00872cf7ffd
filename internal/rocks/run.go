package rocks

// #include <stdlib.h>
// #include "rocks.h"
import "C"

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"unsafe"

	"github.com/linxGnu/grocksdb"

	"github.com/forebay-streams/forebay/internal/keysort"
	"github.com/forebay-streams/forebay/store"
)

// Run gathers rows in any order that join a family all at once, as one sorted table file.
// It must be closed.
type Run struct {
	// buf lies in C memory: in Go's, the collector would let the heap grow by as much again.
	// A row is u32 key length, u32 value length, key, value; the length of a removed one's
	// value is removed.
	buf    []byte
	used   int
	places []place
}

// place must be laid out as fb_place.
type place = keysort.Place[uint32]

var _ = [1]struct{}{}[unsafe.Sizeof(place{})-unsafe.Sizeof(C.fb_place{})]

const (
	runHead = 4 + 4
	removed = math.MaxUint32
	// maxRun is how far a place reaches.
	maxRun = math.MaxUint32
)

// NewRun makes a run of so many bytes, with what it needs to sort its rows.
func NewRun(bytes int) *Run {
	live.Add(1)
	return &Run{buf: cBytes(bytes)}
}

func cBytes(n int) []byte { return unsafe.Slice((*byte)(C.malloc(C.size_t(n))), n) }

// Add adds changes in their layout, all or, when there is no room, none: then it is false. A
// run without rows makes room for any. Of the changes of one key the last one counts.
func (r *Run) Add(changes []store.Change, layout store.Layout) (fits bool, err error) {
	rows, used := len(r.places), r.used
	defer func() {
		if !fits {
			r.places, r.used = r.places[:rows], used
		}
	}()
	for i := range changes {
		if fits, err = r.add(&changes[i], layout); err != nil {
			return false, err
		}
		if fits {
			continue
		}
		size := 0
		for i := range changes {
			size += sizeInRun(&changes[i]) + placeBytes
		}
		if used > 0 || size > maxRun {
			return false, nil
		}
		r.places, r.used = r.places[:0], 0
		C.free(unsafe.Pointer(&r.buf[0]))
		r.buf = cBytes(size)
		return r.Add(changes, layout)
	}
	return true, nil
}

// placeBytes is what a row takes beside its bytes: its place, and another while they are sorted.
const placeBytes = 2 * int(unsafe.Sizeof(place{}))

func sizeInRun(c *store.Change) int { return runHead + c.Size() + rowExtra }

func (r *Run) add(c *store.Change, layout store.Layout) (fits bool, err error) {
	size := sizeInRun(c)
	if size+placeBytes*(len(r.places)+1) > len(r.buf)-r.used {
		return false, nil
	}
	at := r.buf[r.used : r.used+size : r.used+size]
	binary.NativeEndian.PutUint32(at, uint32(len(c.Key)))
	value := at[runHead+copy(at[runHead:], c.Key):][:0]
	if c.Tombstone() {
		binary.NativeEndian.PutUint32(at[4:], removed)
	} else {
		b, err := layout.Append(value, c.Row)
		if err != nil {
			return false, err
		}
		if len(b) > cap(value) { // never with the sizes rows have in memory
			return false, fmt.Errorf("the size of a row was counted too small: %d for %d bytes", cap(value), len(b))
		}
		value = b
		binary.NativeEndian.PutUint32(at[4:], uint32(len(value)))
	}
	r.places = append(r.places, keysort.At(keysort.String(at[runHead:runHead+len(c.Key)]), uint32(r.used)))
	r.used += runHead + len(c.Key) + len(value)
	return true, nil
}

// Empty tells whether nothing was added.
func (r *Run) Empty() bool { return r.used == 0 }

func (r *Run) key(at uint32) string {
	n := binary.NativeEndian.Uint32(r.buf[at:])
	return keysort.String(r.buf[at+runHead:][:n])
}

func (r *Run) removes(at uint32) bool { return binary.NativeEndian.Uint32(r.buf[at+4:]) == removed }

// sort leaves the last row of each key, in their order, and without removals unless keep.
func (r *Run) sort(keep bool) {
	keysort.Sort(r.places, r.key)
	kept := r.places[:0]
	for i, p := range r.places {
		if i+1 < len(r.places) && r.places[i+1].Prefix == p.Prefix && r.key(r.places[i+1].Item) == r.key(p.Item) {
			continue
		}
		if keep || !r.removes(p.Item) {
			kept = append(kept, p)
		}
	}
	r.places = kept
}

// Reset empties the run.
func (r *Run) Reset() { r.places, r.used = r.places[:0], 0 }

// Close frees the run.
func (r *Run) Close() {
	if r.buf != nil {
		C.free(unsafe.Pointer(&r.buf[0]))
		r.buf, r.places = nil, nil
		live.Add(-1)
	}
}

// WriteTable writes the run as a table file for [DB.Ingest]; false: nothing is left to write.
// The file is on disk when it returns. keep says that removals are needed, because the family
// has rows already.
func (d *DB) WriteTable(r *Run, path string, keep bool) (written bool, err error) {
	if r.sort(keep); len(r.places) == 0 {
		return false, nil
	}
	if err := d.enter(); err != nil {
		return false, err
	}
	defer d.leave()
	env := grocksdb.NewDefaultEnvOptions()
	defer env.Destroy()
	w := grocksdb.NewSSTFileWriter(env, d.options.db)
	defer w.Destroy()
	if err := w.Open(path); err != nil {
		return false, err
	}
	var e *C.char
	C.fb_table_add((*C.rocksdb_sstfilewriter_t)(handle(w)), bytesPtr(r.buf), (*C.fb_place)(unsafe.Pointer(&r.places[0])), C.size_t(len(r.places)), &e)
	if e != nil {
		return false, takeError(e)
	}
	return true, w.Finish()
}

// Ingest moves a table file into a family, durably; its rows hide older ones. The file must
// lie on the database's file system.
func (d *DB) Ingest(f *Family, path string) error {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	o := grocksdb.NewDefaultIngestExternalFileOptions()
	defer o.Destroy()
	o.SetMoveFiles(true)
	return d.db.IngestExternalFileCF(f.handle, []string{path}, o)
}

// CompactionTrigger is how many sorted runs a family has before they are compacted, unless
// [DB.SetCompactionTrigger] says otherwise: RocksDB's and Kafka Streams' default.
const CompactionTrigger = 4

// SetCompactionTrigger changes that number until the database is closed.
func (d *DB) SetCompactionTrigger(f *Family, runs int) error {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	return d.db.SetOptionsCF(f.handle, []string{"level0_file_num_compaction_trigger"}, []string{strconv.Itoa(runs)})
}
