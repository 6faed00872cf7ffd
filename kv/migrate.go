package kv

import "github.com/forebay-streams/forebay/migration"

var _ migration.Drainable = (*Store[int, int])(nil)

// drainable is a table that can hold rows of an older format.
type drainable interface {
	DrainSlice(rows int) (moved int, done bool, err error)
	Stats() (migration.Stats, error)
}

// DrainSlice moves up to rows rows of an older format to the store's own; done means that
// none is left. [migration.Drain] calls it, for the store's owner and between commits.
// Nothing is logged: the changelog has the rows already.
func (s *Store[K, V]) DrainSlice(rows int) (moved int, done bool, err error) {
	if err := s.check("drain"); err != nil {
		return 0, false, err
	}
	table, ok := s.table.(drainable)
	if !ok {
		return 0, true, nil
	}
	moved, done, err = table.DrainSlice(rows)
	return moved, done, s.fail("drain", err)
}

// Migration says how many rows of an older format are left, and how often they were
// read or moved. It may be called from any goroutine.
func (s *Store[K, V]) Migration() (migration.Stats, error) {
	if err := s.check("migration"); err != nil {
		return migration.Stats{}, err
	}
	table, ok := s.table.(drainable)
	if !ok {
		return migration.Stats{}, nil
	}
	stats, err := table.Stats()
	return stats, s.fail("migration", err)
}
