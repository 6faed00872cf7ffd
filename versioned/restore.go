package versioned

import (
	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/store"
)

// RestoreBatch applies changes of the changelog in one atomic write, past the changelog.
// Each counts at the stream time of its place in the log, so that the rows are those of
// the store that wrote it, however it is cut into batches. No user code runs. There must be
// no uncommitted rows.
func (s *Store[K, V]) RestoreBatch(changes []store.Change, offset int64) error {
	return s.core.Do("restore", func() error {
		b := buffer{table: s.table, rows: map[string]store.Row{}}
		times := s.table.now
		for _, c := range changes {
			// Kafka Streams logs what it rejects, and sets no limit to timestamps.
			if c.Timestamp < 0 || times.Late(c.Timestamp) {
				s.report.skipped.Add(1)
				continue
			}
			times.Advance(c.Timestamp)
			value, err := s.encode(c.Row)
			if err != nil {
				return err
			}
			rows, _, err := s.editor.Put(&b, &times, c.Key, value, c.Timestamp)
			if err != nil {
				return err
			}
			b.put(rows)
		}
		s.table.set(times)
		err := s.core.Overlay.Restore(b.changes(), offset)
		if err != nil {
			s.table.reset()
		}
		return err
	})
}

// buffer holds the rows of a batch over the table.
type buffer struct {
	table base.Reader
	rows  map[string]store.Row
}

func (b *buffer) Get(key []byte, scratch *[]byte) (store.Row, bool, error) {
	if row, ok := b.rows[string(key)]; ok {
		return row, !row.Tombstone(), nil
	}
	return b.table.Get(key, scratch)
}

func (b *buffer) put(changes []store.Change) {
	for _, c := range changes {
		b.rows[string(c.Key)] = c.Row
	}
}

// changes are the rows in any order.
func (b *buffer) changes() []store.Change {
	list := make([]store.Change, 0, len(b.rows))
	for key, row := range b.rows {
		list = append(list, store.Change{Key: []byte(key), Row: row})
	}
	return list
}
