package buffer_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/store"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if n := rocks.Live(); n != 0 {
			fmt.Println("RocksDB objects left:", n)
			code = 1
		}
		os.Exit(code)
	}))
}

// log is a changelog in memory.
type log struct {
	records []store.Change
	fail    error
}

func (l *log) Topic() string    { return "app-s-changelog" }
func (l *log) Partition() int32 { return 0 }

func (l *log) Append(c store.Change) error {
	if l.fail != nil {
		return l.fail
	}
	l.records = append(l.records, c)
	return nil
}

func (l *log) Flush(context.Context) (int64, bool, error) {
	return int64(len(l.records)) - 1, len(l.records) > 0, l.fail
}

// take returns what was logged since the last call, keys and values copied.
func (l *log) take(from int) (out []store.Change) {
	for _, c := range l.records[from:] {
		c.Key, c.Value = bytes.Clone(c.Key), bytes.Clone(c.Value)
		out = append(out, c)
	}
	return out
}

func headers(pairs ...string) store.Headers {
	var list []store.Header
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, store.Header{Key: pairs[i], Value: []byte(pairs[i+1])})
	}
	return store.NewHeaders(list...)
}
