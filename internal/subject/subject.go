// Package subject shows the four families as one, for tests of what all of them promise.
package subject

import (
	"context"
	"fmt"
	"time"

	"github.com/forebay-streams/forebay/internal/windowkey"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/session"
	"github.com/forebay-streams/forebay/store"
	"github.com/forebay-streams/forebay/versioned"
	"github.com/forebay-streams/forebay/windowed"
)

// Family names a family.
type Family string

const (
	KV        Family = "kv"
	Windowed  Family = "windowed"
	Session   Family = "session"
	Versioned Family = "versioned"
)

// Families are all of them.
var Families = []Family{KV, Windowed, Session, Versioned}

// Segmented tells whether the family has a database per interval of time.
func (f Family) Segmented() bool { return f == Windowed || f == Session }

// Cached tells whether the family can have a cache.
func (f Family) Cached() bool { return f != Versioned }

// Bulk tells whether an empty store of the family is restored in bulk.
func (f Family) Bulk() bool { return f == KV }

// Place is where a row lies. From is the start of a window or session, or the time of a
// version; To the end of a session. What a family does not have is 0.
type Place struct {
	Key      string
	From, To int64
}

// At is the place of a key at a time.
func (f Family) At(key string, time int64) Place {
	switch f {
	case KV:
		return Place{Key: key}
	case Session:
		return Place{Key: key, From: time, To: time}
	}
	return Place{Key: key, From: time}
}

// Time is what a row expires by.
func (p Place) Time() int64 { return max(p.From, p.To) }

func (p Place) String() string { return fmt.Sprintf("%s[%d,%d]", p.Key, p.From, p.To) }

// LogPlace is where the change of a changelog record lies.
func (f Family) LogPlace(c store.Change) Place {
	switch f {
	case Windowed:
		r, _ := windowkey.Window.Parse(c.Key)
		return Place{Key: string(r.Key), From: r.Start}
	case Session:
		r, _ := windowkey.Session.Parse(c.Key)
		return Place{Key: string(r.Key), From: r.Start, To: r.End}
	case Versioned:
		return Place{Key: string(c.Key), From: c.Timestamp}
	}
	return Place{Key: string(c.Key)}
}

// Value is what is stored.
type Value = store.Value[[]byte]

// Reader reads rows. Of a versioned store these are all versions, without the tombstones.
type Reader interface {
	// Get reads one row, of a versioned store the version that begins there.
	Get(Place) (Value, bool, error)
	// Rows reads all rows; a versioned store is asked for the given keys.
	Rows(keys []string) (map[Place]Value, error)
	// Scan lists the places of all rows in the order of a scan.
	Scan(reverse bool, keys []string) ([]Place, error)
}

// Store is a store of some family.
type Store interface {
	Reader
	store.RestoreTarget
	migration.Drainable
	Name() string
	SetRecord(store.Record)
	Put(Place, Value) error
	Delete(Place) error
	View(store.Isolation) Reader
	Flush(context.Context) error
	Commit(context.Context) error
	Abort()
	Close() error
	Position() store.Position
	NeedsCommit() bool
	OpenScans() int64
	Migration() (migration.Stats, error)
}

// Config is how a store is opened.
type Config struct {
	Layout      store.Layout // WithHeaders, Timestamped (kv and windowed only) or Plain
	Memory      bool
	Ordered     bool // of time-ordered windows and sessions
	Log         store.Changelog
	Cache       bool
	Budget      *store.Budget
	ExactlyOnce bool
	Retention   time.Duration // or history
	Interval    time.Duration // of segments; 0: the default
}

// Open opens the store of that name.
func (f Family) Open(dir, name string, c Config) (Store, error) {
	return Open(f, dir, name, store.Bytes(), store.Bytes(), c)
}

// Open opens a store of any family with given serdes.
func Open(f Family, dir, name string, key, value store.Serde[[]byte], c Config) (Store, error) {
	switch f {
	case KV:
		s, _, err := openKV(dir, name, key, value, c)
		return s, err
	case Windowed:
		s, err := windowed.Open(dir, name, key, value, windowedOptions(c)...)
		if err != nil {
			return nil, err
		}
		return windowedStore{windowedReader{s}, s.Shell, s}, nil
	case Session:
		s, err := session.Open(dir, name, key, value, sessionOptions(c)...)
		if err != nil {
			return nil, err
		}
		return sessionStore{sessionReader{s}, s.Shell, s}, nil
	case Versioned:
		s, err := versioned.Open(dir, name, key, value, versionedOptions(c)...)
		if err != nil {
			return nil, err
		}
		return versionedStore{versionedReader{s}, s.Shell, s}, nil
	}
	panic("no family " + f)
}

// retention that nothing in a test outlives.
const forever = 1000 * time.Hour

func (c Config) retention() time.Duration {
	if c.Retention == 0 {
		return forever
	}
	return c.Retention
}

func own(v Value) Value {
	v.Headers = v.Headers.Clone()
	return v
}
