package versioned

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/internal/versions"
	"github.com/forebay-streams/forebay/store"
)

var _ store.RestoreTarget = (*strings)(nil)

// each runs a test on stores of every kind.
func each(t *testing.T, test func(t *testing.T, s *strings, l *log)) {
	for name, options := range map[string][]Option{
		"plain": {Format(store.Plain)}, "headers": {}, "memory": {InMemory()}, "plain memory": {InMemory(), Format(store.Plain)},
	} {
		t.Run(name, func(t *testing.T) {
			l := new(log)
			test(t, open(t, taskDir(t), append(options, Changelog(l))...), l)
		})
	}
}

func TestWalkThrough(t *testing.T) {
	each(t, func(t *testing.T, s *strings, l *log) {
		for _, c := range []struct {
			value string
			ts    int64
			want  Placed
		}{
			{"a", 12, Latest}, {"bb", 15, Latest}, {"", 18, Latest}, {"c", 23, Latest}, {"d", 26, Latest},
			{"x", 16, 18}, {"y", 9, 12}, {"w", 9, 12}, {"e", 52, Latest}, {"f", 21, TooOld},
		} {
			if c.ts == 18 {
				old, ok, err := s.Delete("k", c.ts)
				require.Equal(t, bare("bb", 15, Forever), show(old, ok, err))
				continue
			}
			require.Equal(t, c.want, put(t, s, "k", c.value, c.ts), "%s@%d", c.value, c.ts)
		}
		require.Equal(t, bare("c", 23, 26), show(s.GetAsOf("k", 25)))
		require.Equal(t, bare("e", 52, Forever), show(s.GetAsOf("k", 52)))
		require.Equal(t, "-", show(s.GetAsOf("k", 22)))
		require.Equal(t, "-", show(s.GetAsOf("k", 21)))
		require.Equal(t, "-", show(s.Get("none")))
		require.Len(t, l.changes, 9, "nothing is logged of what came too late")
		old, ok, err := s.Delete("k", 21)
		require.Equal(t, "-", show(old, ok, err))
		require.EqualValues(t, 2, s.Stats().TooOld)
		require.Len(t, l.changes, 9)
		require.Positive(t, s.Stats().LargestRow)
		commit(t, s)
		require.Equal(t, []string{bare("c", 23, 26), bare("d", 26, 52), bare("e", 52, Forever)}, history(s, 22, never))
		var newest []string
		for v, err := range s.History("k", 22, never, Descending) {
			newest = append(newest, show(v, true, err))
			if len(newest) == 2 {
				break
			}
		}
		require.Equal(t, []string{bare("e", 52, Forever), bare("d", 26, 52)}, newest)
		require.Zero(t, s.OpenScans())
	})
}

func TestPlaced(t *testing.T) {
	at, ok := Placed(7).ValidTo()
	require.True(t, ok)
	require.EqualValues(t, 7, at)
	require.Equal(t, "valid to 7", Placed(7).String())
	for p, text := range map[Placed]string{Latest: "latest", TooOld: "too old"} {
		_, ok := p.ValidTo()
		require.False(t, ok)
		require.Equal(t, text, p.String())
	}
}

func TestBadCalls(t *testing.T) {
	each(t, func(t *testing.T, s *strings, l *log) {
		_, err := s.Put("k", value("v", -1))
		require.ErrorIs(t, err, store.ErrNegativeTimestamp)
		_, err = s.Tombstone("k", -7)
		require.ErrorIs(t, err, store.ErrNegativeTimestamp)
		put(t, s, "k", "v", 100)
		_, _, err = s.Delete("k", -1)
		require.ErrorIs(t, err, store.ErrNegativeTimestamp)
		require.Zero(t, s.Stats().TooOld)
		require.Len(t, l.changes, 1)
		for _, err := range s.History("k", 5, 4, Ascending) {
			require.ErrorIs(t, err, store.ErrConfig)
		}
		require.NoError(t, s.Close())
		_, err = s.Put("k", value("v", 1))
		require.ErrorIs(t, err, store.ErrClosed)
		_, _, err = s.Get("k")
		require.ErrorIs(t, err, store.ErrClosed)
		_, _, err = s.GetAsOf("k", 1)
		require.ErrorIs(t, err, store.ErrClosed)
		_, _, err = s.View(store.ReadCommitted).Get("k")
		require.ErrorIs(t, err, store.ErrClosed)
		for _, err := range s.History("k", 1, 2, Ascending) {
			require.ErrorIs(t, err, store.ErrClosed)
		}
	})
}

// A put that comes too late is counted, logged and in the position.
func TestTooOld(t *testing.T) {
	var out bytes.Buffer
	s := open(t, taskDir(t), Logger(slog.New(slog.NewTextHandler(&out, nil))))
	put(t, s, "k", "v", 100)
	s.SetRecord(record(4, 100))
	for range 5 {
		require.Equal(t, TooOld, put(t, s, "k", "w", 69))
	}
	commit(t, s)
	offset, _ := s.Position().Offset("in", 0)
	require.EqualValues(t, 4, offset)
	require.Equal(t, 3, bytes.Count(out.Bytes(), []byte("\n")), "the 1st, 2nd and 4th")
	require.Contains(t, out.String(), `level=WARN msg="put came too late and was not stored" store=store timestamp=69 "oldest accepted"=70 "stream time"=100 total=1`)
	s.SetRecord(record(5, 100))
	_, _, err := s.Delete("k", 69)
	require.NoError(t, err)
	commit(t, s)
	offset, _ = s.Position().Offset("in", 0)
	require.EqualValues(t, 4, offset, "as Kafka does: a late delete is not")
}

// When the changelog takes nothing, nothing is written, and stream time stays.
func TestFailedLog(t *testing.T) {
	f := &failing{}
	s := open(t, taskDir(t), Changelog(f))
	put(t, s, "k", "v", 5)
	f.err = errors.New("full")
	_, err := s.Put("k", value("w", 90))
	require.ErrorIs(t, err, f.err)
	require.EqualValues(t, 5, s.StreamTime())
	require.Equal(t, bare("v", 5, Forever), show(s.Get("k")))
	f.err = nil
	require.Equal(t, Placed(5), put(t, s, "k", "u", 3))
}

type failing struct {
	log
	err error
}

func (f *failing) Append(c store.Change) error {
	if f.err != nil {
		return f.err
	}
	return f.log.Append(c)
}

// The changelog has the plain key and value, the version's time, and its headers as those
// of the record; a tombstone those of the record being processed.
func TestChangelog(t *testing.T) {
	each(t, func(t *testing.T, s *strings, l *log) {
		s.SetRecord(record(1, 99, "trace", "1"))
		put(t, s, "k", "v", 5, "h", "x")
		tombstone(t, s, "k", 8)
		_, _, err := s.Delete("k", 9)
		require.NoError(t, err)
		want := [][]string{{"h", "x"}, {"trace", "1"}, {"trace", "1"}}
		require.Len(t, l.changes, 3)
		for i, c := range l.changes {
			require.Equal(t, "k", string(c.Key))
			require.Equal(t, []int64{5, 8, 9}[i], c.Timestamp)
			require.Equal(t, i > 0, c.Tombstone())
			if s.core.Config.Layout.HasHeaders() {
				require.Equal(t, headerList(want[i]...).List(), c.Headers.List())
			} else {
				require.True(t, c.Headers.Empty())
			}
		}
		require.Equal(t, "v", string(l.changes[0].Value))
	})
}

// noting is a serde that adds to the headers, as schema registries do.
type noting struct{ store.Serde[string] }

func (n noting) Serialize(topic string, h *store.Headers, v string) ([]byte, error) {
	if err := h.Add("schema", []byte("7")); err != nil {
		return nil, err
	}
	if v == "nil" {
		return nil, nil
	}
	return n.Serde.Serialize(topic, nil, v)
}

func (n noting) Deserialize(topic string, h *store.Headers, b []byte) (string, error) {
	if _, ok := h.Last("schema"); !ok {
		return "", errors.New("no schema")
	}
	return n.Serde.Deserialize(topic, nil, b)
}

func TestSerializerHeaders(t *testing.T) {
	l := new(log)
	s, err := Open(taskDir(t), "store", store.String(), store.Serde[string](noting{store.String()}), History(millis(30)), Changelog(l))
	require.NoError(t, err)
	defer s.Close()
	given := headerList("a", "1")
	_, err = s.Put("k", store.Value[string]{Data: "v", Timestamp: 5, Headers: given})
	require.NoError(t, err)
	require.Equal(t, 1, given.Len(), "the caller's list is its own")
	require.Equal(t, headerList("a", "1", "schema", "7").List(), l.changes[0].Headers.List())
	_, err = s.Put("k", value("w", 8, "b", "2"))
	require.NoError(t, err)
	v, ok, err := s.GetAsOf("k", 6)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, headerList("a", "1", "schema", "7").List(), v.Headers.List())
	for v, err := range s.History("k", always, never, Ascending) {
		require.NoError(t, err)
		require.Equal(t, 2, v.Headers.Len())
	}

	// A value that becomes nil is a delete, with the headers of the record.
	s.SetRecord(record(1, 9, "trace", "1"))
	p, err := s.Put("k", value("nil", 9, "c", "3"))
	require.NoError(t, err)
	require.Equal(t, Latest, p)
	require.True(t, l.changes[2].Tombstone())
	require.Equal(t, headerList("trace", "1").List(), l.changes[2].Headers.List())
	_, ok, err = s.Get("k")
	require.NoError(t, err)
	require.False(t, ok)
}

// A read does not look into the header block, unless it is asked to.
func TestHeadersAreRead_OnlyWhenLookedAt(t *testing.T) {
	broken := "\x04\xff\xff" + "v" // two bytes of headers that are none
	for _, strict := range []bool{false, true} {
		options := []Option{History(millis(30)), SegmentInterval(millis(10))}
		if strict {
			options = append(options, StrictHeaders())
		}
		dir := taskDir(t)
		kafkaDirectory(t, dir, "versionedKeyValueWithHeaders", map[string]string{
			latestKey("k"):      latestRow(26, broken),
			physicalKey(2, "k"): string(row(26, versions.Entry{From: 23, Value: []byte(broken)})),
		})
		s, err := tryOpen(dir, options...)
		require.NoError(t, err)
		for _, at := range []int64{26, 23} {
			v, ok, err := s.GetAsOf("k", at)
			if strict {
				require.ErrorIs(t, err, store.ErrCorrupt)
				continue
			}
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, "v", v.Data)
			require.ErrorIs(t, v.Headers.Err(), store.ErrCorrupt)
		}
		require.Equal(t, Latest, put(t, s, "k", "w", 30), "a put moves the block as it is")
		require.NoError(t, s.Close())
	}
	require.Zero(t, rocks.Live())
}

// What a read returns stays as it is.
func TestReadsOwnTheirBytes(t *testing.T) {
	each(t, func(t *testing.T, s *strings, _ *log) {
		for i := range int64(5) {
			put(t, s, "k", string(rune('a'+i)), 10+i, "h", string(rune('a'+i)))
		}
		commit(t, s)
		var kept []Version[string]
		for v, err := range s.History("k", always, never, Ascending) {
			require.NoError(t, err)
			kept = append(kept, v)
			got, ok, err := s.GetAsOf("k", v.Timestamp) // uses the same buffers
			require.NoError(t, err)
			require.True(t, ok)
			kept = append(kept, got)
			put(t, s, "k", "later", 40) // does not show
		}
		require.Len(t, kept, 10)
		for i, v := range kept {
			want := string(rune('a' + i/2))
			require.Equal(t, want, v.Data)
			if s.core.Config.Layout.HasHeaders() {
				h, _ := v.Headers.Last("h")
				require.Equal(t, want, string(h.Value))
			}
		}
	})
}

// A scan ends when the store is closed within its loop.
func TestCloseInTheLoop(t *testing.T) {
	each(t, func(t *testing.T, s *strings, _ *log) {
		put(t, s, "k", "a", 10)
		put(t, s, "k", "b", 20)
		var seen []error
		for _, err := range s.History("k", always, never, Ascending) {
			seen = append(seen, err)
			require.NoError(t, s.Close())
		}
		require.Len(t, seen, 2)
		require.NoError(t, seen[0])
		require.ErrorIs(t, seen[1], store.ErrClosed)
	})
}

// A version that is staged for a segment which dies before the commit is never written.
func TestSegmentsThatDieUncommitted(t *testing.T) {
	each(t, func(t *testing.T, s *strings, _ *log) {
		put(t, s, "k", "a", 1)
		commit(t, s)
		put(t, s, "k", "b", 12)
		put(t, s, "k", "c", 25)
		committed := s.View(store.ReadCommitted)
		put(t, s, "other", "x", 500)
		require.Empty(t, s.table.now.Segments)
		require.Equal(t, bare("c", 25, Forever), show(s.Get("k")))
		require.Equal(t, bare("a", 1, Forever), show(committed.Get("k")))
		require.Equal(t, bare("a", 1, Forever), show(committed.GetAsOf("k", 3)))
		commit(t, s)
		require.Len(t, rows(t, s), 2)
		put(t, s, "k", "d", 501)
		s.Abort()
		require.EqualValues(t, 500, s.StreamTime())
		require.Empty(t, s.table.now.Segments)
	})
}

// A commit that fails can be repeated, and until then views see the one before.
func TestFailedCommit(t *testing.T) {
	f := &flushFails{}
	s := open(t, taskDir(t), Changelog(f))
	put(t, s, "k", "a", 1)
	commit(t, s)
	put(t, s, "k", "b", 100)
	f.err = errors.New("broker gone")
	require.ErrorIs(t, s.Commit(ctx), f.err)
	v := s.View(store.ReadCommitted)
	require.Equal(t, bare("a", 1, Forever), show(v.GetAsOf("k", 1)))
	f.err = nil
	commit(t, s)
	require.Equal(t, bare("b", 100, Forever), show(v.Get("k")))
	require.Equal(t, bare("a", 1, 100), show(v.GetAsOf("k", 99)))
}

type flushFails struct {
	log
	err error
}

func (f *flushFails) Flush(ctx context.Context) (int64, bool, error) {
	last, ok, err := f.log.Flush(ctx)
	return last, ok, errors.Join(err, f.err)
}
