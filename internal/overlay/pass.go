package overlay

import (
	"bytes"

	"github.com/forebay-streams/forebay/store"
)

// Pass logs a write that is stored nowhere, and counts it in the position. A write of the
// same key that the cache holds back is logged before it.
func (o *Overlay) Pass(key []byte, row store.Row, record *store.Record) error {
	if e := o.entries[string(key)]; e != nil && e.state == dirty {
		if err := o.flushEntry(e); err != nil {
			return err
		}
	}
	var err error
	if row.Headers, err = row.Headers.Pack(); err != nil {
		return err
	}
	if o.config.Cache && o.forward.call != nil {
		return o.passForwarded(bytes.Clone(key), row, record)
	}
	if err := o.log(bytes.Clone(key), &row, record.Timestamp); err != nil {
		return err
	}
	o.position.advance(record)
	return nil
}
