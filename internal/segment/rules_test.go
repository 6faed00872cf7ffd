package segment

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/formatdoc"
	"github.com/forebay-streams/forebay/store"
)

const page = "windowed.md"

func TestInterval(t *testing.T) {
	for _, v := range formatdoc.Rows(t, page, "interval", 2) {
		r, err := NewRules(formatdoc.Int(t, v[0]), 0)
		require.NoError(t, err)
		assert.Equal(t, formatdoc.Int(t, v[1]), r.Interval, v)
	}
	for _, bad := range [][2]int64{{-1, 0}, {0, -1}} {
		_, err := NewRules(bad[0], bad[1])
		require.ErrorIs(t, err, store.ErrConfig)
	}
}

func TestSegmentOfATime(t *testing.T) {
	for _, v := range formatdoc.Rows(t, page, "segment-of", 3) {
		r := Rules{Interval: formatdoc.Int(t, v[0])}
		assert.Equal(t, formatdoc.Int(t, v[2]), r.ID(formatdoc.Int(t, v[1])), v)
	}
}

func TestRetention(t *testing.T) {
	for _, v := range formatdoc.Rows(t, page, "retention", 6) {
		r := Rules{formatdoc.Int(t, v[0]), formatdoc.Int(t, v[1])}
		stream := formatdoc.Int(t, v[2])
		assert.Equal(t, formatdoc.Int(t, v[3]), r.MinLive(stream), v)
		assert.Equal(t, formatdoc.Int(t, v[4]), r.Expired(stream)+1, v)
		assert.Equal(t, formatdoc.Int(t, v[5]), r.Expired(stream), v)
		c := NewClock(r)
		c.Raise(stream)
		assert.True(t, c.Live(r.MinLive(stream)*r.Interval))
		assert.False(t, c.Live((r.MinLive(stream)-1)*r.Interval))
	}
}

func TestNames(t *testing.T) {
	for _, v := range formatdoc.Rows(t, page, "names", 4) {
		t.Run(v[1], func(t *testing.T) {
			rules, err := NewRules(retention, formatdoc.Int(t, v[0]))
			require.NoError(t, err)
			c := Config{Dir: t.TempDir(), Store: "s", Clock: NewClock(rules)}
			require.NoError(t, os.Mkdir(filepath.Join(c.Dir, v[1]), 0o755))
			found, err := c.list()
			if v[2] == "corrupt" {
				require.ErrorIs(t, err, store.ErrTaskCorrupted)
				require.ErrorContains(t, err, v[1])
				return
			}
			require.NoError(t, err)
			if v[2] == "skipped" {
				require.Empty(t, found)
				require.DirExists(t, filepath.Join(c.Dir, v[1]))
				return
			}
			require.Equal(t, []named{{formatdoc.Int(t, v[2]), v[1]}}, found)
			require.Equal(t, v[3], c.Name(found[0].id))
		})
	}
}

// A segment under a name of an older version is renamed when it is opened.
func TestOldNamesAreChanged(t *testing.T) {
	c := config(t, t.TempDir())
	table := open(t, c)
	require.NoError(t, table.Commit([]store.Change{change(1, "k", "v")}, checkpoint(5)))
	require.NoError(t, table.Close())
	require.NoError(t, os.Rename(filepath.Join(c.Dir, "store.60000"), filepath.Join(c.Dir, "store:60000")))
	got, known := open(t, c).Checkpoint()
	require.True(t, known)
	require.EqualValues(t, 5, got.Offset)
	require.Equal(t, []string{"store.60000"}, files(t, c))
}

func TestTwoNamesOfOneSegmentAreRefused(t *testing.T) {
	c := config(t, t.TempDir())
	for _, name := range []string{"store.60000", "store:60000"} {
		require.NoError(t, os.MkdirAll(filepath.Join(c.Dir, name), 0o755))
	}
	_, err := Open(c)
	require.ErrorIs(t, err, store.ErrTaskCorrupted)
	require.DirExists(t, filepath.Join(c.Dir, "store:60000"))
}

func TestKeysSortBySegment(t *testing.T) {
	var before []byte
	for _, id := range []int64{-1 << 63, -2, -1, 0, 1, 1<<63 - 1} {
		key := append(Key(nil, id), "own"...)
		require.Greater(t, string(key), string(before))
		before = key
		got, own := Split(key)
		require.Equal(t, id, got)
		require.Equal(t, "own", string(own))
	}
}

func TestClockFollowsCommitsAndAborts(t *testing.T) {
	c := NewClock(Rules{retention, interval})
	start := c.Now()
	require.EqualValues(t, -1, start.Stream)
	c.Raise(500_000)
	c.Raise(400_000)
	c.Put(500_000)
	c.NextSequence()
	c.NextLogged()
	c.NextLogged()
	want := State{Stream: 500_000, Floor: 6, Sequence: 1, Logged: 2}
	require.Equal(t, want, c.Now())
	require.Equal(t, want, c.At(true))
	require.Equal(t, start, c.At(false))
	require.Equal(t, []int64{8}, c.wanted)
	c.Aborted()
	require.Equal(t, start, c.Now())
	require.Empty(t, c.wanted)
	c.Raise(500_000)
	c.Committed()
	require.Equal(t, c.Now(), c.At(false))
	c.Wiped()
	require.Equal(t, start, c.Now())
	require.Equal(t, start, c.At(false))

	c.now.Sequence = 1<<31 - 1
	require.Zero(t, c.NextSequence())
}

func TestOpenErrorsNameTheSegmentAndLeaveNothingOpen(t *testing.T) {
	c := config(t, t.TempDir())
	table := open(t, c)
	c.Clock.Put(0)
	c.Clock.Put(60_000)
	require.NoError(t, table.Commit(nil, checkpoint(1)))
	require.NoError(t, table.Close())
	current := filepath.Join(c.Dir, "store.60000", "CURRENT")
	good, err := os.ReadFile(current)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(current, []byte("MANIFEST-999999\n"), 0o644))
	for range 2 { // a retry really tries again
		_, err = Open(c)
		require.ErrorContains(t, err, "store.60000")
		var named *store.Error
		require.True(t, errors.As(err, &named))
	}
	require.NoError(t, os.WriteFile(current, good, 0o644))
	require.Equal(t, []int64{0, 1}, open(t, c).IDs())
}

func ExampleRules() {
	r, _ := NewRules(3_600_000, 0)
	fmt.Println(r.Interval, r.ID(5_400_000), r.MinLive(5_400_000))
	// Output: 1800000 3 1
}
