package overlay

import "github.com/forebay-streams/forebay/store"

// Stage writes rows that are not what the changelog has: the caller has logged what they
// stand for. Other goroutines see all or none of them. It copies keys and keeps values.
// Without any row it notes the record's position only.
func (o *Overlay) Stage(changes []store.Change, record *store.Record) {
	o.position.advance(record)
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range changes {
		o.put(string(c.Key), c.Row, record, nil)
	}
}

// Getter reads a row, which may borrow scratch.
type Getter func(key []byte, scratch *[]byte) (store.Row, bool, error)

// Get calls the getter.
func (g Getter) Get(key []byte, scratch *[]byte) (store.Row, bool, error) { return g(key, scratch) }

// Together runs read on rows of one moment as far as the owner's writes go, which wait. A
// commit or restore of that moment shows in part, unless fixed: that takes a snapshot of the
// table, which is dear (releasing one makes RocksDB rewrite settled files).
func (v *View) Together(fixed bool, read func(Getter) error) error {
	o := v.overlay
	if v.uncommitted {
		o.mu.RLock()
		defer o.mu.RUnlock()
	}
	table := o.table.Get
	if fixed {
		s, err := o.table.Snapshot()
		if err != nil {
			return err
		}
		defer s.Close()
		table = s.Get
	}
	if !v.uncommitted {
		return read(table)
	}
	return read(func(key []byte, scratch *[]byte) (store.Row, bool, error) {
		if e := o.entries[string(key)]; e != nil {
			return e.row, !e.row.Tombstone(), nil
		}
		return table(key, scratch)
	})
}
