// Package migration sees the column families of one database as one table. A database
// written by a store of an older format keeps its rows where they are: the table reads
// both families, writes the new one, and a key moves with its next write.
package migration

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/failpoint"
	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/internal/versions"
	"github.com/forebay-streams/forebay/store"
)

// Keys of the offsets family beside the changelog offsets (KIP-1035).
const (
	statusKey   = "status"
	positionKey = "position"
)

// statusClosed is what Kafka Streams stores at a clean close; anything else means that
// it may have left uncommitted rows. forebay never does, so it never writes the key.
const statusClosed = 0

// Config says what a table opens.
type Config struct {
	// Dir is the directory of the database.
	Dir string
	// Store is the store's name, for messages.
	Store string
	// Formats: see KeyValueFormats.
	Formats []Format
	// Vet looks into a directory before anything in it changes; its error refuses it. Nil:
	// nothing is looked for.
	Vet func(Unopened) error
	// ChangelogTopic and Partition name the changelog offset.
	ChangelogTopic string
	Partition      int32
	// TaskDir holds the files that Kafka Streams before 4.3 kept beside its stores; empty:
	// none are looked for.
	TaskDir string
	// ExactlyOnce refuses a directory that may hold uncommitted rows of Kafka Streams.
	ExactlyOnce bool
	// Budget shares a block cache among databases; nil: one of its own.
	Budget *store.Budget
	// BulkBytes is the size of a run of a bulk load, of which two are in memory, 1 GiB at most;
	// 0 or less: 64 MiB, and less when other loads are under way.
	BulkBytes int
}

// Table is the table of a RocksDB store: it implements the contract between the
// overlay and committed rows. Only the owner commits; any goroutine may read.
type Table struct {
	config Config
	state  atomic.Pointer[state] // replaced by Wipe only
	closed bool                  // the owner's

	mu         sync.Mutex // guards checkpoint
	checkpoint base.Checkpoint
	known      bool

	moves     atomic.Int64 // counts begins and ends of moves from the legacy family: odd while one is under way
	drainFrom []byte       // behind the last drained key; the owner's
	bulk      *bulk        // nil: none; the owner's
	torn      error        // why rows have no offset: nothing more is committed
	counters  counters
}

var _ base.Table = (*Table)(nil)

// state is one opened database.
type state struct {
	db      *rocks.DB
	rows    source
	legacy  *source // nil in single mode
	offsets *rocks.Family
}

// source is a family with its layout.
type source struct {
	store  string
	family *rocks.Family
	layout store.Layout
	index  *Index

	versions bool         // see Format
	to       store.Layout // of the versions in rows that are read
}

func newSource(name string, db *rocks.DB, f, target Format) source {
	return source{name, db.Family(f.Family), f.Layout, f.Index, f.Versions, target.Layout}
}

// decode sets every field of row.
func (s *source) decode(key, b []byte, row *store.Row) (err error) {
	switch {
	case s.index.Has(key):
		err = s.index.decode(b, row)
	case s.versions && s.layout == s.to:
		*row = store.Row{Value: b, Timestamp: store.NoTimestamp}
	case s.versions:
		*row = store.Row{Timestamp: store.NoTimestamp}
		row.Value, err = versions.Convert(nil, s.layout, s.to, key, b)
	default:
		err = s.layout.DecodeBorrowed(b, row)
	}
	if err != nil {
		err = store.Locate(err, s.store, s.family.Name, key)
	}
	return err
}

// Open opens the table, or says with a remedy why the directory cannot be opened. A
// directory that it refuses keeps every file as it was.
func Open(c Config) (*Table, error) {
	v, err := Vet(c)
	if err != nil {
		return nil, err
	}
	return v.Open()
}

// Vetted is a directory that can be opened, as far as a look at it tells.
type Vetted struct {
	table  *Table
	plan   plan
	listed []string
	half   bool // see halfLoaded
}

// Vet looks for what forbids to open a directory, and changes no file of it.
func Vet(c Config) (*Vetted, error) {
	v := &Vetted{table: &Table{config: c}}
	if err := v.vet(); err != nil {
		return nil, &store.Error{Store: c.Store, Op: "open", Err: err}
	}
	return v, nil
}

// Moved says where the directory is now.
func (v *Vetted) Moved(dir string) { v.table.config.Dir = dir }

// Open opens the table.
func (v *Vetted) Open() (*Table, error) {
	if err := v.open(); err != nil {
		return nil, &store.Error{Store: v.table.config.Store, Op: "open", Err: err}
	}
	return v.table, nil
}

func (v *Vetted) vet() (err error) {
	c := v.table.config
	if v.half, err = halfLoaded(c.Dir); err != nil {
		return err
	}
	if v.listed = nil; !v.half { // else it will be emptied
		if v.listed, err = rocks.List(c.Dir); err != nil {
			return err
		}
	}
	if v.plan, err = newPlan(c.Formats, v.listed); err != nil {
		return err
	}
	if _, _, err := v.table.readFiles(); err != nil || len(v.listed) == 0 {
		return err
	}
	return readOnly(c.Dir, v.listed, func(db *rocks.DB) error {
		if len(v.plan.legacy) > 1 {
			if err := refuseTwoSources(db, v.plan.legacy); err != nil {
				return err
			}
		}
		if c.Vet != nil {
			if err := c.Vet(Unopened{db}); err != nil {
				return err
			}
		}
		if offsets := db.Family(rocks.Offsets); offsets != nil {
			return v.table.load(&state{db: db, offsets: offsets})
		}
		return nil
	})
}

func (v *Vetted) open() (err error) {
	// Its load has come to an end, or begun, since it was looked at.
	if half, err := halfLoaded(v.table.config.Dir); err != nil || half != v.half {
		if err = errors.Join(err, v.vet()); err != nil {
			return err
		}
	}
	t, c, p := v.table, v.table.config, v.plan
	if v.half {
		if err := t.emptyHalfLoaded(); err != nil {
			return err
		}
	}
	db, err := rocks.Open(c.Dir, p.wanted, v.listed, c.Budget)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			db.Close()
		}
	}()
	// What a crash has left of a bulk load goes when the database is locked: not while another
	// table loads.
	if err := os.RemoveAll(filepath.Join(c.Dir, bulkDir)); err != nil {
		return err
	}
	target := c.Formats[len(c.Formats)-1]
	s := &state{db: db, offsets: db.Family(rocks.Offsets)}
	s.rows = newSource(c.Store, db, target, target)
	for _, f := range p.legacy {
		family := db.Family(f.Family)
		full, err := hasData(db, family)
		if err != nil {
			return err
		}
		if full {
			legacy := newSource(c.Store, db, f, target)
			s.legacy = &legacy
		} else if f.Family != rocks.Default {
			if err := db.Drop(family); err != nil {
				return err
			}
		}
	}
	if err := t.load(s); err != nil {
		return err
	}
	if err := t.adoptFiles(s); err != nil {
		return err
	}
	t.state.Store(s)
	return nil
}

// refuseTwoSources fails when plain and timestamped rows lie side by side.
func refuseTwoSources(db *rocks.DB, legacy []Format) error {
	full, err := hasData(db, db.Family(legacy[0].Family))
	if err != nil || !full {
		return err
	}
	return fmt.Errorf("%w: it holds plain and timestamped rows, and only one older format can be upgraded; open it once as a timestamped store and let it migrate, or delete the local state and restore it from the changelog",
		store.ErrIncompatible)
}

// readOnly looks into a database without changing a file of its directory.
func readOnly(dir string, listed []string, look func(*rocks.DB) error) error {
	logs, err := os.MkdirTemp("", "forebay-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(logs)
	db, err := rocks.OpenReadOnly(dir, listed, logs)
	if err != nil {
		return err
	}
	defer db.Close()
	return look(db)
}

func hasData(db *rocks.DB, f *rocks.Family) (bool, error) {
	scan := db.Scan(f, base.Span{})
	defer scan.Close()
	return scan.Next(), scan.Err()
}

// load reads the offsets family.
func (t *Table) load(s *state) error {
	var scratch []byte
	status, ok, err := readLong(s, t.config.Store, statusKey, &scratch)
	if err != nil {
		return err
	}
	if ok && status != statusClosed && t.config.ExactlyOnce {
		return fmt.Errorf("%w: its last writer did not close it and may have left uncommitted rows; delete the store's directory and restore it from the changelog", store.ErrTaskCorrupted)
	}
	offset, known, err := readLong(s, t.config.Store, t.offsetKey(), &scratch)
	if err != nil {
		return err
	}
	c := base.Checkpoint{Offset: store.UnknownOffset}
	if known {
		c.Offset = offset
	}
	b, ok, err := s.db.Get(s.offsets, []byte(positionKey), &scratch)
	if err != nil {
		return err
	}
	if ok {
		if c.Position, err = store.DecodePosition(b); err != nil {
			return store.Locate(err, t.config.Store, rocks.Offsets, []byte(positionKey))
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.checkpoint, t.known = c, known && offset != store.UnknownOffset
	return nil
}

func readLong(s *state, storeName, key string, scratch *[]byte) (int64, bool, error) {
	b, ok, err := s.db.Get(s.offsets, []byte(key), scratch)
	if err != nil || !ok {
		return 0, false, err
	}
	if len(b) != 8 {
		return 0, false, store.Locate(&store.CorruptError{Reason: "long_size"}, storeName, rocks.Offsets, []byte(key))
	}
	return int64(binary.BigEndian.Uint64(b)), true, nil
}

func (t *Table) offsetKey() string {
	return fmt.Sprintf("%s-%d", t.config.ChangelogTopic, t.config.Partition)
}

// HasLegacy tells whether rows of an older format are left in a span.
func (t *Table) HasLegacy(span base.Span) (bool, error) {
	s := t.state.Load()
	if s.legacy == nil {
		return false, nil
	}
	scan := s.db.Scan(s.legacy.family, span)
	defer scan.Close()
	return scan.Next(), scan.Err()
}

// Migrating tells whether rows of an older format are left.
func (t *Table) Migrating() bool { return t.state.Load().legacy != nil }

// getter is what a database and a snapshot of it have in common.
type getter interface {
	Get(f *rocks.Family, key []byte, scratch *[]byte) ([]byte, bool, error)
	Scan(f *rocks.Family, span base.Span) *rocks.Scan
}

func (s *source) get(g getter, key []byte, scratch *[]byte) (store.Row, bool, error) {
	b, ok, err := g.Get(s.family, key, scratch)
	if err != nil || !ok {
		return store.Row{}, false, err
	}
	var row store.Row
	err = s.decode(key, b, &row)
	return row, err == nil, err
}

// Get reads a row; the result borrows scratch.
func (t *Table) Get(key []byte, scratch *[]byte) (store.Row, bool, error) {
	s := t.state.Load()
	moves := t.moves.Load()
	row, ok, err := s.rows.get(s.db, key, scratch)
	if ok || err != nil || s.legacy == nil {
		return row, ok, err
	}
	t.counters.legacyLookups.Add(1)
	if row, ok, err = s.legacy.get(s.db, key, scratch); ok || err != nil {
		t.counters.legacyReads.Add(1)
		return row, ok, err
	}
	if moves%2 == 0 && t.moves.Load() == moves {
		return row, false, nil
	}
	// A commit or a drain may have moved the key between the two look-ups of a foreign reader.
	return s.rows.get(s.db, key, scratch)
}

func (s *state) get(g getter, key []byte, scratch *[]byte) (store.Row, bool, error) {
	row, ok, err := s.rows.get(g, key, scratch)
	if ok || err != nil || s.legacy == nil {
		return row, ok, err
	}
	return s.legacy.get(g, key, scratch)
}

// Scan walks over the rows of both families as they are now.
func (t *Table) Scan(span base.Span) base.Cursor {
	s := t.state.Load()
	if s.legacy == nil {
		return s.rows.cursor(s.db, span)
	}
	// Two scans opened one after the other could miss a key that moves in between.
	rows, legacy := s.db.ScanPair(s.rows.family, s.legacy.family, span)
	return base.Merge(&cursor{source: &s.rows, scan: rows}, &cursor{source: s.legacy, scan: legacy}, span.Reverse)
}

func (s *state) scan(g getter, span base.Span) base.Cursor {
	rows := s.rows.cursor(g, span)
	if s.legacy == nil {
		return rows
	}
	return base.Merge(rows, s.legacy.cursor(g, span), span.Reverse)
}

// Snapshot fixes the table as it is now.
func (t *Table) Snapshot() (base.Snapshot, error) {
	s := t.state.Load()
	snapshot, err := s.db.Snapshot()
	if err != nil {
		return nil, err
	}
	return &tableSnapshot{s, snapshot}, nil
}

type tableSnapshot struct {
	state    *state
	snapshot *rocks.Snapshot
}

func (s *tableSnapshot) Get(key []byte, scratch *[]byte) (store.Row, bool, error) {
	return s.state.get(s.snapshot, key, scratch)
}

func (s *tableSnapshot) Scan(span base.Span) base.Cursor { return s.state.scan(s.snapshot, span) }

func (s *tableSnapshot) Close() { s.snapshot.Close() }

// Checkpoint is that of the last commit.
func (t *Table) Checkpoint() (base.Checkpoint, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.checkpoint
	c.Position = c.Position.Clone()
	return c, t.known
}

// Commit writes rows, deletes of legacy copies, changelog offset and position in one
// batch.
func (t *Table) Commit(changes []store.Change, c base.Checkpoint) error {
	return t.CommitAlso(changes, c, base.Also{})
}

// changeExtra is about what a batch needs beside the bytes of a row and its key.
const changeExtra = 32

// CommitAlso drops a span in both families first, and writes notes too.
func (t *Table) CommitAlso(changes []store.Change, c base.Checkpoint, also base.Also) error {
	switch {
	case t.bulk != nil:
		return errors.New("the store is being restored in bulk: EndBulk comes first")
	case t.torn != nil:
		return fmt.Errorf("%w: rows of a restore joined the store without their offset (%w); close the store and open it again, which empties it", store.ErrFailed, t.torn)
	}
	return t.commit(changes, c, also)
}

func (t *Table) commit(changes []store.Change, c base.Checkpoint, also base.Also) error {
	s := t.state.Load()
	bytes := 0
	for i := range changes {
		bytes += len(changes[i].Key) + changes[i].Row.Size() + changeExtra
	}
	batch := s.db.NewBatch(bytes)
	defer batch.Close()
	if also.Drop != nil {
		batch.DeleteRange(s.rows.family, also.Drop.From, also.Drop.To)
		if s.legacy != nil {
			batch.DeleteRange(s.legacy.family, also.Drop.From, also.Drop.To)
		}
	}
	moved := int64(0)
	for i := range changes {
		key, row := changes[i].Key, &changes[i].Row
		if s.legacy != nil {
			// Asked first: a blind delete for every new key would fill the legacy family with
			// tombstones. Only the owner writes, so the answer holds.
			old, err := s.db.Has(s.legacy.family, key)
			if err != nil {
				return err
			}
			if old {
				batch.Delete(s.legacy.family, key)
				moved++
			}
		}
		if row.Tombstone() {
			batch.Delete(s.rows.family, key)
			continue
		}
		if s.rows.index.Has(key) {
			value, err := s.rows.index.encode(row)
			if err != nil {
				return err
			}
			batch.Put(s.rows.family, key, value)
			continue
		}
		if s.rows.versions {
			batch.Put(s.rows.family, key, row.Value)
			continue
		}
		batch.PutRow(s.rows.family, key, s.rows.layout, row)
	}
	if c.Logged {
		batch.Put(s.offsets, []byte(t.offsetKey()), binary.BigEndian.AppendUint64(nil, uint64(c.Offset)))
	} else if err := s.forgetOffsets(batch); err != nil {
		return err
	}
	for _, n := range also.Notes {
		batch.Put(s.offsets, []byte(n.Key), binary.BigEndian.AppendUint64(nil, uint64(n.Value)))
	}
	batch.Put(s.offsets, []byte(positionKey), c.Position.Bytes())
	failpoint.Hit("commit/batch")
	if moved > 0 {
		t.moves.Add(1)
		defer t.moves.Add(1)
	}
	if err := batch.Write(); err != nil {
		return err
	}
	failpoint.Hit("commit/written")
	if moved > 0 {
		t.counters.migrated.Add(moved)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.checkpoint = c
	t.checkpoint.Position = c.Position.Clone()
	t.known = c.Logged && c.Offset != store.UnknownOffset
	return nil
}

// forgetOffsets deletes every key but the status, as a commit of a store without a
// changelog does.
func (s *state) forgetOffsets(batch *rocks.Batch) error {
	scan := s.db.Scan(s.offsets, base.Span{})
	defer scan.Close()
	for scan.Next() {
		if k := string(scan.Key()); k != statusKey && k != positionKey {
			batch.Delete(s.offsets, scan.Key())
		}
	}
	return scan.Err()
}

// Flush makes the last commit durable.
func (t *Table) Flush() error { return t.state.Load().db.Flush() }

// ApproximateCount is RocksDB's estimate, the sum of both families.
func (t *Table) ApproximateCount() (int64, error) {
	s := t.state.Load()
	n, err := s.db.IntProperty(s.rows.family, estimateKeys)
	if err != nil || s.legacy == nil {
		return int64(n), err
	}
	old, err := s.db.IntProperty(s.legacy.family, estimateKeys)
	return int64(n + old), err
}

const estimateKeys = "rocksdb.estimate-num-keys"

// Wipe deletes the database and opens an empty one. Reads that are under way end with
// [store.ErrClosed].
func (t *Table) Wipe() error {
	if t.closed {
		return store.ErrClosed
	}
	if err := t.dropBulk(); err != nil {
		return errors.Join(store.ErrFailed, err)
	}
	t.torn = nil
	t.mu.Lock()
	t.checkpoint, t.known = base.Checkpoint{Offset: store.UnknownOffset}, false
	t.mu.Unlock()
	t.state.Load().db.Close()
	// Files first: an offset that is left without its rows would be taken for theirs.
	if err := t.forgetFiles(); err != nil {
		return errors.Join(store.ErrFailed, err)
	}
	// The mark of rows without an offset goes last.
	if err := rocks.Destroy(t.config.Dir); err != nil {
		return errors.Join(store.ErrFailed, err)
	}
	if err := os.RemoveAll(t.config.Dir); err != nil {
		return errors.Join(store.ErrFailed, err)
	}
	v := &Vetted{table: t}
	err := v.vet()
	if err == nil {
		err = v.open()
	}
	if err != nil {
		return errors.Join(store.ErrFailed, err)
	}
	return nil
}

// Close flushes and frees the database. An error means that commits since the last
// flush may not be on disk.
func (t *Table) Close() error {
	t.closed = true
	dropped := t.dropBulk()
	db := t.state.Load().db
	err := db.Flush() // the library flushes as well when it closes, but tells no error
	db.Close()
	err = errors.Join(dropped, err)
	if errors.Is(err, store.ErrClosed) {
		return nil // closed before, or by a Wipe that failed
	}
	return err
}
