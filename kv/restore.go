package kv

import "github.com/forebay-streams/forebay/store"

var _ store.RestoreTarget = (*Store[int, int])(nil)

// ChangelogPartition names the changelog that the store is restored from.
func (s *Store[K, V]) ChangelogPartition() (topic string, partition int32) {
	return s.config.topic, s.config.partition
}

// RestoredOffset is the offset of the last changelog record that the store holds; ok is
// false when it is not known.
func (s *Store[K, V]) RestoredOffset() (offset int64, ok bool) {
	c, ok := s.table.Checkpoint()
	return c.Offset, ok
}

// RestoreBatch applies changes of the changelog in one atomic write, past cache and
// changelog. No user code runs. There must be no uncommitted rows.
func (s *Store[K, V]) RestoreBatch(changes []store.Change, offset int64) error {
	if err := s.check("restore"); err != nil {
		return err
	}
	return s.fail("restore", s.overlay.Restore(changes, offset))
}

// Wipe empties the store, uncommitted rows included, and forgets its offset. Views go on
// with the empty store.
func (s *Store[K, V]) Wipe() error {
	if err := s.check("wipe"); err != nil {
		return err
	}
	s.overlay.Clear()
	return s.fail("wipe", s.table.Wipe())
}
