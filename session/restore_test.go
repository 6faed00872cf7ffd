package session_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/windowkey"
	"github.com/forebay-streams/forebay/session"
	"github.com/forebay-streams/forebay/store"
)

func logged(key string, start, end int64, v string, headers ...string) store.Change {
	c := store.Change{Key: windowkey.Session.Append(nil, windowkey.SessionRow{Key: []byte(key), Start: start, End: end})}
	c.Value, c.Timestamp, c.Headers = []byte(v), 1, headerList(headers...)
	return c
}

// The table of one batch in this order, with a retention of an hour.
func TestRestoreJudgesByTheWholeBatch(t *testing.T) {
	batch := []store.Change{logged("A", 0, 0, "x"), logged("A", 0, 5_400_000, "x"), logged("A", 0, 1_800_000, "x")}
	for _, c := range []struct {
		options []session.Option
		dropped int64
		byEnd   []string
	}{
		{[]session.Option{session.TimeOrdered(true)}, 0, []string{"A[0,1800000]", "A[0,5400000]"}},
		{[]session.Option{session.InMemory()}, 1, []string{"A[0,5400000]"}},
	} {
		s, err := session.Open(taskDir(t), "store", store.String(), store.String(), append(c.options, session.Retention(time.Hour), session.Changelog(&log{}))...)
		require.NoError(t, err)
		require.NoError(t, s.RestoreBatch(batch, 2))
		require.Equal(t, c.dropped, s.Dropped())
		require.Equal(t, c.byEnd, collect(t, sequence(s.FindByEnd(0, 5_400_000))))
		require.Equal(t, []string{"A[0,5400000]"}, collect(t, sequence(s.Fetch("A"))))
		offset, ok := s.RestoredOffset()
		require.True(t, ok)
		require.EqualValues(t, 2, offset)
		require.NoError(t, s.Close())
	}
}

// Restored rows are those of puts, in every layout; a tombstone takes all of a row.
func TestRestoredBytes(t *testing.T) {
	for name, kind := range kinds {
		dir := taskDir(t)
		s := open(t, dir, append(kind.options[:len(kind.options):len(kind.options)], session.Changelog(&log{}))...)
		require.NoError(t, s.RestoreBatch([]store.Change{logged("A", 1000, 5000, "x", "h", "1"), logged("B", 1, 5, "x")}, 1))
		require.NoError(t, s.RestoreBatch([]store.Change{{Key: logged("B", 1, 5, "").Key}}, 2))
		require.NoError(t, s.Close())
		rows := dump(t, segment(dir, "0"), kind.families[len(kind.families)-2])
		want := map[string]map[string]string{
			"plain": {key1: "78"}, "headers": {key1: "0a020268023178"}, "noindex": {base1: "78"},
			"index": {base1: "78", index: ""}, "ordered-headers": {base1: "78", index: "0a0202680231"},
		}[name]
		require.Equal(t, want, rows, name)
	}
}

func TestRestoreRefusesWhatIsNoSession(t *testing.T) {
	s := open(t, taskDir(t), session.Changelog(&log{}))
	for _, key := range [][]byte{nil, []byte("short"), logged("A", 5, 4, "").Key, logged("A", -1, 4, "").Key} {
		err := s.RestoreBatch([]store.Change{logged("A", 0, 700_000, "x"), {Key: key}}, 1)
		require.ErrorIs(t, err, store.ErrCorrupt)
		require.EqualValues(t, -1, s.StreamTime(), "nothing has happened")
	}
	require.NoError(t, s.RestoreBatch([]store.Change{logged("", 0, 0, "x")}, 0))
}
