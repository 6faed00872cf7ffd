package buffer

import (
	"context"
	"errors"
	"math"
	"path/filepath"

	"github.com/forebay-streams/forebay/dsl/internal/wire"
	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/family"
	"github.com/forebay-streams/forebay/internal/memory"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

// Delayed is the buffer of a stream-table join with a grace period: records that wait until
// stream time has passed them by that period. It lies in RocksDB, in the directory of Kafka
// Streams' buffer, or in memory. One goroutine owns it.
//
// A record's number, which tells those of one key and time apart, begins anew when the
// buffer is opened, as in Kafka Streams: a record may then replace an older one.
type Delayed struct {
	family.Shell
	core *family.Core
	log  store.Changelog

	number            int32
	stream, committed int64 // stream time, now and at the last commit
	// first is at most the time of the row that is next: no row lies before it.
	first int64
}

// DelayedConfig is what a buffer of delayed records is opened with.
type DelayedConfig struct {
	Config
	Dir    string // the task's
	Memory bool
	Budget *store.Budget
}

// OpenDelayed opens or makes the buffer. Errors are those of a key-value store.
func OpenDelayed(c DelayedConfig) (*Delayed, error) {
	f := family.NewConfig(c.Dir, c.Name)
	f.Layout, f.Memory, f.Log, f.Budget = store.Plain, c.Memory, c.Log, c.Budget
	f.Topic, f.Partition = c.Topic, c.Partition
	table, err := delayedTable(c, &f)
	if err != nil {
		return nil, err
	}
	d := &Delayed{log: c.Log, core: family.NewSegmented(c.Name, f, table, family.Segments{})}
	d.Shell = d.core.Shell()
	if err := d.look(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func delayedTable(c DelayedConfig, f *family.Config) (base.Table, error) {
	if err := f.Check(c.Dir, c.Name); err != nil {
		return nil, &store.Error{Store: c.Name, Op: "open", Err: err}
	}
	if c.Memory {
		return memory.New(store.Plain), nil
	}
	formats, err := migration.KeyValueFormats(store.Plain)
	if err != nil {
		return nil, &store.Error{Store: c.Name, Op: "open", Err: err}
	}
	return migration.Open(migration.Config{
		Dir: filepath.Join(c.Dir, c.Name, c.Name+".0"), Store: c.Name, Formats: formats,
		ChangelogTopic: c.Topic, Partition: c.Partition, TaskDir: c.Dir, Budget: c.Budget,
	})
}

// look finds the times of the first and the last row.
func (d *Delayed) look() error {
	d.stream, d.first = -1, math.MaxInt64
	last := d.core.Overlay.Scan(base.Span{Reverse: true})
	defer last.Close()
	if last.Next() {
		key, err := wire.ParseDelayedKey(last.Key())
		if err != nil {
			return d.core.Fail("open", err)
		}
		d.stream, d.first = key.Start, 0
	}
	d.committed = d.stream
	return last.Err()
}

// StreamTime is the largest time that was buffered, -1 before there is one. After a restart
// only rows that still wait count.
func (d *Delayed) StreamTime() int64 { return d.stream }

// Put makes a record wait. Its context has the time.
func (d *Delayed) Put(key, value []byte, record store.Record) error {
	return d.core.Do("put", func() error {
		logged, err := wire.EncodeDelayed(wire.Delayed{Context: record, Value: value})
		if err != nil {
			return err
		}
		local, err := wire.LocalDelayed(logged)
		if err != nil {
			return err
		}
		number := (d.number + 1) & math.MaxInt32
		at := wire.AppendDelayedKey(nil, wire.DelayedKey{Key: key, Start: record.Timestamp, Seq: number})
		if err := d.write(at, logged, local, record); err != nil {
			return err
		}
		d.number = number
		d.stream, d.first = max(d.stream, record.Timestamp), min(d.first, record.Timestamp)
		return nil
	})
}

// write logs a row, or its removal, and stages it: the changelog has another value.
func (d *Delayed) write(key, logged, local []byte, record store.Record) error {
	if d.log != nil {
		if err := d.log.Append(store.Change{Key: key, Row: store.Row{Value: logged, Timestamp: store.NoTimestamp}}); err != nil {
			return err
		}
	}
	d.core.Overlay.Stage([]store.Change{{Key: key, Row: store.Row{Value: local, Timestamp: store.NoTimestamp}}}, &record)
	return nil
}

// Evict hands the records up to a time to emit, in the order of time, key and number, and
// removes each once emit has returned. An error of emit ends it.
func (d *Delayed) Evict(until int64, emit func(key []byte, row wire.Delayed) error) error {
	if until < d.first {
		return nil
	}
	return d.core.Do("evict", func() error {
		due, err := d.due(until)
		if err != nil {
			return err
		}
		for _, c := range due {
			key, err := wire.ParseDelayedKey(c.Key)
			if err != nil {
				return err
			}
			row, err := wire.DecodeDelayed(c.Value)
			if err != nil {
				return err
			}
			if err := emit(key.Key, row); err != nil {
				return err
			}
			if err := d.write(c.Key, nil, nil, row.Context); err != nil {
				return err
			}
		}
		d.first = until
		return nil
	})
}

// due returns the rows up to a time. There are none before first.
func (d *Delayed) due(until int64) (due []store.Change, err error) {
	span := base.Span{From: delayedFrom(d.first), Exclusive: true}
	if until < math.MaxInt64 {
		span.To = delayedFrom(until + 1)
	}
	scan := d.core.Overlay.Scan(span)
	defer scan.Close()
	for scan.Next() {
		due = append(due, store.Change{Key: scan.Key(), Row: *scan.Row()}.Clone())
	}
	return due, scan.Err()
}

// delayedFrom is the bound before the rows of a time.
func delayedFrom(time int64) []byte {
	return wire.AppendDelayedKey(nil, wire.DelayedKey{Start: max(time, 0)})[:1+8]
}

// Commit is that of every store.
func (d *Delayed) Commit(ctx context.Context) error {
	if err := d.Shell.Commit(ctx); err != nil {
		return err
	}
	d.committed = d.stream
	return nil
}

// Abort drops everything since the last commit. It does not take back what was logged.
func (d *Delayed) Abort() {
	d.Shell.Abort()
	d.stream, d.first = d.committed, 0
}

// RestoreBatch applies changes of the changelog in one atomic write.
func (d *Delayed) RestoreBatch(changes []store.Change, offset int64) error {
	return d.core.Do("restore", func() error {
		rows := make([]store.Change, len(changes))
		stream := d.stream
		for i, c := range changes {
			key, err := wire.ParseDelayedKey(c.Key)
			if err != nil {
				return store.Locate(err, d.core.Name, "", c.Key)
			}
			if !c.Tombstone() {
				if c.Value, err = wire.LocalDelayed(c.Value); err != nil {
					return store.Locate(err, d.core.Name, "", c.Key)
				}
				stream = max(stream, key.Start)
			}
			rows[i] = store.Change{Key: c.Key, Row: store.Row{Value: c.Value, Timestamp: store.NoTimestamp}}
		}
		if err := d.core.Overlay.Restore(rows, offset); err != nil {
			return err
		}
		d.stream, d.committed, d.first = stream, stream, 0
		return nil
	})
}

// Wipe empties the buffer.
func (d *Delayed) Wipe() error {
	d.stream, d.committed, d.first = -1, -1, math.MaxInt64
	return d.Shell.Wipe()
}
