package rocks

// DeleteRange adds the removal of all keys in [from, to).
func (b *Batch) DeleteRange(f *Family, from, to []byte) {
	if b.err != nil {
		return
	}
	b.send(0) // operations count in their order
	if b.db.enter() != nil {
		return // the write will tell
	}
	defer b.db.leave()
	b.batch.DeleteRangeCF(f.handle, from, to)
}
