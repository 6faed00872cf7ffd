package rocks

// #include "rocks.h"
import "C"

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/linxGnu/grocksdb"

	"github.com/forebay-streams/forebay/store"
)

// packBytes is how many bytes of operations one crossing carries.
const packBytes = 64 << 10

const (
	opDelete = 0
	opPut    = 1
	opHead   = 10
)

// Batch collects operations that are written in one atomic step. It must be closed.
type Batch struct {
	db    *DB
	batch *grocksdb.WriteBatch
	c     *C.rocksdb_writebatch_t
	ops   []byte
	err   error
}

// NewBatch opens a batch.
func (d *DB) NewBatch() *Batch {
	b := &Batch{db: d, batch: grocksdb.NewWriteBatch()}
	b.c = (*C.rocksdb_writebatch_t)(handle(b.batch))
	live.Add(1)
	return b
}

// PutRow adds a row in its layout. The row is no tombstone.
func (b *Batch) PutRow(f *Family, key []byte, layout store.Layout, row *store.Row) {
	if b.err != nil {
		return
	}
	start := b.head(opPut, f, key)
	value := len(b.ops)
	if b.ops, b.err = layout.Append(b.ops, *row); b.err != nil {
		return
	}
	b.finish(start, value)
}

// Put adds a raw value.
func (b *Batch) Put(f *Family, key, value []byte) {
	if b.err != nil {
		return
	}
	start := b.head(opPut, f, key)
	at := len(b.ops)
	b.ops = append(b.ops, value...)
	b.finish(start, at)
}

// finish fills in the length of the value that begins at value.
func (b *Batch) finish(start, value int) {
	binary.NativeEndian.PutUint32(b.ops[start+6:], uint32(len(b.ops)-value))
	b.send(packBytes)
}

// Delete adds the removal of a key.
func (b *Batch) Delete(f *Family, key []byte) {
	if b.err != nil {
		return
	}
	b.head(opDelete, f, key)
	b.send(packBytes)
}

func (b *Batch) head(op byte, f *Family, key []byte) (start int) {
	start = len(b.ops)
	b.ops = append(b.ops, op, byte(f.index))
	b.ops = binary.NativeEndian.AppendUint32(b.ops, uint32(len(key)))
	b.ops = binary.NativeEndian.AppendUint32(b.ops, 0)
	b.ops = append(b.ops, key...)
	return start
}

// send hands the packed operations over once there are more than limit bytes of them.
func (b *Batch) send(limit int) {
	if len(b.ops) <= limit || b.db.enter() != nil {
		return
	}
	defer b.db.leave()
	C.fb_batch_append(b.c, &b.db.byIndex[0], bytesPtr(b.ops), C.size_t(len(b.ops)))
	b.ops = b.ops[:0]
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
	b.send(0)
	began := time.Now()
	for wait := minStall; ; wait = min(2*wait, maxStall) {
		stopped, err := b.db.write(b.batch)
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
	err = d.db.Write(d.options.write, batch)
	if err == nil || !strings.HasSuffix(err.Error(), "Write stall") {
		return false, err
	}
	if n, ok := d.db.GetIntProperty("rocksdb.is-write-stopped"); ok && n > 0 {
		return true, nil
	}
	// Only slowed down, which ends. Each try that does not wait would make it longer.
	return false, d.db.Write(d.options.slowWrite, batch)
}

// Close frees the batch.
func (b *Batch) Close() {
	b.batch.Destroy()
	live.Add(-1)
}
