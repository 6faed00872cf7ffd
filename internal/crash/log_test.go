package crash

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"

	"github.com/forebay-streams/forebay/internal/failpoint"
	"github.com/forebay-streams/forebay/store"
)

// logFile is a changelog in a file. A record is acknowledged when it is written: what the
// kernel has survives a SIGKILL. Until then it waits in memory, as in a producer.
type logFile struct {
	file    *os.File
	next    int64 // offset of the next frame
	buffer  []byte
	waiting int // records in buffer
	limit   int // above which they are written
	acked   int64
	any     bool
	flushed func() error // is called when everything is acknowledged
}

var _ store.Changelog = (*logFile)(nil)

// openLog cuts off what a killed writer left half written. Exactly-once it ends a
// transaction that was left open, as a producer does that comes again with its id.
func openLog(path string, exactlyOnce bool, limit int) (*logFile, error) {
	v, err := readLog(path, exactlyOnce)
	if err != nil {
		return nil, err
	}
	file, err := openWhole(path, v.valid)
	if err != nil {
		return nil, err
	}
	l := &logFile{file: file, next: v.end + 1, limit: limit}
	if v.open > 0 {
		return l, l.end(abort, 0)
	}
	return l, nil
}

// openWhole opens a file of frames behind its last whole one.
func openWhole(path string, valid int) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	return file, file.Truncate(int64(valid))
}

func (*logFile) Topic() string    { return logTopic }
func (*logFile) Partition() int32 { return 0 }

const (
	appName   = "app"
	storeName = "store"
	logTopic  = appName + "-" + storeName + "-changelog"
)

func (l *logFile) Append(c store.Change) error {
	l.buffer = appendFrame(l.buffer, frame{kind: record, change: c})
	l.waiting++
	failpoint.Hit("log/append")
	if l.waiting > l.limit {
		return l.write()
	}
	return nil
}

func (l *logFile) write() error {
	if len(l.buffer) == 0 {
		return nil
	}
	if _, err := l.file.Write(l.buffer); err != nil {
		return err
	}
	l.next += int64(l.waiting)
	l.acked, l.any = l.next-1, true
	l.buffer, l.waiting = l.buffer[:0], 0
	failpoint.Hit("log/written")
	return nil
}

func (l *logFile) Flush(context.Context) (int64, bool, error) {
	err := l.write()
	if err == nil {
		err = l.flushed()
	}
	return l.acked, l.any, err
}

// end writes a marker.
func (l *logFile) end(k kind, input int64) error {
	if err := l.write(); err != nil {
		return err
	}
	if _, err := l.file.Write(appendFrame(nil, frame{kind: k, n: input})); err != nil {
		return err
	}
	l.next++
	return nil
}

// journal notes every checkpoint before the store is asked to write it: those are the
// ones that a kill may show.
type journal struct{ file *os.File }

func openJournal(path string) (*journal, error) {
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	_, valid := parseFrames(b)
	file, err := openWhole(path, valid)
	return &journal{file}, err
}

func (j *journal) note(offset int64, position store.Position) error {
	_, err := j.file.Write(appendFrame(nil, frame{kind: checkpoint, n: offset, change: store.Change{Row: store.Row{Value: position.Bytes()}}}))
	return err
}

// readJournal returns the positions noted with each offset.
func readJournal(path string) (map[int64][]store.Position, error) {
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	out := map[int64][]store.Position{}
	frames, _ := parseFrames(b)
	for _, f := range frames {
		p, err := store.DecodePosition(f.change.Value)
		if err != nil {
			return nil, err
		}
		out[f.n] = append(out[f.n], p)
	}
	return out, nil
}

// readInput and commitInput keep the committed input offset of at-least-once.
func readInput(path string) (int64, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return int64(binary.BigEndian.Uint64(b)), nil
}

func commitInput(path string, offset int64) error {
	if err := os.WriteFile(path+".tmp", binary.BigEndian.AppendUint64(nil, uint64(offset)), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}
