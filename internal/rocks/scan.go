package rocks

// #cgo noescape fb_scan_fill
// #cgo nocallback fb_scan_fill
// #include "rocks.h"
import "C"

import (
	"encoding/binary"
	"sync"

	"github.com/linxGnu/grocksdb"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/store"
)

// A scan asks for few rows at first, since many scans stop early, and for more with
// each crossing, but for no more than stays in the processor's first cache until it is read.
const (
	firstFill = 4
	maxFill   = 96
	fillBytes = 32 << 10
	// keepFill bounds the buffers that are kept for later scans.
	keepFill = 256 << 10
)

// Scan walks over the raw rows of one family as they were when it was opened. It is for
// one goroutine. Keys and values borrow its buffer until the next step.
type Scan struct {
	db         *DB
	mu         sync.Mutex // Close of the database may come from another goroutine
	c          *C.fb_scan
	err        error
	buf        []byte // what the last crossing brought
	pooled     *[]byte
	rest       []byte
	ask        int
	done       bool
	key, value []byte
}

var buffers = sync.Pool{New: func() any { b := make([]byte, fillBytes); return &b }}

// Scan opens a scan. An error shows at the first step.
func (d *DB) Scan(f *Family, span base.Span) *Scan {
	if err := d.enter(); err != nil {
		return &Scan{db: d, err: err}
	}
	defer d.leave()
	return d.scan(f, nil, span)
}

// scan is called within enter and leave.
func (d *DB) scan(f *Family, snapshot *C.rocksdb_snapshot_t, span base.Span) *Scan {
	lower, upper := span.From, span.Upper()
	return d.opens(C.fb_scan_open(d.c, f.c, snapshot, bound(lower), C.size_t(len(lower)), bound(upper), C.size_t(len(upper)), flag(span.Reverse), flag(d.fills(span, f))))
}

// ScanPair opens scans of the same span over two families as they are at one moment.
func (d *DB) ScanPair(first, second *Family, span base.Span) (*Scan, *Scan) {
	fail := func(err error) (*Scan, *Scan) { return &Scan{db: d, err: err}, &Scan{db: d, err: err} }
	if err := d.enter(); err != nil {
		return fail(err)
	}
	defer d.leave()
	lower, upper := span.From, span.Upper()
	var scans [2]*C.fb_scan
	var e *C.char
	C.fb_scan_open_pair(d.c, first.c, second.c, bound(lower), C.size_t(len(lower)), bound(upper), C.size_t(len(upper)), flag(span.Reverse), flag(d.fills(span, first, second)), &scans[0], &e)
	if e != nil {
		return fail(takeError(e))
	}
	return d.opens(scans[0]), d.opens(scans[1])
}

// opens registers a scan, for Close of the database.
func (d *DB) opens(c *C.fb_scan) *Scan {
	s := &Scan{db: d, c: c, ask: firstFill}
	live.Add(1)
	d.opened.Lock()
	d.scans[s] = struct{}{}
	d.opened.Unlock()
	return s
}

// fills tells whether a scan puts the blocks it reads into the cache. One over all rows does
// not when they are more than the database's share of it: it would drive out what look-ups
// use, to keep what the next scan has driven out again before it comes there.
func (d *DB) fills(span base.Span, families ...*Family) bool {
	if span.From != nil || span.To != nil {
		return true
	}
	size := uint64(0)
	for _, f := range families {
		n, _ := d.db.GetIntPropertyCF(liveFiles, f.handle) // 0 if there were none: of no harm
		size += n
	}
	return size <= d.options.shared.share()
}

const liveFiles = "rocksdb.live-sst-files-size"

func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

// bound makes a nil bound NULL, and an empty one not.
func bound(b []byte) *C.char {
	if b == nil {
		return nil
	}
	if len(b) == 0 {
		return bytesPtr([]byte{0})
	}
	return bytesPtr(b)
}

// Next moves to the next row; false at the end or after an error.
func (s *Scan) Next() (ok bool) {
	s.key, s.value, ok = s.Step()
	return ok
}

// Step is Next, Key and Value in one; Key and Value do not know of it.
func (s *Scan) Step() (key, value []byte, ok bool) {
	if len(s.rest) == 0 && !s.fill() {
		return nil, nil, false
	}
	r := s.rest
	k := 8 + int(binary.NativeEndian.Uint32(r))
	v := k + int(binary.NativeEndian.Uint32(r[4:]))
	s.rest = r[v:]
	return r[8:k:k], r[k:v:v], true
}

func (s *Scan) fill() bool {
	if s.done || s.err != nil {
		return false
	}
	if s.err = s.db.enter(); s.err != nil {
		return false
	}
	defer s.db.leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c == nil {
		s.err = store.ErrClosed
		return false
	}
	if s.buf == nil {
		s.pooled = buffers.Get().(*[]byte)
		s.buf = *s.pooled
	}
	poison(s.buf)
	for {
		r := C.fb_scan_fill(s.c, bytesPtr(s.buf), C.size_t(len(s.buf)), C.size_t(s.ask))
		if r.err != nil {
			s.err = takeError(r.err)
			return false
		}
		s.done = r.done != 0
		if r.need > 0 {
			s.buf = make([]byte, int(r.need))
			continue
		}
		s.ask = min(2*s.ask, maxFill)
		s.rest = s.buf[:r.used]
		return r.rows > 0
	}
}

// Key and Value are those of the current row.
func (s *Scan) Key() []byte   { return s.key }
func (s *Scan) Value() []byte { return s.value }

// Err is what ended the scan early, nil at a regular end.
func (s *Scan) Err() error { return s.err }

// Close frees the scan; calling it again does nothing.
func (s *Scan) Close() {
	if s.db.enter() == nil {
		s.db.opened.Lock()
		delete(s.db.scans, s)
		s.db.opened.Unlock()
		s.free()
		s.db.leave()
	} // else the database's Close has freed it
	if s.buf != nil {
		poison(s.buf)
		if len(s.buf) <= keepFill {
			*s.pooled = s.buf
			buffers.Put(s.pooled)
		}
	}
	if s.err == nil && (!s.done || len(s.rest) > 0) {
		s.err = store.ErrClosed
	}
	s.pooled, s.buf, s.rest, s.key, s.value = nil, nil, nil, nil, nil
}

func (s *Scan) free() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c != nil {
		C.fb_scan_close(s.c)
		s.c = nil
		live.Add(-1)
	}
}

// Snapshot sees the database as it was, until Close. Any goroutine may read from it.
type Snapshot struct {
	db   *DB
	mu   sync.RWMutex
	s    *grocksdb.Snapshot
	c    *C.rocksdb_snapshot_t
	opts *grocksdb.ReadOptions
	read *C.rocksdb_readoptions_t
}

// Snapshot takes one.
func (d *DB) Snapshot() (*Snapshot, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	s := &Snapshot{db: d, s: d.db.NewSnapshot(), opts: grocksdb.NewDefaultReadOptions()}
	s.c = (*C.rocksdb_snapshot_t)(handle(s.s))
	s.opts.SetSnapshot(s.s)
	s.read = (*C.rocksdb_readoptions_t)(handle(s.opts))
	live.Add(1)
	d.opened.Lock()
	d.snapshots[s] = struct{}{}
	d.opened.Unlock()
	return s, nil
}

// Get is [DB.Get] at the snapshot.
func (s *Snapshot) Get(f *Family, key []byte, scratch *[]byte) ([]byte, bool, error) {
	if err := s.db.enter(); err != nil {
		return nil, false, err
	}
	defer s.db.leave()
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.s == nil {
		return nil, false, store.ErrClosed
	}
	return s.db.get(s.read, f, key, scratch)
}

// Scan is [DB.Scan] at the snapshot, which may be closed before the scan.
func (s *Snapshot) Scan(f *Family, span base.Span) *Scan {
	if err := s.db.enter(); err != nil {
		return &Scan{db: s.db, err: err}
	}
	defer s.db.leave()
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.s == nil {
		return &Scan{db: s.db, err: store.ErrClosed}
	}
	return s.db.scan(f, s.c, span)
}

// Close releases the snapshot; calling it again does nothing.
func (s *Snapshot) Close() {
	if s.db.enter() != nil {
		return // the database's Close has freed it
	}
	defer s.db.leave()
	s.db.opened.Lock()
	delete(s.db.snapshots, s)
	s.db.opened.Unlock()
	s.free()
}

func (s *Snapshot) free() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.s != nil {
		s.db.db.ReleaseSnapshot(s.s)
		s.opts.Destroy()
		s.s = nil
		live.Add(-1)
	}
}
