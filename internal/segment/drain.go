package segment

import "github.com/forebay-streams/forebay/migration"

// DrainSlice moves up to rows rows of an older format to the store's own, segment by
// segment; done means that none is left in any.
func (t *Table) DrainSlice(rows int) (moved int, done bool, err error) {
	set := t.segments()
	for i, s := range set {
		if !s.Migrating() {
			continue
		}
		moved, done, err = s.DrainSlice(rows)
		for _, later := range set[i+1:] {
			done = done && !later.Migrating()
		}
		return moved, done, err
	}
	return 0, true, nil
}

// Stats sums up the open segments.
func (t *Table) Stats() (sum migration.Stats, err error) {
	for _, s := range t.segments() {
		one, err := s.Stats()
		if err != nil && !s.retired.Load() {
			return sum, err
		}
		sum.Migrating = sum.Migrating || one.Migrating
		sum.LegacyLeft += one.LegacyLeft
		sum.LegacyLookups += one.LegacyLookups
		sum.LegacyReads += one.LegacyReads
		sum.Migrated += one.Migrated
	}
	return sum, nil
}
