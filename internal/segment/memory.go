package segment

import (
	"bytes"
	"slices"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/memory"
	"github.com/forebay-streams/forebay/store"
)

// Memory is the table of in-memory stores: every millisecond is a segment, so the prefix
// of a key is the time itself, and rows expire by the millisecond.
type Memory struct {
	*memory.Table
	clock *Clock
}

var (
	_ base.Table  = (*Memory)(nil)
	_ base.Combed = (*Memory)(nil)
)

// NewMemory makes an empty table. The clock's interval must be 1.
func NewMemory(layout store.Layout, clock *Clock) *Memory {
	return &Memory{memory.New(layout), clock}
}

// Commit applies the changes, and deletes what has expired.
func (m *Memory) Commit(changes []store.Change, c base.Checkpoint) error {
	floor := Key(nil, m.clock.Now().Floor)
	return m.clock.Publish(func() error {
		if err := m.Table.Commit(from(changes, floor), c); err != nil {
			return err
		}
		m.Table.DeleteBelow(floor)
		return nil
	})
}

// from leaves out the changes of keys below the given one.
func from(changes []store.Change, key []byte) []store.Change {
	at, _ := slices.BinarySearchFunc(changes, key, func(c store.Change, key []byte) int { return bytes.Compare(c.Key, key) })
	return changes[at:]
}
