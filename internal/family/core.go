package family

import (
	"sync/atomic"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/overlay"
	"github.com/forebay-streams/forebay/store"
)

// Core is what the operations of a store work on.
type Core struct {
	Name    string
	Config  Config
	Table   base.Table
	Overlay *overlay.Overlay
	Record  store.Record // the input record being processed

	segments Segments

	open   atomic.Int64 // scans
	closed atomic.Bool
}

// NewCore puts an overlay in front of a table, which the core then owns.
func NewCore(name string, c Config, table base.Table) *Core { return newCore(name, c, table, nil) }

func newCore(name string, c Config, table base.Table, logKey func([]byte) ([]byte, bool)) *Core {
	budget := c.Budget
	if budget == nil {
		budget = store.NewBudget(0)
	}
	return &Core{
		Name: name, Config: c, Table: table,
		Record:  store.Record{Partition: -1, Offset: -1, Timestamp: store.NoTimestamp},
		Overlay: overlay.New(table, overlay.Config{Name: name, Layout: c.Layout, Log: c.Log, Cache: c.Cache, Budget: budget, InMemory: c.Memory, LogHeaders: c.LogHeaders, LogKey: logKey}),
	}
}

// Staged is what a family keeps beside its rows, as of now and as of the last commit.
type Staged interface {
	Committed()
	Aborted()
	Wiped()
}

// Segments are what a core with a segmented table has in addition. All of it may be nil.
type Segments struct {
	Staged Staged
	// LogKey: see overlay.Config.
	LogKey func(key []byte) (logged []byte, ok bool)
	// Restore takes changes of the changelog: it turns them into rows for Overlay.Restore.
	Restore func(changes []store.Change, offset int64) error
}

// NewSegmented is NewCore for a segmented table.
func NewSegmented(name string, c Config, table base.Table, s Segments) *Core {
	core := newCore(name, c, table, s.LogKey)
	core.segments = s
	return core
}

// Shell is the core's public side.
func (c *Core) Shell() Shell { return Shell{c} }

// Forward has flushed writes forwarded, each under the record that it was written under:
// what the call writes to this store belongs to that. False: the store has no cache.
func (c *Core) Forward(f overlay.Forward) bool {
	f.Record = &c.Record
	if call := f.Call; call != nil {
		f.Call = func(f overlay.Forwarded) error {
			outer := c.Record
			c.Record = f.Record
			defer func() { c.Record = outer }()
			return call(f)
		}
	}
	return c.Overlay.SetForward(f)
}

// Do runs an operation unless the store is closed, and names both in its error.
func (c *Core) Do(op string, do func() error) error {
	if err := c.Check(op); err != nil {
		return err
	}
	return c.Fail(op, do())
}

// Check fails when the store is closed.
func (c *Core) Check(op string) error {
	if c.closed.Load() {
		return &store.Error{Store: c.Name, Op: op, Err: store.ErrClosed}
	}
	return nil
}

// Fail names store and operation in an error.
func (c *Core) Fail(op string, err error) error {
	if err == nil {
		return nil
	}
	return &store.Error{Store: c.Name, Op: op, Err: err}
}
