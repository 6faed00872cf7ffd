package kv_test

import (
	"encoding/hex"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/kv"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

func TestRowsOnDisk(t *testing.T) {
	for _, c := range []struct {
		layout store.Layout
		family string
		plain  string // of v1 at 1000 without headers
		header string // the same with h=x
	}{
		{store.Plain, "default", "7631", "7631"},
		{store.Timestamped, "keyValueWithTimestamp", "00000000000003e87631", "00000000000003e87631"},
		{store.WithHeaders, "keyValueWithTimestampAndHeaders", "0000000000000003e87631", "0a0202680278" + "00000000000003e87631"},
	} {
		t.Run(c.layout.String(), func(t *testing.T) {
			dir := taskDir(t)
			s := open(t, dir, kv.Format(c.layout), kv.Changelog(&log{}))
			s.SetRecord(store.Record{Topic: "topic", Offset: 5, Timestamp: 1})
			require.NoError(t, s.Put("a", value("v1", 1000)))
			require.NoError(t, s.Put("b", value("v1", 1000, "h", "x")))
			require.NoError(t, s.Put("c", value("gone", 1000)))
			require.NoError(t, s.Commit(ctx))
			_, _, err := s.Delete("c")
			require.NoError(t, err)
			require.NoError(t, s.Commit(ctx))
			require.NoError(t, s.Close())
			families := dump(t, dir)
			require.Equal(t, map[string]string{"61": c.plain, "62": c.header}, families[c.family])
			require.Equal(t, map[string]string{
				hex.EncodeToString([]byte("app-store-changelog-0")): "0000000000000003",
				hex.EncodeToString([]byte("position")): "00" + "00000001" + "00000005" + "746f706963" + "00000001" + "00000000" + "0000000000000005" +
					strings.Repeat("00", 205-30),
			}, families["offsets"])
			for name, rows := range families {
				if name != c.family && name != "offsets" {
					require.Empty(t, rows, name)
				}
			}
		})
	}
}

// An explicit format is that format, the default included (AK #21777).
func TestExplicitPlainFormatMakesNoHeadersFamily(t *testing.T) {
	dir := taskDir(t)
	s := open(t, dir, kv.Format(store.Plain))
	require.NoError(t, s.Close())
	families := dump(t, dir)
	require.Len(t, families, 2)
	require.NotContains(t, families, migration.HeadersFamily)
}

func TestGetReturnsWhatWasPut(t *testing.T) {
	for _, options := range [][]kv.Option{{}, {kv.InMemory()}, {kv.Cache(store.NewBudget(1 << 20))}} {
		s := open(t, taskDir(t), options...)
		require.NoError(t, s.Put("k", value("v", 7, "a", "1", "a", "", "", "2")))
		require.NoError(t, s.Put("", value("", store.NoTimestamp)))
		for range 2 {
			v, ok, err := s.Get("k")
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, "v", v.Data)
			require.EqualValues(t, 7, v.Timestamp)
			require.Equal(t, []store.Header{{Key: "a", Value: []byte("1")}, {Key: "a", Value: []byte{}}, {Key: "", Value: []byte("2")}}, v.Headers.List())
			v, ok, err = s.Get("")
			require.NoError(t, err)
			require.True(t, ok, "an empty value is a value, and an empty key a key")
			require.Equal(t, value("", store.NoTimestamp), v)
			_, ok, err = s.Get("x")
			require.NoError(t, err)
			require.False(t, ok)
			require.NoError(t, s.Commit(ctx))
		}
		n, err := s.ApproximateCount()
		require.NoError(t, err)
		require.EqualValues(t, 2, n)
		require.NoError(t, s.Close())
	}
}

func TestScans(t *testing.T) {
	s := open(t, taskDir(t))
	for _, k := range []string{"a", "aa", "ab", "b", "b\xff", "c"} {
		require.NoError(t, s.Put(k, value("1", 1)))
	}
	require.NoError(t, s.Commit(ctx))
	require.NoError(t, s.Put("ab", value("2", 1)))
	view := s.View(store.ReadUncommitted)
	for _, x := range []interface {
		Range(...kv.Bound[string]) iter.Seq2[kv.Row[string, string], error]
		ReverseRange(...kv.Bound[string]) iter.Seq2[kv.Row[string, string], error]
		All() iter.Seq2[kv.Row[string, string], error]
		ReverseAll() iter.Seq2[kv.Row[string, string], error]
		Prefix([]byte) iter.Seq2[kv.Row[string, string], error]
	}{s, view} {
		require.Equal(t, []string{"a=1", "aa=1", "ab=2", "b=1", "b\xff=1", "c=1"}, collect(t, sequence(x.All())))
		require.Equal(t, []string{"c=1", "b\xff=1", "b=1", "ab=2", "aa=1", "a=1"}, collect(t, sequence(x.ReverseAll())))
		require.Equal(t, []string{"aa=1", "ab=2", "b=1"}, collect(t, sequence(x.Range(kv.From("aa"), kv.To("b")))))
		require.Equal(t, []string{"b=1", "ab=2", "aa=1"}, collect(t, sequence(x.ReverseRange(kv.From("aa"), kv.To("b")))))
		require.Equal(t, []string{"a=1", "aa=1"}, collect(t, sequence(x.Range(kv.To("aa")))))
		require.Equal(t, []string{"c=1"}, collect(t, sequence(x.Range(kv.From("bz"), kv.From("b\xff\xff")))), "the last bound counts")
		require.Empty(t, collect(t, sequence(x.Range(kv.From("b"), kv.To("a")))), "inverted")
		require.Equal(t, []string{"b=1", "b\xff=1"}, collect(t, sequence(x.Prefix([]byte("b")))))
		require.Equal(t, []string{"b\xff=1"}, collect(t, sequence(x.Prefix([]byte("b\xff")))))
		require.Empty(t, collect(t, sequence(x.Prefix([]byte("\xff")))))
		require.Empty(t, collect(t, sequence(x.Range(kv.To("")))), "the empty key is no open end")
	}
}

func TestScansEndHoweverTheLoopIsLeft(t *testing.T) {
	s := open(t, taskDir(t))
	for _, k := range []string{"a", "b", "c"} {
		require.NoError(t, s.Put(k, value("1", 1)))
	}
	require.NoError(t, s.Commit(ctx))
	for range s.All() {
		require.EqualValues(t, 1, s.OpenScans())
		break
	}
	require.Panics(t, func() {
		for range s.All() {
			panic("in the loop")
		}
	})
	require.Zero(t, s.OpenScans())
	_, stop := iter.Pull2(s.All())
	require.Zero(t, s.OpenScans(), "nothing is opened before the first step")
	next, stop2 := iter.Pull2(s.All())
	_, err, ok := next()
	require.NoError(t, err)
	require.True(t, ok)
	require.EqualValues(t, 1, s.OpenScans())
	require.NoError(t, s.Close())
	for {
		if _, err, ok = next(); !ok || err != nil {
			break
		}
	}
	stop()
	stop2()
	require.Zero(t, s.OpenScans())
	for _, err := range s.All() {
		require.ErrorIs(t, err, store.ErrClosed)
	}
}

func TestClonedRowsSurviveTheScan(t *testing.T) {
	s := open(t, taskDir(t))
	for _, k := range []string{"a", "b", "c"} {
		require.NoError(t, s.Put(k, value(k, 1, "h", k)))
	}
	require.NoError(t, s.Commit(ctx))
	var kept []kv.Row[string, string]
	for row, err := range s.All() {
		require.NoError(t, err)
		kept = append(kept, row.Clone())
	}
	for range s.ReverseAll() {
	}
	for _, row := range kept {
		h, ok := row.Headers.Last("h")
		require.True(t, ok)
		require.Equal(t, row.Key, string(h.Value))
	}
}

func TestPutIfAbsentAndPutAll(t *testing.T) {
	l := &log{}
	s := open(t, taskDir(t), kv.Changelog(l))
	s.SetRecord(record(0, 5))
	_, present, err := s.PutIfAbsent("k", value("1", 1))
	require.NoError(t, err)
	require.False(t, present)
	old, present, err := s.PutIfAbsent("k", value("2", 1))
	require.NoError(t, err)
	require.True(t, present)
	require.Equal(t, "1", old.Data)
	require.Len(t, l.changes, 1, "what was present is not logged")
	require.NoError(t, s.PutAll(
		kv.Row[string, string]{Key: "k", Value: value("3", 1)},
		kv.Row[string, string]{Key: "l", Value: value("4", 1)},
		kv.Row[string, string]{Key: "k", Value: value("5", 1)}))
	require.Equal(t, []string{"k=5", "l=4"}, collect(t, sequence(s.All())))
	require.Len(t, l.changes, 4)
	old, present, err = s.Delete("l")
	require.NoError(t, err)
	require.True(t, present)
	require.Equal(t, "4", old.Data)
	_, present, err = s.Delete("l")
	require.NoError(t, err)
	require.False(t, present)
	require.Len(t, l.changes, 6, "a delete of an absent key is logged")
	require.NoError(t, s.Tombstone("k"))
	require.Empty(t, collect(t, sequence(s.All())))
	require.Nil(t, l.last(t).Value)
}

// A changelog keeps what it is given until it is acknowledged: keys must not lie in a
// buffer that the next put uses again.
func TestLoggedBytesNeverChange(t *testing.T) {
	for _, options := range [][]kv.Option{{}, {kv.InMemory()}, {kv.Cache(store.NewBudget(0))}, {kv.Cache(store.NewBudget(1 << 20))}} {
		l := &log{}
		s := open(t, taskDir(t), append(options, kv.Changelog(l))...)
		s.SetRecord(record(0, 5))
		for _, k := range []string{"a", "b", "c"} {
			require.NoError(t, s.Put(k, value(k, 1, "h", k)))
		}
		require.NoError(t, s.PutAll(kv.Row[string, string]{Key: "d", Value: value("d", 1, "h", "d")}, kv.Row[string, string]{Key: "e", Value: value("e", 1, "h", "e")}))
		require.NoError(t, s.Tombstone("f"))
		_, _, err := s.Delete("g")
		require.NoError(t, err)
		_, _, err = s.PutIfAbsent("h", value("h", 1, "h", "h"))
		require.NoError(t, err)
		for range 3 {
			_, _, err = s.Get("zzzzzzzz")
			require.NoError(t, err)
		}
		require.NoError(t, s.Commit(ctx))
		var keys, values, headers string
		for _, c := range l.changes {
			keys += string(c.Key)
			values += string(c.Value)
			h, _ := c.Headers.Last("h")
			headers += string(h.Value)
		}
		require.Equal(t, []string{"abcdefgh", "abcdeh", "abcdeh"}, []string{keys, values, headers})
	}
}

func TestCloseDropsWhatIsNotCommitted(t *testing.T) {
	dir := taskDir(t)
	s := open(t, dir, kv.Changelog(&log{}))
	s.SetRecord(record(4, 5))
	require.NoError(t, s.Put("a", value("1", 1)))
	require.NoError(t, s.Commit(ctx))
	s.SetRecord(record(5, 5))
	require.NoError(t, s.Put("a", value("2", 1)))
	require.NoError(t, s.Put("b", value("2", 1)))
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Put("a", value("3", 1)), store.ErrClosed)
	require.ErrorIs(t, s.Commit(ctx), store.ErrClosed)
	_, _, err := s.View(store.ReadCommitted).Get("a")
	require.ErrorIs(t, err, store.ErrClosed)

	s = open(t, dir, kv.Changelog(&log{}))
	require.Equal(t, []string{"a=1"}, collect(t, sequence(s.All())))
	require.Equal(t, "{in-0:4}", s.Position().String())
	offset, ok := s.RestoredOffset()
	require.True(t, ok)
	require.Zero(t, offset)
}

func TestBadConfigurationIsRefused(t *testing.T) {
	dir := taskDir(t)
	for _, c := range []struct {
		name    string
		options []kv.Option
		want    string
	}{
		{"", nil, "name"},
		{"a/b", nil, "name"},
		{"..", nil, "name"},
		{"rocksdb", nil, "name"},
		{".checkpoint", nil, "name"},
		{"s", []kv.Option{kv.Cache(nil)}, "Cache"},
		{"s", []kv.Option{kv.Format(store.Aggregation)}, "aggregation"},
		{"s", []kv.Option{kv.Format(0)}, "layout(0)"},
	} {
		_, err := kv.Open(dir, c.name, store.String(), store.String(), c.options...)
		require.ErrorIs(t, err, store.ErrConfig)
		require.ErrorContains(t, err, c.want)
		var e *store.Error
		require.True(t, errors.As(err, &e))
		require.Equal(t, c.name, e.Store)
	}
	_, err := kv.Open("", "s", store.String(), store.String())
	require.ErrorIs(t, err, store.ErrConfig)
	s, err := kv.Open("", "s", store.String(), store.String(), kv.InMemory())
	require.NoError(t, err)
	topic, partition := s.ChangelogPartition()
	require.Equal(t, "s-changelog", topic)
	require.Zero(t, partition)
	require.NoError(t, s.Close())
}

func TestChangelogNameFollowsTheTaskDirectory(t *testing.T) {
	for dir, want := range map[string]int32{store.TaskDir("/x", "app", 0, 0): 0, store.TaskDir("/x", "app", 2, 17): 17, "/x/app/global": 0} {
		s, err := kv.Open(dir, "totals", store.String(), store.String(), kv.InMemory())
		require.NoError(t, err)
		topic, partition := s.ChangelogPartition()
		require.Equal(t, "app-totals-changelog", topic)
		require.Equal(t, want, partition, dir)
		require.NoError(t, s.Close())
	}
}
