// Package rocks is RocksDB as a state store needs it: databases with named column
// families opened with Kafka Streams' options, reads and scans that cross into C once
// for many rows, and packed batches. Each object that lives in C has one owner here.
package rocks

// #cgo CXXFLAGS: -std=c++17
// #cgo LDFLAGS: -lrocksdb -lstdc++
// #cgo noescape fb_get
// #cgo nocallback fb_get
// #include <stdlib.h>
// #include "rocks.h"
import "C"

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/linxGnu/grocksdb"

	"github.com/forebay-streams/forebay/store"
)

// Default and Offsets are the families that every database has.
const (
	Default = "default"
	Offsets = "offsets"
)

// Family is an open column family of a [DB].
type Family struct {
	Name    string
	id      uint32
	dropped bool // cannot be flushed any more
	handle  *grocksdb.ColumnFamilyHandle
	c       *C.rocksdb_column_family_handle_t
}

// DB is an open database. Reads may come from any goroutine. Close waits for reads
// that have begun and ends scans and snapshots that are still open.
type DB struct {
	dir      string
	options  *options
	db       *grocksdb.DB
	c        *C.rocksdb_t
	read     *C.rocksdb_readoptions_t
	families []*Family

	// mu is held for reading by whoever calls into C: Close frees what they use.
	mu        sync.RWMutex
	closed    bool
	opened    sync.Mutex // guards scans and snapshots
	scans     map[*Scan]struct{}
	snapshots map[*Snapshot]struct{}
}

// live counts databases, scans, snapshots and batches that hold C objects, for leak tests.
var live atomic.Int64

// Live is the number of open databases, scans, snapshots and batches.
func Live() int64 { return live.Load() }

// List returns the column families on disk in order of their creation, none when there
// is no database. It changes nothing.
func List(dir string) ([]string, error) {
	if err := checkLibrary(); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, "CURRENT")); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	o := grocksdb.NewDefaultOptions()
	defer o.Destroy()
	return grocksdb.ListColumnFamilies(o, dir)
}

// Open opens the database with the wanted families, which must begin with Default and
// hold every family on disk (listed, as List gives them), and makes the missing ones in
// the order given.
func Open(dir string, wanted, listed []string, budget *store.Budget) (*DB, error) {
	if err := checkLibrary(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var names []string
	for _, name := range wanted {
		if name == Default || slices.Contains(listed, name) {
			names = append(names, name)
		}
	}
	d := &DB{dir: dir, options: newOptions(budget), scans: map[*Scan]struct{}{}, snapshots: map[*Snapshot]struct{}{}}
	live.Add(1)
	db, handles, err := grocksdb.OpenDbColumnFamilies(d.options.db, dir, names, d.familyOptions(names))
	if err != nil {
		d.free()
		return nil, fmt.Errorf("open %s: %w", dir, explain(err))
	}
	d.attach(db)
	for i, h := range handles {
		d.addFamily(names[i], h)
	}
	for _, name := range wanted {
		if slices.Contains(names, name) {
			continue
		}
		h, err := db.CreateColumnFamily(d.familyOptions([]string{name})[0], name)
		if err != nil {
			d.free()
			return nil, fmt.Errorf("open %s: create column family %s: %w", dir, name, err)
		}
		d.addFamily(name, h)
	}
	return d, nil
}

// Destroy deletes the files of a database, whole or in part, unless it is open. Other files
// of the directory stay.
func Destroy(dir string) error {
	if err := checkLibrary(); err != nil {
		return err
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil // the library would miss its lock
	}
	o := grocksdb.NewDefaultOptions()
	defer o.Destroy()
	if err := grocksdb.DestroyDb(dir, o); err != nil {
		return fmt.Errorf("delete %s: %w", dir, explain(err))
	}
	return nil
}

// OpenReadOnly opens the listed families without changing a file of the directory; the
// library's own log goes to logDir.
func OpenReadOnly(dir string, listed []string, logDir string) (*DB, error) {
	if err := checkLibrary(); err != nil {
		return nil, err
	}
	d := &DB{dir: dir, options: newOptions(nil), scans: map[*Scan]struct{}{}, snapshots: map[*Snapshot]struct{}{}}
	live.Add(1)
	d.options.db.SetDbLogDir(logDir)
	// A look must not open every file of a large database: that is the open's.
	d.options.db.SetMaxOpenFiles(readOnlyFiles)
	db, handles, err := grocksdb.OpenDbForReadOnlyColumnFamilies(d.options.db, dir, listed, d.familyOptions(listed), false)
	if err != nil {
		d.free()
		return nil, fmt.Errorf("open %s read-only: %w", dir, err)
	}
	d.attach(db)
	for i, h := range handles {
		d.addFamily(listed[i], h)
	}
	return d, nil
}

// readOnlyFiles is how many files a read-only database holds open.
const readOnlyFiles = 64

func (d *DB) attach(db *grocksdb.DB) {
	d.db = db
	d.c = (*C.rocksdb_t)(handle(db))
	d.read = (*C.rocksdb_readoptions_t)(handle(d.options.read))
}

func (d *DB) familyOptions(names []string) []*grocksdb.Options {
	out := make([]*grocksdb.Options, len(names))
	for i, name := range names {
		if out[i] = d.options.db; name == Offsets {
			out[i] = d.options.offsets
		}
	}
	return out
}

func (d *DB) addFamily(name string, h *grocksdb.ColumnFamilyHandle) {
	f := &Family{Name: name, id: h.ID(), handle: h, c: (*C.rocksdb_column_family_handle_t)(handle(h))}
	d.families = append(d.families, f)
}

// Family returns an open family, nil when there is none of that name.
func (d *DB) Family(name string) *Family {
	for _, f := range d.families {
		if f.Name == name && !f.dropped {
			return f
		}
	}
	return nil
}

// Drop removes a family and its rows for good, at once and durably. Readers that still
// have the family go on: its handle lives until Close.
func (d *DB) Drop(f *Family) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return store.ErrClosed
	}
	if err := d.db.DropColumnFamily(f.handle); err != nil {
		return fmt.Errorf("drop column family %s: %w", f.Name, err)
	}
	f.dropped = true
	return nil
}

// enter begins a call into C; the caller must leave it. It fails when closed.
func (d *DB) enter() error {
	d.mu.RLock()
	if d.closed {
		d.mu.RUnlock()
		return store.ErrClosed
	}
	return nil
}

func (d *DB) leave() { d.mu.RUnlock() }

// Get reads a value into scratch, which it replaces by a larger one if need be, and
// returns it as a sub-slice.
func (d *DB) Get(f *Family, key []byte, scratch *[]byte) ([]byte, bool, error) {
	if err := d.enter(); err != nil {
		return nil, false, err
	}
	defer d.leave()
	return d.get(d.read, f, key, scratch)
}

// Has tells whether a family has a key.
func (d *DB) Has(f *Family, key []byte) (bool, error) {
	if err := d.enter(); err != nil {
		return false, err
	}
	defer d.leave()
	r := C.fb_get(d.c, d.read, f.c, bytesPtr(key), C.size_t(len(key)), nil, 0)
	if r.err != nil {
		return false, takeError(r.err)
	}
	return r.found != 0, nil
}

// minScratch holds most rows, so that a first Get need not ask twice.
const minScratch = 1024

func (d *DB) get(ro *C.rocksdb_readoptions_t, f *Family, key []byte, scratch *[]byte) ([]byte, bool, error) {
	if cap(*scratch) < minScratch {
		*scratch = make([]byte, minScratch)
	}
	for {
		buf := (*scratch)[:cap(*scratch)]
		r := C.fb_get(d.c, ro, f.c, bytesPtr(key), C.size_t(len(key)), bytesPtr(buf), C.size_t(len(buf)))
		switch {
		case r.err != nil:
			return nil, false, takeError(r.err)
		case r.found == 0:
			return nil, false, nil
		case int(r.len) <= len(buf):
			return buf[:r.len:r.len], true, nil
		}
		*scratch = make([]byte, int(r.len))
	}
}

// Flush writes all memtables to disk; atomic flush takes every family.
func (d *DB) Flush() error {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	var handles []*grocksdb.ColumnFamilyHandle
	for _, f := range d.families {
		if !f.dropped {
			handles = append(handles, f.handle)
		}
	}
	return d.db.FlushCFs(handles, d.options.flush)
}

// IntProperty reads a numeric property of a family, such as rocksdb.estimate-num-keys.
func (d *DB) IntProperty(f *Family, name string) (uint64, error) {
	if err := d.enter(); err != nil {
		return 0, err
	}
	defer d.leave()
	n, ok := d.db.GetIntPropertyCF(name, f.handle)
	if !ok {
		return 0, fmt.Errorf("no property %s", name)
	}
	return n, nil
}

// Close frees the database and all it owns. Memtables reach the disk first.
func (d *DB) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	d.closed = true
	d.opened.Lock()
	scans, snapshots := d.scans, d.snapshots
	d.scans, d.snapshots = nil, nil
	d.opened.Unlock()
	for s := range scans {
		s.free()
	}
	for s := range snapshots {
		s.free()
	}
	d.free()
}

// free releases handles before the database, and options and cache after it.
func (d *DB) free() {
	for _, f := range d.families {
		f.handle.Destroy()
	}
	d.families = nil
	if d.db != nil {
		d.db.Close()
	}
	d.options.destroy()
	live.Add(-1)
}

func bytesPtr(b []byte) *C.char { return (*C.char)(unsafe.Pointer(unsafe.SliceData(b))) }

func takeError(c *C.char) error {
	defer C.rocksdb_free(unsafe.Pointer(c))
	return explain(errors.New(C.GoString(c)))
}

// explain says what to do about errors that RocksDB words for its own developers.
func explain(err error) error {
	switch text := err.Error(); {
	case strings.HasPrefix(text, "Corruption:"):
		return fmt.Errorf("%w: %s; delete the store's directory and restore it from the changelog", store.ErrCorrupt, text)
	case strings.Contains(text, "lock hold by current process"), strings.Contains(text, "While lock file"):
		return fmt.Errorf("the store is already open, here or in another process: %s", text)
	}
	return err
}
