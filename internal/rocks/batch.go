package rocks

// #cgo noescape fb_write
// #cgo nocallback fb_write
// #include "rocks.h"
import "C"

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"sync/atomic"
	"time"

	"github.com/linxGnu/grocksdb"

	"github.com/forebay-streams/forebay/store"
)

// Operations of RocksDB's write-ahead log, which is also the form in which a batch can be
// handed over. The second of each pair names its family.
const (
	opDelete, opDeleteIn           = 0x0, 0x4
	opPut, opPutIn                 = 0x1, 0x5
	opDeleteRange, opDeleteRangeIn = 0xf, 0xe
)

// batchHead is a sequence number, which the database fills in, and the count.
const batchHead = 8 + 4

// keepBatch bounds the buffer that is kept for the next batch, in bytes.
const keepBatch = 32 << 20

// spareBatch is that buffer: of all databases, as few write at the same time.
var spareBatch atomic.Pointer[[]byte]

// Batch collects operations that are written in one atomic step. They are laid out as
// RocksDB wants them, so that one crossing hands over all. It must be closed.
type Batch struct {
	db    *DB
	rep   []byte
	count uint32
	err   error
}

// NewBatch opens a batch. bytes is an estimate of what its keys and values will need.
func (d *DB) NewBatch(bytes int) *Batch {
	b := &Batch{db: d}
	if kept := spareBatch.Swap(nil); kept != nil {
		b.rep = *kept
	}
	if cap(b.rep) < batchHead+bytes {
		b.rep = make([]byte, 0, batchHead+bytes)
	}
	b.rep = append(b.rep[:0], make([]byte, batchHead)...)
	live.Add(1)
	return b
}

// PutRow adds a row in its layout. The row is no tombstone.
func (b *Batch) PutRow(f *Family, key []byte, layout store.Layout, row *store.Row) {
	if b.err != nil {
		return
	}
	b.head(opPut, opPutIn, f, key)
	// The length stands before the value, so its room is taken first, for a value that is
	// a little longer: a varint may be padded.
	width := varintWidth(row.Size() + rowExtra)
	at := len(b.rep)
	b.rep = append(b.rep, make([]byte, width)...)
	if b.rep, b.err = layout.Append(b.rep, *row); b.err != nil {
		return
	}
	n := len(b.rep) - at - width
	if varintWidth(n) > width { // never with the sizes rows have in memory
		b.err = fmt.Errorf("%w: the row's size was counted too small", errors.ErrUnsupported)
		return
	}
	for i := range width - 1 {
		b.rep[at+i] = byte(n) | 0x80
		n >>= 7
	}
	b.rep[at+width-1] = byte(n)
}

// rowExtra is what a layout adds to a row at most: size, count, timestamp.
const rowExtra = 5 + 5 + 8

func varintWidth(n int) int { return max((bits.Len(uint(n))+6)/7, 1) }

// Put adds a raw value.
func (b *Batch) Put(f *Family, key, value []byte) {
	b.head(opPut, opPutIn, f, key)
	b.bytes(value)
}

// Delete adds the removal of a key.
func (b *Batch) Delete(f *Family, key []byte) { b.head(opDelete, opDeleteIn, f, key) }

// DeleteRange adds the removal of all keys in [from, to).
func (b *Batch) DeleteRange(f *Family, from, to []byte) {
	b.head(opDeleteRange, opDeleteRangeIn, f, from)
	b.bytes(to)
}

func (b *Batch) head(op, in byte, f *Family, key []byte) {
	b.count++
	if f.id == 0 {
		b.rep = append(b.rep, op)
	} else {
		b.rep = binary.AppendUvarint(append(b.rep, in), uint64(f.id))
	}
	b.bytes(key)
}

func (b *Batch) bytes(p []byte) {
	b.rep = append(binary.AppendUvarint(b.rep, uint64(len(p))), p...)
}

// Write writes the batch. The first error of any of its operations shows here, and then
// nothing is written.
//
// Where RocksDB would wait because memtables are full, the wait is here: RocksDB's own
// keeps out the flush with which it recovers once a full disk has room again, so that the
// write would never end.
func (b *Batch) Write() error {
	if b.err != nil {
		return b.err
	}
	binary.LittleEndian.PutUint32(b.rep[8:], b.count)
	batch := grocksdb.WriteBatchFrom(b.rep)
	defer batch.Destroy()
	began := time.Now()
	for wait := minStall; ; wait = min(2*wait, maxStall) {
		stopped, err := b.db.write(batch)
		if !stopped {
			return err
		}
		if time.Since(began) > failedStall {
			if n, err := b.db.IntProperty(b.db.families[0], "rocksdb.background-errors"); err != nil || n > 0 {
				return errors.Join(fmt.Errorf("memtables are full, and writing them to disk failed; the file LOG in %s says why", b.db.dir), err)
			}
		}
		time.Sleep(wait)
	}
}

const (
	minStall = 100 * time.Microsecond
	maxStall = 10 * time.Millisecond
	// failedStall is how long a write waits for a database that has had background errors.
	failedStall = time.Second
)

// write writes a batch. Stopped: not before a flush or compaction has come to its end.
func (d *DB) write(batch *grocksdb.WriteBatch) (stopped bool, err error) {
	if err := d.enter(); err != nil {
		return false, err
	}
	defer d.leave()
	err = d.writeWith(d.options.write, batch)
	if err == nil || !strings.HasSuffix(err.Error(), "Write stall") {
		return false, err
	}
	if n, ok := d.db.GetIntProperty("rocksdb.is-write-stopped"); ok && n > 0 {
		return true, nil
	}
	// Only slowed down, which ends. Each try that does not wait would make it longer.
	return false, d.writeWith(d.options.slowWrite, batch)
}

func (d *DB) writeWith(o *grocksdb.WriteOptions, batch *grocksdb.WriteBatch) error {
	var e *C.char
	C.fb_write(d.c, (*C.rocksdb_writeoptions_t)(handle(o)), (*C.rocksdb_writebatch_t)(handle(batch)), &e)
	if e != nil {
		return takeError(e)
	}
	return nil
}

// Close frees the batch.
func (b *Batch) Close() {
	if cap(b.rep) <= keepBatch {
		rep := b.rep
		spareBatch.Store(&rep)
	}
	b.rep = nil
	live.Add(-1)
}
