package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/forebay-streams/forebay/store"
)

// logRecord is a line of a changelog file.
type logRecord struct {
	Offset int64      `json:"offset"`
	K      hexBytes   `json:"k"`
	V      hexBytes   `json:"v"`
	TS     int64      `json:"ts"`
	H      headerList `json:"h"`
}

// fileLog is a changelog that numbers records and writes them to a file. A record counts
// as acknowledged at once.
type fileLog struct {
	topic string
	out   *json.Encoder // nil: records are numbered only
	next  int64
	any   bool
}

var _ store.Changelog = (*fileLog)(nil)

func newFileLog(app string, w io.Writer) *fileLog {
	l := &fileLog{topic: app + "-" + storeName + "-changelog"}
	if w != nil {
		l.out = encoder(w)
	}
	return l
}

func (l *fileLog) Topic() string    { return l.topic }
func (l *fileLog) Partition() int32 { return 0 }

func (l *fileLog) Append(c store.Change) error {
	if l.out != nil {
		r := logRecord{Offset: l.next, K: c.Key, V: c.Value, TS: c.Timestamp, H: listHeaders(c.Headers)}
		if err := l.out.Encode(r); err != nil {
			return err
		}
	}
	l.next++
	l.any = true
	return nil
}

func (l *fileLog) Flush(context.Context) (last int64, ok bool, err error) {
	return l.next - 1, l.any, nil
}

// restoreBatch is how many records a restore applies at once.
const restoreBatch = 200

// restore applies the records of a changelog file that the store does not hold yet, in bulk
// where it can, so that what both ways leave on disk is compared.
func restore(to store.RestoreTarget, file io.Reader) error {
	bulk, ok := to.(store.BulkTarget)
	if !ok {
		return restoreBatches(to, file)
	}
	if _, err := bulk.BeginBulk(); err != nil {
		return err
	}
	return errors.Join(restoreBatches(to, file), bulk.EndBulk())
}

func restoreBatches(to store.RestoreTarget, file io.Reader) error {
	held, known := to.RestoredOffset()
	var batch []store.Change
	last, any := int64(0), false
	apply := func() error {
		if !any {
			return nil
		}
		err := to.RestoreBatch(batch, last)
		batch, any = nil, false
		return err
	}
	err := eachLine(file, func(_ int64, text []byte) error {
		var r logRecord
		if err := json.Unmarshal(text, &r); err != nil {
			return err
		}
		if known && r.Offset <= held {
			return nil
		}
		last, any = r.Offset, true
		if r.K == nil {
			return nil // no store has logged it: Kafka drops such records too
		}
		h, err := r.H.headers()
		if err != nil {
			return err
		}
		batch = append(batch, store.Change{Key: r.K, Row: store.Row{Value: r.V, Timestamp: r.TS, Headers: h}})
		if len(batch) == restoreBatch {
			return apply()
		}
		return nil
	})
	if err == nil {
		err = apply()
	}
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	return nil
}
