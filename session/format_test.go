package session_test

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/formatdoc"
	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/session"
	"github.com/forebay-streams/forebay/store"
)

const headersFamily = "sessionKeyValueWithHeaders"

// kinds are the stores on disk, with their column families in order of creation.
var kinds = map[string]struct {
	options  []session.Option
	families []string
}{
	"plain":           {[]session.Option{session.Format(store.Plain)}, []string{"default", "offsets"}},
	"headers":         {nil, []string{"default", headersFamily, "offsets"}},
	"noindex":         {[]session.Option{session.Format(store.Plain), session.TimeOrdered(false)}, []string{"default", "offsets"}},
	"index":           {[]session.Option{session.Format(store.Plain), session.TimeOrdered(true)}, []string{"default", "offsets"}},
	"ordered-headers": {[]session.Option{session.TimeOrdered(false)}, []string{"default", headersFamily, "offsets"}}, // has its index all the same
}

// segment is the directory of a segment.
func segment(dir, start string) string { return filepath.Join(dir, "store", "store."+start) }

// segments names the store's segments.
func segments(t testing.TB, dir string) (names []string) {
	entries, err := os.ReadDir(filepath.Join(dir, "store"))
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// dump returns key and value of a family in hex, read past the store.
func dump(t testing.TB, path, family string) map[string]string {
	listed, err := rocks.List(path)
	require.NoError(t, err)
	db, err := rocks.OpenReadOnly(path, listed, t.TempDir())
	require.NoError(t, err)
	defer db.Close()
	out := map[string]string{}
	scan := db.Scan(db.Family(family), base.Span{})
	defer scan.Close()
	for scan.Next() {
		out[hex.EncodeToString(scan.Key())] = hex.EncodeToString(scan.Value())
	}
	require.NoError(t, scan.Err())
	return out
}

func openRaw(t testing.TB, dir string, options ...session.Option) *bytesStore {
	t.Helper()
	s, err := session.Open(dir, "store", store.Bytes(), store.Bytes(), defaults(options...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestRowsOnDisk(t *testing.T) {
	for _, row := range formatdoc.Rows(t, "session.md", "session_rows", 8) {
		kind := kinds[row[0]]
		dir := taskDir(t)
		s := openRaw(t, dir, kind.options...)
		v := store.Value[[]byte]{Data: formatdoc.Hex(t, row[5]), Headers: store.HeadersOf(formatdoc.List(t, row[4]))}
		start, end := formatdoc.Int(t, row[2]), formatdoc.Int(t, row[3])
		require.NoError(t, s.Put(formatdoc.Hex(t, row[1]), start, end, v))
		require.NoError(t, s.Commit(ctx))
		require.NoError(t, s.Close())
		listed, err := rocks.List(segment(dir, "0"))
		require.NoError(t, err)
		require.Equal(t, kind.families, listed)
		rows := dump(t, segment(dir, "0"), listed[len(listed)-2])
		got, ok := rows[row[6]]
		require.True(t, ok, "%v: %v", row, rows)
		require.Equal(t, formatdoc.Hex(t, row[7]), formatdoc.Hex(t, got), row)
		want := 1
		if row[0] == "index" || row[0] == "ordered-headers" {
			want = 2
		}
		require.Len(t, rows, want)

		// A removal leaves nothing.
		s = openRaw(t, dir, kind.options...)
		require.NoError(t, s.Remove(formatdoc.Hex(t, row[1]), start, end))
		require.NoError(t, s.Commit(ctx))
		require.NoError(t, s.Close())
		require.Empty(t, dump(t, segment(dir, "0"), listed[len(listed)-2]))
	}
}

// seed writes rows of a segment past any store.
func seed(t testing.TB, path string, families []string, rows map[string]map[string]string) {
	db, err := rocks.Open(path, families, nil, nil)
	require.NoError(t, err)
	defer db.Close()
	batch := db.NewBatch(0)
	defer batch.Close()
	for family, list := range rows {
		for k, v := range list {
			batch.Put(db.Family(family), unhex(t, k), unhex(t, v))
		}
	}
	require.NoError(t, batch.Write())
	require.NoError(t, db.Flush())
}

func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

const (
	key1  = "41000000000000138800000000000003e8" // A[1000,5000]
	base1 = "00000000000000138800000000000003e841"
	index = "0141000000000000138800000000000003e8"
)

// What is on disk decides what a store with headers makes of a segment.
func TestUpgradeOfASegment(t *testing.T) {
	const ts = "keyValueWithTimestamp"
	for name, c := range map[string]struct {
		families []string
		rows     map[string]map[string]string
		dual     bool
		refused  bool
	}{
		"default is empty":             {families: []string{"default", "offsets"}},
		"default has rows":             {families: []string{"default", "offsets"}, rows: map[string]map[string]string{"default": {key1: "78"}}, dual: true},
		"timestamp family has rows":    {families: []string{"default", ts, "offsets"}, rows: map[string]map[string]string{ts: {key1: "78"}}, refused: true},
		"timestamp family, both empty": {families: []string{"default", ts, "offsets"}, refused: true},
		"timestamp family and rows in default": {families: []string{"default", ts, "offsets"},
			rows: map[string]map[string]string{"default": {key1: "78"}}, refused: true},
	} {
		dir := taskDir(t)
		seed(t, segment(dir, "0"), c.families, c.rows)
		s, err := session.Open(dir, "store", store.Bytes(), store.Bytes(), defaults()...)
		if c.refused {
			require.ErrorIs(t, err, store.ErrIncompatible, name)
			listed, err := rocks.List(segment(dir, "0"))
			require.NoError(t, err)
			require.Equal(t, c.families, listed, name)
			continue
		}
		require.NoError(t, err, name)
		stats, err := s.Migration()
		require.NoError(t, err)
		require.Equal(t, c.dual, stats.Migrating, name)
		v, ok, err := s.FetchSession([]byte("A"), 1000, 5000)
		require.NoError(t, err)
		require.Equal(t, c.dual, ok, name)
		if ok {
			require.Equal(t, []byte("x"), v.Data)
			require.True(t, v.Headers.Empty())
		}
		require.NoError(t, s.Close())
	}
}

// A directory with headers is not opened as plain.
func TestNoWayBack(t *testing.T) {
	dir := taskDir(t)
	s := open(t, dir)
	require.NoError(t, s.Put("A", 1000, 5000, value("x", "h", "1")))
	require.NoError(t, s.Commit(ctx))
	require.NoError(t, s.Close())
	_, err := session.Open(dir, "store", store.String(), store.String(), defaults(session.Format(store.Plain))...)
	require.ErrorIs(t, err, store.ErrIncompatible)
	require.ErrorContains(t, err, headersFamily)
}

// A put moves a plain row, and reads and other segments leave theirs.
func TestUpgradeGoesRowByRow(t *testing.T) {
	dir := taskDir(t)
	s := open(t, dir, session.Format(store.Plain))
	require.NoError(t, s.Put("A", 1000, 5000, value("x")))
	require.NoError(t, s.Put("B", 1000, 5000, value("y")))
	require.NoError(t, s.Put("A", 1000, 61_000, value("z")))
	require.NoError(t, s.Commit(ctx))
	require.NoError(t, s.Close())
	s = open(t, dir)
	require.NoError(t, s.Put("A", 1000, 5000, value("new", "h", "1")))
	require.NoError(t, s.Put("A", 1000, 121_000, value("third")))
	require.NoError(t, s.Commit(ctx))
	require.Equal(t, []string{"A[1000,5000]", "B[1000,5000]", "A[1000,61000]", "A[1000,121000]"}, collect(t, sequence(s.FetchKeys())))
	require.NoError(t, s.Close())
	require.Equal(t, map[string]string{"42000000000000138800000000000003e8": "79"}, dump(t, segment(dir, "0"), "default"))
	require.Equal(t, map[string]string{key1: "0a02026802316e6577"}, dump(t, segment(dir, "0"), headersFamily))
	require.Len(t, dump(t, segment(dir, "60000"), "default"), 1)
	require.Empty(t, dump(t, segment(dir, "60000"), headersFamily))
	require.Empty(t, dump(t, segment(dir, "120000"), "default"))
}

// Legacy rows of a time-ordered store read back unchanged, with an index or without.
func TestUpgradeOfATimeOrderedStore(t *testing.T) {
	for name, rows := range map[string]map[string]string{"index": {base1: "78", index: ""}, "noindex": {base1: "78"}} {
		dir := taskDir(t)
		seed(t, segment(dir, "0"), []string{"default", "offsets"}, map[string]map[string]string{"default": rows})
		s := open(t, dir, session.TimeOrdered(true))
		for row, err := range s.Fetch("A") {
			require.NoError(t, err)
			require.Equal(t, "x", row.Data, name)
			require.True(t, row.Headers.Empty())
		}
		require.Equal(t, []string{"A[1000,5000]"}, collect(t, sequence(s.Fetch("A"))), name)
		require.Equal(t, []string{"A[1000,5000]"}, collect(t, sequence(s.FindByEnd(0, 5000))), name)
		require.NoError(t, s.Put("A", 1000, 5000, value("new", "h", "1")))
		require.NoError(t, s.Commit(ctx))
		v, ok, err := s.FetchSession("A", 1000, 5000)
		require.NoError(t, err)
		require.True(t, ok)
		h, _ := v.Headers.Last("h")
		require.Equal(t, "1", string(h.Value))
		for row, err := range s.Fetch("A") {
			require.NoError(t, err)
			h, _ := row.Headers.Last("h")
			require.Equal(t, "1", string(h.Value), name)
		}
		require.NoError(t, s.Close())
		require.Empty(t, dump(t, segment(dir, "0"), "default"), name)
		require.Equal(t, map[string]string{base1: "6e6577", index: "0a0202680231"}, dump(t, segment(dir, "0"), headersFamily), name)
	}
}

// What Kafka Streams writes into index rows reads as no headers; an index row without a
// base row as nothing.
func TestIndexRowsOfKafka(t *testing.T) {
	for _, entry := range []string{"", "00"} {
		dir := taskDir(t)
		seed(t, segment(dir, "0"), []string{"default", headersFamily, "offsets"}, map[string]map[string]string{headersFamily: {
			base1: "78", index: entry, "0142000000000000138800000000000003e8": ""}})
		s := open(t, dir, session.TimeOrdered(true))
		require.Equal(t, []string{"A[1000,5000]"}, collect(t, sequence(s.FetchKeys())))
		v, ok, err := s.FetchSession("A", 1000, 5000)
		require.NoError(t, err)
		require.True(t, ok && v.Headers.Empty())
		require.Equal(t, "x", v.Data)
		require.NoError(t, s.Close())
	}
}
