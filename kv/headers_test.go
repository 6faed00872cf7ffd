package kv_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/kv"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

// spy is a serde that notes the headers of each call and adds one of its own when it
// serializes, as a serde does that keeps its schema id there.
type spy struct {
	name  string
	calls *[]string
}

func (s spy) Serialize(topic string, h *store.Headers, v string) ([]byte, error) {
	*s.calls = append(*s.calls, s.name+" writes "+names(*h)+" to "+topic)
	if v == "nil" {
		return nil, nil
	}
	return []byte(v), h.Add(s.name, []byte("id"))
}

func (s spy) Deserialize(topic string, h *store.Headers, b []byte) (string, error) {
	*s.calls = append(*s.calls, s.name+" reads "+names(*h))
	_ = h.Add("seen", nil) // private: must show nowhere
	return string(b), nil
}

func names(h store.Headers) string {
	s := "["
	for x := range h.All() {
		if len(s) > 1 {
			s += " "
		}
		s += x.Key
	}
	return s + "]"
}

func openSpied(t *testing.T, layout store.Layout, l *log, options ...kv.Option) (*kv.Store[string, string], func() []string) {
	calls := &[]string{}
	options = append(options, kv.Format(layout), kv.Changelog(l))
	s, err := kv.Open(taskDir(t), "store", spy{"key", calls}, spy{"value", calls}, options...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s, func() []string {
		out := *calls
		*calls = nil
		return out
	}
}

// The order of serde calls and the headers that each sees, per operation.
func TestSerdeCalls(t *testing.T) {
	const topic = " to app-store-changelog"
	for _, cache := range []bool{false, true} {
		l := &log{}
		var options []kv.Option
		if cache {
			options = append(options, kv.Cache(store.NewBudget(1<<20)))
		}
		s, calls := openSpied(t, store.WithHeaders, l, options...)
		s.SetRecord(record(0, 50, "rec", "1"))

		require.NoError(t, s.Put("k", value("v", 1, "row", "1")))
		require.Equal(t, []string{"key writes [row]" + topic, "value writes [row key]" + topic}, calls())
		require.NoError(t, s.Commit(ctx))
		require.Equal(t, "[row key value]", names(l.last(t).Headers), "what serializers add is logged")

		v, _, err := s.Get("k")
		require.NoError(t, err)
		require.Equal(t, []string{"key writes [rec]" + topic, "value reads [row key value]"}, calls())
		require.Equal(t, "[row key value]", names(v.Headers), "and stored; what deserializers add is not seen")

		for row, err := range s.Range(kv.From("a")) {
			require.NoError(t, err)
			require.Equal(t, "[row key value]", names(row.Headers))
		}
		require.Equal(t, []string{"key writes [rec]" + topic, "value reads [row key value]", "key reads [row key value]"}, calls(),
			"value first, and the key with the entry's headers")

		_, _, err = s.Delete("k")
		require.NoError(t, err)
		require.NoError(t, s.Commit(ctx))
		require.Equal(t, []string{"key writes [rec]" + topic, "value reads [row key value]"}, calls())
		require.Nil(t, l.last(t).Value)
		require.Equal(t, "[rec key]", names(l.last(t).Headers))
		require.EqualValues(t, 50, l.last(t).Timestamp)

		require.NoError(t, s.Put("k", value("nil", 1, "row", "1")))
		require.NoError(t, s.Commit(ctx))
		require.Nil(t, l.last(t).Value, "a value that its serializer makes nil deletes")
		require.Equal(t, "[rec key]", names(l.last(t).Headers))
	}
}

func TestSerdesOfStoresWithoutHeadersSeeTheRecords(t *testing.T) {
	for _, layout := range []store.Layout{store.Plain, store.Timestamped} {
		l := &log{}
		s, calls := openSpied(t, layout, l)
		s.SetRecord(record(0, 50, "rec", "1"))
		require.NoError(t, s.Put("k", value("v", 1, "row", "1")))
		require.Equal(t, "key writes [rec] to app-store-changelog", calls()[0])
		require.True(t, l.last(t).Headers.Empty(), "nothing is logged beside the value")
		_, _, err := s.Delete("k")
		require.NoError(t, err)
		require.True(t, l.last(t).Headers.Empty())
	}
}

// AK #21639: a tombstone carries the headers of the record that caused it, and neither
// leaks into the other.
func TestTombstoneHeadersAreACopy(t *testing.T) {
	l := &log{}
	s, _ := openSpied(t, store.WithHeaders, l, kv.Cache(store.NewBudget(1<<20)))
	r := record(0, 50, "trace", "1")
	s.SetRecord(r)
	_, _, err := s.Delete("k")
	require.NoError(t, err)
	require.NoError(t, r.Headers.Add("later", nil))
	s.SetRecord(record(1, 60, "other", "1"))
	require.NoError(t, s.Commit(ctx))
	require.Equal(t, "[trace key]", names(l.last(t).Headers))
	require.EqualValues(t, 50, l.last(t).Timestamp, "of the record that deleted, not of the flush")
	require.Equal(t, "[trace later]", names(r.Headers))
}

// The caller's list is not the store's: adding to it after a put changes nothing, and a
// second put of it does not store a serializer's additions twice.
func TestPutTakesASnapshotOfTheHeaders(t *testing.T) {
	s, _ := openSpied(t, store.WithHeaders, &log{})
	s.SetRecord(record(0, 50))
	v := value("v", 1, "row", "1")
	require.NoError(t, s.Put("k", v))
	require.NoError(t, v.Headers.Add("later", nil))
	got, _, err := s.Get("k")
	require.NoError(t, err)
	require.Equal(t, "[row key value]", names(got.Headers))
	require.Equal(t, "[row later]", names(v.Headers))
	require.NoError(t, s.Put("k", v))
	got, _, err = s.Get("k")
	require.NoError(t, err)
	require.Equal(t, "[row later key value]", names(got.Headers))
}

func TestSerializerThatAddsToReadOnlyHeaders(t *testing.T) {
	s, _ := openSpied(t, store.WithHeaders, &log{})
	s.SetRecord(record(0, 50))
	v := value("v", 1, "row", "1")
	v.Headers.SetReadOnly()
	require.NoError(t, s.Put("k", v), "serdes get a private, writable view")
	require.True(t, v.Headers.ReadOnly())
}

func TestTimestampsInTheLog(t *testing.T) {
	for _, c := range []struct {
		layout store.Layout
		want   int64
	}{{store.Plain, 50}, {store.Timestamped, 7}, {store.WithHeaders, 7}} {
		l := &log{}
		s := open(t, taskDir(t), kv.Format(c.layout), kv.Changelog(l))
		require.ErrorIs(t, s.Put("k", value("v", -1)), store.ErrNegativeTimestamp, "there is no timestamp to log")
		_, ok, err := s.Get("k")
		require.NoError(t, err)
		require.False(t, ok, "and nothing was written")
		s.SetRecord(record(0, 50))
		require.NoError(t, s.Put("k", value("v", 7)))
		require.Equal(t, c.want, l.last(t).Timestamp)
		// A row upgraded from plain has timestamp −1. Put back, it is stored so, and logged
		// with the record's.
		require.NoError(t, s.Put("k", value("v", store.NoTimestamp)))
		require.EqualValues(t, 50, l.last(t).Timestamp)
		v, _, err := s.Get("k")
		require.NoError(t, err)
		require.Equal(t, store.NoTimestamp, v.Timestamp)
	}
}

func TestNilKeys(t *testing.T) {
	s, err := kv.Open(taskDir(t), "store", store.Bytes(), store.Bytes())
	require.NoError(t, err)
	defer s.Close()
	require.ErrorIs(t, s.Put(nil, store.Value[[]byte]{Data: []byte("v")}), store.ErrNilKey)
	_, _, err = s.Get(nil)
	require.ErrorIs(t, err, store.ErrNilKey)
	require.NoError(t, s.Put([]byte{}, store.Value[[]byte]{Data: []byte{}}))
	_, ok, err := s.Get([]byte{})
	require.NoError(t, err)
	require.True(t, ok)
	require.NoError(t, s.Put([]byte{}, store.Value[[]byte]{}), "a nil value deletes")
	_, ok, err = s.Get([]byte{})
	require.NoError(t, err)
	require.False(t, ok)
}

// A malformed header block fails at the first look, and for a serde that takes headers
// before it is called.
func TestMalformedStoredBytes(t *testing.T) {
	dir := taskDir(t)
	path := filepath.Join(dir, "rocksdb", "store")
	s := open(t, dir)
	require.NoError(t, s.Close())
	families, err := rocks.List(path)
	require.NoError(t, err)
	db, err := rocks.Open(path, families, families, nil)
	require.NoError(t, err)
	batch := db.NewBatch(0)
	batch.Put(db.Family(migration.HeadersFamily), []byte("block"), []byte("\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07v"))
	batch.Put(db.Family(migration.HeadersFamily), []byte("size"), []byte("\x7f"))
	require.NoError(t, batch.Write())
	batch.Close()
	db.Close()

	s = open(t, dir)
	_, _, err = s.Get("size")
	require.ErrorIs(t, err, store.ErrCorrupt)
	var corrupt *store.CorruptError
	require.ErrorAs(t, err, &corrupt)
	require.Equal(t, "size_negative", corrupt.Reason)
	require.Equal(t, []string{"store", migration.HeadersFamily, "size"}, []string{corrupt.Store, corrupt.Family, string(corrupt.Key)})
	v, ok, err := s.Get("block")
	require.NoError(t, err, "this serde takes no headers")
	require.True(t, ok)
	require.Equal(t, "v", v.Data)
	require.ErrorIs(t, v.Headers.Err(), store.ErrCorrupt)
	require.Zero(t, v.Headers.Len())
	count := 0
	for _, err := range s.All() {
		if count++; count == 2 {
			require.ErrorIs(t, err, store.ErrCorrupt)
		}
	}
	require.Equal(t, 2, count, "the good row, then the error")
	require.Zero(t, s.OpenScans())
	require.NoError(t, s.Close())

	s = open(t, dir, kv.StrictHeaders())
	_, _, err = s.Get("block")
	require.ErrorIs(t, err, store.ErrCorrupt)
	require.NoError(t, s.Close())

	calls := &[]string{}
	aware, err := kv.Open(dir, "store", store.String(), spy{"value", calls}, kv.Changelog(&log{}))
	require.NoError(t, err)
	defer aware.Close()
	_, _, err = aware.Get("block")
	require.ErrorIs(t, err, store.ErrCorrupt)
	require.Empty(t, *calls)
	aware.SetRecord(record(0, 1))
	err = aware.Put("copy", store.Value[string]{Data: "v", Headers: v.Headers})
	require.ErrorIs(t, err, store.ErrCorrupt, "nothing unreadable is stored or logged")
}
