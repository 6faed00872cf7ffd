package engine

import (
	"context"

	"github.com/forebay-streams/forebay/store"
)

// State is an open store of a task. The four families' stores are ones.
type State interface {
	Name() string
	// Flush logs what is held back, after forwarding it.
	Flush(context.Context) error
	Commit(context.Context) error
	Abort()
	Close() error
	store.RestoreTarget
}

// Env is what a store is opened with.
type Env struct {
	Dir       string
	Topic     string // of the changelog, whether there is one or not
	Partition int32
	InMemory  bool
	Budget    *store.Budget
	Cache     bool
	Log       store.Changelog // nil: not logged
}

func (s *Store) topic(app string) string { return app + "-" + s.Name + "-changelog" }
