package changelog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/forebay-streams/forebay/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const topic = "app-orders-changelog"

// ctx ends with the test, or after a time that only a hang can take.
func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func newCluster(t testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.SeedTopics(1, topic)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func newClient(t testing.TB, seeds []string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(seeds...)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	return cl
}

func newProducer(t testing.TB, seeds []string, opts ...kgo.Opt) *kgo.Client {
	return newClient(t, seeds, append(ProducerOpts(), opts...)...)
}

func newWriter(t testing.TB, cl *kgo.Client, opts ...WriterOption) *Writer {
	t.Helper()
	w, err := NewWriter(cl, topic, 0, opts...)
	require.NoError(t, err)
	return w
}

func change(key, value string, ts int64, headers ...store.Header) store.Change {
	return store.Change{Key: []byte(key), Row: store.Row{Value: []byte(value), Timestamp: ts, Headers: store.NewHeaders(headers...)}}
}

func tombstone(key string, ts int64, headers ...store.Header) store.Change {
	return store.Change{Key: []byte(key), Row: store.Row{Timestamp: ts, Headers: store.NewHeaders(headers...)}}
}

// write appends and flushes, and returns the last offset.
func write(t testing.TB, w *Writer, changes ...store.Change) int64 {
	t.Helper()
	for _, c := range changes {
		require.NoError(t, w.Append(c))
	}
	last, ok, err := w.Flush(testContext(t))
	require.NoError(t, err)
	require.True(t, ok)
	return last
}

// target is a store of a map that also keeps what it was told.
type target struct {
	topic     string
	partition int32

	mu      sync.Mutex
	rows    map[string]store.Row
	offset  int64
	known   bool
	wipes   int
	batches []batch
	before  func(offset int64) error // of RestoreBatch
}

type batch struct {
	rows   int
	offset int64
}

func newTarget() *target { return &target{topic: topic, rows: map[string]store.Row{}} }

// at is a target that holds everything up to offset.
func (s *target) at(offset int64) *target {
	s.offset, s.known = offset, true
	return s
}

func (s *target) ChangelogPartition() (string, int32) { return s.topic, s.partition }

func (s *target) RestoredOffset() (int64, bool) { return s.offset, s.known }

func (s *target) RestoreBatch(changes []store.Change, offset int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.before != nil {
		if err := s.before(offset); err != nil {
			return err
		}
	}
	if s.known && offset <= s.offset {
		return fmt.Errorf("offset %d after %d", offset, s.offset)
	}
	for _, c := range changes {
		if c.Key == nil {
			return errors.New("nil key")
		}
		if c.Tombstone() {
			delete(s.rows, string(c.Key))
		} else {
			s.rows[string(c.Key)] = c.Row
		}
	}
	s.offset, s.known = offset, true
	s.batches = append(s.batches, batch{len(changes), offset})
	return nil
}

func (s *target) Wipe() error {
	s.wipes++
	clear(s.rows)
	s.offset, s.known = 0, false
	return nil
}

// values is the target's content without timestamps and headers.
func (s *target) values() map[string]string {
	out := map[string]string{}
	for k, r := range s.rows {
		out[k] = string(r.Value)
	}
	return out
}

// requireRow compares a row to the last bit.
func requireRow(t testing.TB, want store.Change, got store.Row) {
	t.Helper()
	require.Equal(t, want.Value == nil, got.Value == nil)
	require.Equal(t, string(want.Value), string(got.Value))
	require.Equal(t, want.Timestamp, got.Timestamp)
	require.True(t, want.Headers.Equal(got.Headers), "%v, want %v", got.Headers.List(), want.Headers.List())
}

// recorder is a slog handler that keeps the messages.
type recorder struct {
	mu       sync.Mutex
	messages []string
}

func (r *recorder) Enabled(context.Context, slog.Level) bool { return true }
func (r *recorder) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r *recorder) WithGroup(string) slog.Handler            { return r }
func (r *recorder) Handle(_ context.Context, rec slog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages = append(r.messages, rec.Message)
	return nil
}

func (r *recorder) count(message string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, m := range r.messages {
		if m == message {
			n++
		}
	}
	return n
}

func endOffset(t testing.TB, cl *kgo.Client) int64 {
	t.Helper()
	ends, err := kadm.NewClient(cl).ListEndOffsets(testContext(t), topic)
	require.NoError(t, err)
	end, ok := ends.Lookup(topic, 0)
	require.True(t, ok)
	require.NoError(t, end.Err)
	return end.Offset
}
