package crash

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/failpoint"
	"github.com/forebay-streams/forebay/store"
)

// A few kills, where the marks are compiled in; make crash does many.
func TestCrash(t *testing.T) {
	if !failpoint.Enabled {
		t.Skip("built without the tag failpoints: run make crash")
	}
	require.NoError(t, newGroup(t.TempDir(), 1, 1, 5).run())
}

func TestFrames(t *testing.T) {
	in := input{seed: 1, keys: 20}
	var b []byte
	var want []frame
	for i := range int64(200) {
		for _, c := range in.at(i).rows {
			want = append(want, frame{record, i, c})
			b = appendFrame(b, want[len(want)-1])
		}
	}
	frames, valid := parseFrames(b)
	require.Equal(t, len(b), valid)
	require.Len(t, frames, len(want))
	for i, f := range frames {
		require.Equal(t, want[i].n, f.n)
		require.Equal(t, want[i].change.Key, f.change.Key)
		require.Equal(t, want[i].change.Tombstone(), f.change.Tombstone())
		require.True(t, equal(want[i].change.Row, f.change.Row), "null and empty differ, in values and headers")
	}
	last := appendFrame(nil, want[len(want)-1])
	for cut := 1; cut <= len(last); cut++ {
		frames, valid = parseFrames(b[:len(b)-cut])
		require.Len(t, frames, len(want)-1)
		require.Equal(t, len(b)-len(last), valid)
	}
	b[len(b)-1] ^= 1
	_, valid = parseFrames(b)
	require.Equal(t, len(b)-len(last), valid)
	_, valid = parseFrames(make([]byte, 100))
	require.Zero(t, valid)
}

func TestLogLeavesOutWhatWasAborted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "changelog")
	open := func(exactlyOnce bool) *logFile {
		l, err := openLog(path, exactlyOnce, 0)
		require.NoError(t, err)
		l.flushed = func() error { return nil }
		t.Cleanup(func() { l.file.Close() })
		return l
	}
	put := func(l *logFile, key string) {
		require.NoError(t, l.Append(store.Change{Key: []byte(key), Row: store.Row{Value: []byte("v")}}))
	}
	keys := func(exactlyOnce bool) (out []string) {
		v, err := readLog(path, exactlyOnce)
		require.NoError(t, err)
		for _, r := range v.records {
			out = append(out, string(r.change.Key))
		}
		return out
	}
	l := open(true)
	put(l, "a")
	require.NoError(t, l.end(commit, 7))
	put(l, "b")
	require.NoError(t, l.end(abort, 0))
	put(l, "c")
	last, ok, err := l.Flush(context.Background())
	require.NoError(t, err)
	require.True(t, ok)
	require.EqualValues(t, 4, last)
	require.Equal(t, []string{"a"}, keys(true))
	require.Equal(t, []string{"a", "b", "c"}, keys(false))

	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	_, err = f.Write([]byte("torn"))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	l = open(true) // aborts what was open
	put(l, "d")
	require.NoError(t, l.end(commit, 9))
	require.Equal(t, []string{"a", "d"}, keys(true))
	v, err := readLog(path, true)
	require.NoError(t, err)
	require.EqualValues(t, 9, v.input)
	require.EqualValues(t, 7, v.end)
	require.EqualValues(t, 7, v.marker)
}

// At-least-once may apply a part of the input again, each key from where it is.
func TestInputEndsTheSameAgain(t *testing.T) {
	in := input{seed: 3, keys: 30}
	for from := range int64(60) {
		again := in.after(300, store.WithHeaders)
		for i := from * 5; i < 300; i++ {
			o := in.at(i)
			for _, c := range o.rows {
				if _, has := again[string(c.Key)]; o.kind == opGet || o.kind == opPutIfAbsent && has {
					continue
				}
				again.apply(c, store.WithHeaders)
			}
		}
		require.False(t, compare(in.after(300, store.WithHeaders), again, equal).any())
	}
}

func TestCompareCounts(t *testing.T) {
	r := func(v string, ts int64) store.Row { return store.Row{Value: []byte(v), Timestamp: ts} }
	d := compare(rows{"a": r("1", 1), "b": r("1", 1), "c": r("1", 1), "d": r("1", 1)}, rows{"a": r("1", 1), "b": r("2", 1), "c": r("1", 2), "e": r("1", 1)}, equal)
	require.Equal(t, 3, d.Lost)
	require.Equal(t, 3, d.Invented)
	require.Len(t, d.Lines, 4)
}
