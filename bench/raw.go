package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"

	"github.com/linxGnu/grocksdb"

	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

// database is RocksDB through the wrapper, with the options forebay opens it with.
type database struct {
	db      *grocksdb.DB
	cache   *grocksdb.Cache
	table   *grocksdb.BlockBasedTableOptions
	options *grocksdb.Options
	handles []*grocksdb.ColumnFamilyHandle
}

// openDatabase opens what is there, or makes it with the given families.
func openDatabase(dir string, c caches, families ...string) (*database, error) {
	d := &database{
		cache:   grocksdb.NewHyperClockCache(int(c.block), 0),
		table:   grocksdb.NewDefaultBlockBasedTableOptions(),
		options: grocksdb.NewDefaultOptions(),
	}
	d.table.SetBlockCache(d.cache)
	d.table.SetBlockSize(4096)
	d.table.SetFormatVersion(6)
	d.table.SetFilterPolicy(grocksdb.NewBloomFilterFull(10))
	o := d.options
	if there, err := grocksdb.ListColumnFamilies(o, dir); err == nil {
		families = there
	}
	o.SetCreateIfMissing(true)
	o.SetCreateIfMissingColumnFamilies(true)
	o.IncreaseParallelism(max(runtime.NumCPU(), 2))
	o.SetAtomicFlush(true)
	o.SetWriteBufferSize(16 << 20)
	o.SetMaxWriteBufferNumber(3)
	o.SetAllowMmapReads(c.mapped)
	o.SetCompactionStyle(grocksdb.UniversalCompactionStyle)
	o.SetCompression(grocksdb.NoCompression)
	o.SetBlockBasedTableFactory(d.table)
	all := make([]*grocksdb.Options, len(families))
	for i := range all {
		all[i] = o
	}
	var err error
	if d.db, d.handles, err = grocksdb.OpenDbColumnFamilies(o, dir, families, all); err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	return d, nil
}

func (d *database) close() error {
	for _, h := range d.handles {
		h.Destroy()
	}
	d.db.Close()
	d.options.Destroy()
	d.table.Destroy()
	d.cache.Destroy()
	return nil
}

// raw is a subject of one database.
type raw struct {
	*database
	rows    *grocksdb.ColumnFamilyHandle
	write   *grocksdb.WriteOptions
	read    *grocksdb.ReadOptions
	batch   *grocksdb.WriteBatch
	encoded [1024][]byte
	key     func(dst []byte, i int) []byte
	layout  store.Layout
	buffer  []byte
	perKey  bool // a range holds the rows of one key
}

func openRaw(dir, family string, rows int, c caches) (subject, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	r := &raw{layout: store.WithHeaders, key: appendKey}
	t := timedRows(rows)
	name := migration.HeadersFamily
	switch family {
	case "kv":
	case "windowed":
		r.perKey, r.key = true, func(dst []byte, i int) []byte {
			dst = binary.BigEndian.AppendUint64(appendKey(dst, t.owner(i)), uint64(t.time(i)))
			return append(dst, 0, 0, 0, 0)
		}
	case "session":
		r.layout, r.perKey, r.key = store.Aggregation, true, func(dst []byte, i int) []byte {
			dst = binary.BigEndian.AppendUint64(appendKey(dst, t.owner(i)), uint64(t.time(i)+1000))
			return binary.BigEndian.AppendUint64(dst, uint64(t.time(i)))
		}
	default:
		return nil, errors.ErrUnsupported
	}
	var err error
	if r.database, err = openDatabase(dir, c, "default", name, "offsets"); err != nil {
		return nil, err
	}
	r.rows = r.handles[1]
	r.write, r.read, r.batch = grocksdb.NewDefaultWriteOptions(), grocksdb.NewDefaultReadOptions(), grocksdb.NewWriteBatch()
	r.write.DisableWAL(true)
	for i := range r.encoded {
		if r.encoded[i], err = r.layout.Encode(store.Row{Value: value(i), Timestamp: startTime, Headers: rowHeaders}); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *raw) of(i int) []byte {
	r.buffer = r.key(r.buffer[:0], i)
	return r.buffer
}

func (r *raw) put(i int) error {
	r.batch.PutCF(r.rows, r.of(i), r.encoded[i&1023])
	return nil
}

func (r *raw) commit() error {
	defer r.batch.Clear()
	return r.db.Write(r.write, r.batch)
}

func (r *raw) close() error {
	flush := grocksdb.NewDefaultFlushOptions()
	defer flush.Destroy()
	err := r.db.FlushCFs(r.handles, flush)
	r.batch.Destroy()
	r.write.Destroy()
	r.read.Destroy()
	return errors.Join(err, r.database.close())
}

func (r *raw) get(i int) (bool, error) {
	v, err := r.db.GetCF(r.read, r.rows, r.of(i))
	if err != nil {
		return false, err
	}
	defer v.Free()
	if !v.Exists() {
		return false, nil
	}
	_, err = r.layout.Decode(v.Data())
	return true, err
}

func (r *raw) header(i int) (bool, error) {
	v, err := r.db.GetCF(r.read, r.rows, r.of(i))
	if err != nil {
		return false, err
	}
	defer v.Free()
	row, err := r.layout.Decode(v.Data())
	if err != nil {
		return false, err
	}
	_, ok := row.Headers.Last("tenant")
	return ok, nil
}

func (r *raw) walk(from []byte, most int, prefix int) (rows int, err error) {
	it := r.db.NewIteratorCF(r.read, r.rows)
	defer it.Close()
	if from == nil {
		it.SeekToFirst()
	} else {
		it.Seek(from)
	}
	for ; it.Valid() && rows != most; it.Next() {
		k, v := it.Key(), it.Value()
		if prefix > 0 && string(k.Data()[:prefix]) != string(from[:prefix]) {
			break
		}
		if _, err := r.layout.Decode(v.Data()); err != nil {
			return rows, err
		}
		k.Free()
		v.Free()
		rows++
	}
	return rows, it.Err()
}

func (r *raw) rangeFrom(i int) (int, error) {
	if r.perKey {
		return r.walk(r.of(i)[:16], math.MaxInt, 16)
	}
	return r.walk(r.of(i), 100, 0)
}

func (r *raw) scan() (int, error) { return r.walk(nil, math.MaxInt, 0) }
