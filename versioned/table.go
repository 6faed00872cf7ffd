package versioned

import (
	"fmt"
	"math"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/versions"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

// Notes beside the rows. Kafka Streams has no such thing, and so forgets stream time when
// it restarts.
const (
	intervalNote = base.NotePrefix + "segment-interval"
	streamNote   = base.NotePrefix + "stream-time"
)

// table commits, with the rows, what the store knows about time.
//
// A segment is added before it has rows, and taken away when it has none that can be read.
// So a reader who looks at the segments after the rows knows all segments of these rows.
type table struct {
	base.AlsoTable

	mu  sync.RWMutex
	now versions.Times // with uncommitted puts; the owner locks to change it

	committed atomic.Pointer[versions.Times]
	// commits is odd while the table is being written.
	commits atomic.Int64

	marked bool  // whether the segment interval is stored
	stored int64 // the stored stream time
}

var _ base.Table = (*table)(nil)

func newTable(t versions.Times) *table {
	out := &table{now: t, stored: versions.NoStream}
	out.committed.Store(&t)
	return out
}

// vet finds segments and stream time in a directory, or refuses it.
func (t *table) vet(formats []migration.Format, db migration.Unopened) error {
	times := t.now
	interval, marked, err := db.Note(intervalNote)
	if err != nil {
		return err
	}
	if marked && interval != times.Interval {
		return fmt.Errorf("%w: its segments are %d ms long, not %d ms; open it with that SegmentInterval, or delete the local state and restore it from the changelog",
			store.ErrIncompatible, interval, times.Interval)
	}
	stream, known, err := db.Note(streamNote)
	if err != nil {
		return err
	}
	if !known {
		stream = versions.NoStream
	}
	for _, f := range formats {
		if err := findSegments(&times, f.Family, db); err != nil {
			return err
		}
	}
	times.Recover(stream)
	t.now, t.marked, t.stored = times, marked, stream
	t.committed.Store(&times)
	return nil
}

// findSegments asks once for each segment: for the first key behind the one before.
func findSegments(times *versions.Times, family string, db migration.Unopened) error {
	for id := int64(0); ; id++ {
		key, ok, err := db.First(family, versions.AppendKey(nil, id, nil))
		if err != nil || !ok {
			return err
		}
		if id, _, ok = versions.SplitKey(key, times.Interval); !ok {
			return fmt.Errorf("%w: the key %x is none of a versioned store with segments of %d ms; it was written by a store of another kind, or with another SegmentInterval: open it as that, or delete the local state and restore it from the changelog",
				store.ErrIncompatible, key, times.Interval)
		}
		if id == versions.Latest {
			return nil
		}
		if times.Add(id); id == math.MaxInt64 {
			return nil
		}
	}
}

// times are those of the owner, or of the last commit.
func (t *table) times(uncommitted bool) versions.Times {
	if !uncommitted {
		return *t.committed.Load()
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.now
}

// set changes the owner's times, before the rows that go with them are staged.
func (t *table) set(times versions.Times) {
	t.mu.Lock()
	t.now = times
	t.mu.Unlock()
}

// reset goes back to the last commit.
func (t *table) reset() { t.set(*t.committed.Load()) }

// Commit writes what the owner's times ask for beside the rows.
func (t *table) Commit(changes []store.Change, c base.Checkpoint) error {
	next, last := t.now, t.committed.Load()
	var also base.Also
	// Segments that died are emptied, and what was staged for them is left out. The latest
	// versions' rows sort last.
	first := next.FirstLive()
	if n := len(last.Segments); n > 0 && last.Segments[0] < first {
		dead := sort.Search(n, func(i int) bool { return last.Segments[i] >= first })
		also.Drop = &base.Span{Exclusive: true,
			From: versions.AppendKey(nil, last.Segments[0], nil), To: versions.AppendKey(nil, last.Segments[dead-1]+1, nil)}
	}
	changes = changes[sort.Search(len(changes), func(i int) bool {
		id, _, _ := versions.SplitKey(changes[i].Key, next.Interval)
		return id == versions.Latest || id >= first
	}):]
	if !t.marked || !c.Logged {
		also.Notes = append(also.Notes, base.Note{Key: intervalNote, Value: next.Interval})
	}
	if next.Stream != t.stored || !c.Logged {
		also.Notes = append(also.Notes, base.Note{Key: streamNote, Value: next.Stream})
	}
	either := *last
	either.Join(next.Segments)
	t.commits.Add(1)
	defer t.commits.Add(1)
	t.committed.Store(&either)
	if err := t.CommitAlso(changes, c, also); err != nil {
		t.committed.Store(last)
		return err
	}
	t.committed.Store(&next)
	t.marked, t.stored = true, next.Stream
	return nil
}

// Wipe forgets stream time too: kept, it would make a restore skip what is old.
func (t *table) Wipe() error {
	err := t.AlsoTable.Wipe()
	empty := versions.Times{Retention: t.now.Retention, Interval: t.now.Interval, Stream: versions.NoStream}
	t.committed.Store(&empty)
	t.reset()
	t.marked, t.stored = false, versions.NoStream
	return err
}

// DrainSlice moves rows of an older format. A table in memory has none.
func (t *table) DrainSlice(rows int) (moved int, done bool, err error) {
	if m, ok := t.AlsoTable.(*migration.Table); ok {
		return m.DrainSlice(rows)
	}
	return 0, true, nil
}

// Stats says how far a migration is.
func (t *table) Stats() (migration.Stats, error) {
	if m, ok := t.AlsoTable.(*migration.Table); ok {
		return m.Stats()
	}
	return migration.Stats{}, nil
}
