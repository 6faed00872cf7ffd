package versioned

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/kv"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

func tryOpen(dir string, options ...Option) (*strings, error) {
	return Open(dir, "store", store.String(), store.String(), options...)
}

func TestBadOptions(t *testing.T) {
	for name, options := range map[string][]Option{
		"no history":         {},
		"negative history":   {History(-time.Second)},
		"interval too short": {History(time.Hour), SegmentInterval(time.Microsecond)},
		"negative interval":  {History(time.Hour), SegmentInterval(-time.Second)},
		"timestamped":        {History(time.Hour), Format(store.Timestamped)},
		"no format":          {History(time.Hour), Format(0)},
	} {
		dir := taskDir(t)
		_, err := tryOpen(dir, options...)
		require.ErrorIs(t, err, store.ErrConfig, name)
		require.NoDirExists(t, dir)
	}
	s, err := tryOpen("", History(0), InMemory())
	require.NoError(t, err)
	require.EqualValues(t, 2000, s.table.now.Interval)
	require.Equal(t, Latest, put(t, s, "k", "v", 5))
	require.Equal(t, TooOld, put(t, s, "k", "v", 4))
	require.NoError(t, s.Close())
}

// files are the names, sizes and times of a directory's files.
func files(t *testing.T, dir string) (list []string) {
	require.NoError(t, filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		list = append(list, path+info.ModTime().String()+info.Mode().String())
		return err
	}))
	return list
}

// A directory of another kind is refused, and stays as it was to the last file.
func TestRefusedDirectories(t *testing.T) {
	versionedRow := map[string]string{physicalKey(3, "k"): "x"}
	for name, build := range map[string]func(t *testing.T, dir string){
		"key-value": func(t *testing.T, dir string) {
			s, err := kv.Open(dir, "store", store.String(), store.String(), kv.Format(store.Plain))
			require.NoError(t, err)
			require.NoError(t, s.Put("a", value("v", 1)))
			require.NoError(t, s.Commit(ctx))
			require.NoError(t, s.Close())
		},
		"a long key": func(t *testing.T, dir string) {
			kafkaDirectory(t, dir, rocks.Default, map[string]string{"customer-17": "v"})
		},
		"key-value with headers": func(t *testing.T, dir string) {
			kafkaDirectory(t, dir, migration.HeadersFamily, nil)
		},
		"an id below -1": func(t *testing.T, dir string) {
			kafkaDirectory(t, dir, rocks.Default, map[string]string{"\xff\xff\xff\xff\xff\xff\xff\xfek": "v"})
		},
		"an id beyond all time": func(t *testing.T, dir string) {
			kafkaDirectory(t, dir, rocks.Default, map[string]string{"\x7f\xff\xff\xff\xff\xff\xff\xffk": "v"})
		},
		"a key of another kind behind segments": func(t *testing.T, dir string) {
			kafkaDirectory(t, dir, rocks.Default, map[string]string{physicalKey(3, "k"): "x", "zebra": "v"})
		},
		"another interval": func(t *testing.T, dir string) {
			s := open(t, dir, SegmentInterval(millis(11)))
			put(t, s, "k", "v", 1)
			commit(t, s)
			require.NoError(t, s.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := taskDir(t)
			build(t, dir)
			before := files(t, dir)
			_, err := tryOpen(dir, History(millis(30)), SegmentInterval(millis(10)))
			require.ErrorIs(t, err, store.ErrIncompatible)
			require.ErrorContains(t, err, "restore it from the changelog")
			require.Equal(t, before, files(t, dir))
		})
	}
	t.Run("headers as plain", func(t *testing.T) {
		dir := taskDir(t)
		kafkaDirectory(t, dir, migration.VersionsFamily, versionedRow)
		before := files(t, dir)
		_, err := tryOpen(dir, History(millis(30)), SegmentInterval(millis(10)), Format(store.Plain))
		require.ErrorIs(t, err, store.ErrIncompatible)
		require.ErrorContains(t, err, "open it with headers")
		require.Equal(t, before, files(t, dir))
	})
	t.Run("as key-value", func(t *testing.T) {
		dir := taskDir(t)
		kafkaDirectory(t, dir, migration.VersionsFamily, versionedRow)
		_, err := kv.Open(dir, "store", store.String(), store.String())
		require.ErrorIs(t, err, store.ErrIncompatible)
	})
	require.Zero(t, rocks.Live())
}

// offsets are the keys of the offsets family.
func offsets(t *testing.T, dir string) map[string]string {
	path := filepath.Join(dir, "rocksdb", "store")
	families, err := rocks.List(path)
	require.NoError(t, err)
	db, err := rocks.OpenReadOnly(path, families, t.TempDir())
	require.NoError(t, err)
	defer db.Close()
	out := map[string]string{}
	scan := db.Scan(db.Family(rocks.Offsets), base.Span{})
	defer scan.Close()
	for scan.Next() {
		out[string(scan.Key())] = string(scan.Value())
	}
	require.NoError(t, scan.Err())
	return out
}

// The notes are stored with each commit that changes them, by stores without a changelog
// too, whose commits forget all other keys.
func TestNotes(t *testing.T) {
	for name, options := range map[string][]Option{"logged": {Changelog(new(log))}, "not logged": nil} {
		t.Run(name, func(t *testing.T) {
			dir := taskDir(t)
			s := open(t, dir, options...)
			put(t, s, "k", "v", 7)
			commit(t, s)
			put(t, s, "k", "v", 1)
			commit(t, s)
			put(t, s, "k", "lost", 9)
			require.NoError(t, s.Close())
			notes := offsets(t, dir)
			require.Equal(t, "\x00\x00\x00\x00\x00\x00\x00\x0a", notes["forebay.segment-interval"])
			require.Equal(t, "\x00\x00\x00\x00\x00\x00\x00\x07", notes["forebay.stream-time"])
			require.NotContains(t, notes, "status")
			s = open(t, dir, options...)
			require.EqualValues(t, 7, s.StreamTime())
			require.NoError(t, s.Close())
		})
	}
}

func TestOtherOptions(t *testing.T) {
	dir, budget := taskDir(t), store.NewBudget(1<<20, store.Uncommitted(100))
	s := open(t, dir, Shared(budget), ExactlyOnce(), ChangelogTopic("elsewhere", 7))
	topic, partition := s.ChangelogPartition()
	require.Equal(t, "elsewhere", topic)
	require.EqualValues(t, 7, partition)
	require.False(t, s.NeedsCommit())
	put(t, s, "k", "a value of many bytes", 1)
	require.True(t, s.NeedsCommit())
	commit(t, s)
	require.NoError(t, s.Close())

	// Kafka Streams has not closed it.
	db, err := rocks.Open(filepath.Join(dir, "rocksdb", "store"), []string{rocks.Default, migration.VersionsFamily, rocks.Offsets},
		[]string{rocks.Default, migration.VersionsFamily, rocks.Offsets}, nil)
	require.NoError(t, err)
	batch := db.NewBatch(0)
	batch.Put(db.Family(rocks.Offsets), []byte("status"), []byte{7: 1})
	require.NoError(t, batch.Write())
	batch.Close()
	db.Close()
	_, err = tryOpen(dir, History(millis(30)), SegmentInterval(millis(10)), ExactlyOnce())
	require.ErrorIs(t, err, store.ErrTaskCorrupted)
	open(t, dir)
}

func TestMalformedNote(t *testing.T) {
	dir := taskDir(t)
	path := filepath.Join(dir, "rocksdb", "store")
	db, err := rocks.Open(path, []string{rocks.Default, rocks.Offsets}, nil, nil)
	require.NoError(t, err)
	batch := db.NewBatch(0)
	batch.Put(db.Family(rocks.Offsets), []byte(streamNote), []byte("7"))
	require.NoError(t, batch.Write())
	batch.Close()
	db.Close()
	_, err = tryOpen(dir, History(0))
	require.ErrorIs(t, err, store.ErrCorrupt)
	require.Zero(t, rocks.Live())
}
