package versioned

import (
	"encoding/binary"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/internal/versions"
	"github.com/forebay-streams/forebay/store"
)

// What Kafka Streams 4.4 gets wrong, and forebay does not.

// A tombstone at the latest version's own time is not forgotten: an older version that
// comes later stays behind it.
func TestTombstoneAtTheLatestTimestamp(t *testing.T) {
	s := open(t, taskDir(t))
	require.Equal(t, Latest, put(t, s, "k", "v", 10))
	require.Equal(t, Latest, tombstone(t, s, "k", 10))
	require.Equal(t, Placed(10), put(t, s, "k", "old", 5))
	require.Equal(t, "-", show(s.Get("k")))
	require.Equal(t, bare("old", 5, 10), show(s.GetAsOf("k", 9)))
	require.Equal(t, Latest, tombstone(t, s, "k", 10), "again")
	require.Equal(t, Latest, put(t, s, "k", "new", 12))
	require.Equal(t, []string{bare("old", 5, 10), bare("new", 12, Forever)}, history(s, always, never))
}

// A range sees versions that ended long after it.
func TestBoundedHistory(t *testing.T) {
	s := open(t, taskDir(t))
	put(t, s, "k", "v1", 5)
	put(t, s, "k", "v2", 25)
	require.Equal(t, bare("v1", 5, 25), show(s.GetAsOf("k", 10)))
	require.Equal(t, []string{bare("v1", 5, 25)}, history(s, 0, 10))
	require.Equal(t, []string{bare("v1", 5, 25), bare("v2", 25, Forever)}, history(s, 24, 25))
	require.Equal(t, []string{bare("v2", 25, Forever)}, history(s, 25, 25))
	require.Empty(t, history(s, 0, 4))
}

// Segments and stream time are known again after a restart.
func TestReopen(t *testing.T) {
	dir := taskDir(t)
	reopen := func(s *strings) *strings {
		commit(t, s)
		require.NoError(t, s.Close())
		return open(t, dir)
	}
	s := open(t, dir)
	put(t, s, "k", "c", 23)
	put(t, s, "k", "d", 26)
	put(t, s, "k", "e", 52)
	s = reopen(s)
	require.EqualValues(t, 52, s.StreamTime())
	require.Equal(t, bare("c", 23, 26), show(s.GetAsOf("k", 25)), "history is complete before any put")
	require.Equal(t, TooOld, put(t, s, "k", "late", 21), "late stays late")
	put(t, s, "k", "h", 53)
	require.Equal(t, Placed(26), put(t, s, "k", "j", 24), "not behind c, where Kafka puts it")
	require.Equal(t, bare("j", 24, 26), show(s.GetAsOf("k", 24)))
	require.Equal(t, bare("c", 23, 24), show(s.GetAsOf("k", 23)))

	// An old version behind a tombstone that is not seen yet.
	tombstone(t, s, "t", 54)
	s = reopen(s)
	require.Equal(t, Placed(54), put(t, s, "t", "old", 51))
	require.Equal(t, "-", show(s.Get("t")))
	require.Equal(t, Latest, put(t, s, "t", "new", 55), "which Kafka fails to store, again and again")
	require.Equal(t, bare("old", 51, 54), show(s.GetAsOf("t", 53)))

	// Segments of an earlier run die too.
	put(t, s, "k", "end", 200)
	commit(t, s)
	for k := range rows(t, s) {
		id, _, _ := versions.SplitKey([]byte(k), 10)
		require.True(t, id == versions.Latest || id >= 17, "segment %d", id)
	}
}

// Of a directory that Kafka Streams wrote the stream time is known to one interval.
func TestStreamTimeOfKafkasDirectory(t *testing.T) {
	dir := taskDir(t)
	kafkaDirectory(t, dir, rocks.Default, map[string]string{
		physicalKey(2, "k"): string(row(26, versions.Entry{From: 23, Value: []byte("c")})),
		physicalKey(5, "k"): string(row(52, versions.Entry{From: 26, Value: []byte("d")})),
		latestKey("k"):      latestRow(52, "e"),
	})
	s := open(t, dir, Format(store.Plain))
	require.EqualValues(t, 50, s.StreamTime())
	require.Equal(t, TooOld, put(t, s, "k", "f", 19))
	require.Equal(t, bare("d", 26, 52), show(s.GetAsOf("k", 26)))
	require.Equal(t, []string{bare("c", 23, 26), bare("d", 26, 52), bare("e", 52, Forever)}, history(s, 20, never))
}

// Rows that a restart of Kafka left out of order answer in order, are counted, and are
// repaired by the next write.
func TestDamagedRows(t *testing.T) {
	for _, format := range []store.Layout{store.Plain, store.WithHeaders} {
		t.Run(format.String(), func(t *testing.T) { damagedRows(t, format) })
	}
}

func damagedRows(t *testing.T, format store.Layout) {
	dir := taskDir(t)
	kafkaDirectory(t, dir, rocks.Default, map[string]string{
		physicalKey(2, "k"): string(row(26, versions.Entry{From: 23, Value: []byte("c")}, versions.Entry{From: 24, Value: []byte("j")})),
		latestKey("k"):      latestRow(26, "d"),
	})
	s := open(t, dir, Format(format))
	require.Equal(t, bare("j", 24, 26), show(s.GetAsOf("k", 24)))
	require.Equal(t, bare("c", 23, 24), show(s.GetAsOf("k", 23)))
	require.Equal(t, []string{bare("c", 23, 24), bare("j", 24, 26), bare("d", 26, Forever)}, history(s, 0, never))
	require.NotZero(t, s.Stats().Damaged)
	require.Equal(t, Placed(26), put(t, s, "k", "new", 25))
	commit(t, s)
	damaged := s.Stats().Damaged
	require.Equal(t, bare("j", 24, 25), show(s.GetAsOf("k", 24)))
	require.Equal(t, damaged, s.Stats().Damaged)
}

// Each record of a batch counts at the stream time of its place, so that a tombstone whose
// segment is dead by the end of the batch still ends what was before it.
func TestBatchRestore(t *testing.T) {
	options := []Option{History(millis(50)), SegmentInterval(millis(7))}
	live := open(t, taskDir(t), append(options, Changelog(new(log)))...)
	l := live.core.Config.Log.(*log)
	put(t, live, "k", "c", 103)
	for _, ts := range []int64{110, 118, 121} {
		tombstone(t, live, "k", ts)
	}
	put(t, live, "k", "r", 126)
	require.Equal(t, Placed(103), put(t, live, "k", "f", 99))
	put(t, live, "other", "x", 169)
	commit(t, live)
	require.Equal(t, "-", show(live.GetAsOf("k", 120)), "Kafka answers f after a restore")
	for size := 1; size <= len(l.changes); size++ {
		s := open(t, taskDir(t), options...)
		for from := 0; from < len(l.changes); from += size {
			to := min(from+size, len(l.changes))
			require.NoError(t, s.RestoreBatch(l.changes[from:to], int64(to-1)))
		}
		require.Equal(t, "-", show(s.GetAsOf("k", 120)))
		require.Equal(t, rows(t, live), rows(t, s), "batches of %d", size)
		require.EqualValues(t, 169, s.StreamTime())
	}
}

// A version that Kafka made the latest behind a tombstone that it had not seen: the put
// that supersedes it fails there for ever.
func TestLatestBehindATombstone(t *testing.T) {
	dir := taskDir(t)
	kafkaDirectory(t, dir, rocks.Default, map[string]string{
		physicalKey(2, "k"): string(row(24, versions.Entry{From: 24})),
		latestKey("k"):      latestRow(21, "old"),
	})
	s := open(t, dir, Format(store.Plain))
	require.Equal(t, Latest, put(t, s, "k", "new", 25))
	require.Equal(t, []string{bare("old", 21, 24), bare("new", 25, Forever)}, history(s, 0, never))
	require.Equal(t, "-", show(s.GetAsOf("k", 24)))
	commit(t, s)
	require.Equal(t, map[string]string{
		physicalKey(2, "k"): string(row(24, versions.Entry{From: 21, Value: []byte("old")})),
		latestKey("k"):      latestRow(25, "new"),
	}, rows(t, s))
}

// A put of Kafka that crashed after its first write leaves a version twice.
func TestHalfAPut(t *testing.T) {
	dir := taskDir(t)
	kafkaDirectory(t, dir, rocks.Default, map[string]string{
		physicalKey(1, "k"): string(row(15, versions.Entry{From: 12, Value: []byte("a")})), // written
		latestKey("k"):      latestRow(12, "a"),                                            // not replaced yet
	})
	s := open(t, dir)
	require.Equal(t, bare("a", 12, Forever), show(s.Get("k")))
	require.Equal(t, Latest, put(t, s, "k", "b", 15), "replayed")
	require.Equal(t, []string{bare("a", 12, 15), bare("b", 15, Forever)}, history(s, 0, never))

	// A tombstone at the latest timestamp meets such a row as well.
	dir = taskDir(t)
	kafkaDirectory(t, dir, rocks.Default, map[string]string{
		physicalKey(1, "k"): string(row(15, versions.Entry{From: 12, Value: []byte("a")})),
		latestKey("k"):      latestRow(12, "a"),
	})
	s = open(t, dir)
	require.Equal(t, Latest, tombstone(t, s, "k", 12))
	require.Empty(t, history(s, 0, never))
	require.Equal(t, Placed(12), put(t, s, "k", "old", 5))
}

// A time in the future makes puts late, and a wipe forgets it.
func TestWipeForgetsStreamTime(t *testing.T) {
	s := open(t, taskDir(t), Changelog(new(log)))
	l := s.core.Config.Log.(*log)
	put(t, s, "quiet", "v", 0)
	put(t, s, "busy", "w", 31)
	require.Equal(t, TooOld, put(t, s, "quiet", "x", 0))
	commit(t, s)
	require.NoError(t, s.Wipe())
	require.EqualValues(t, -1, s.StreamTime())
	require.NoError(t, s.RestoreBatch(l.changes, 1))
	require.Equal(t, bare("v", 0, Forever), show(s.Get("quiet")))
	require.Zero(t, s.Stats().Skipped)
}

func row(next int64, entries ...versions.Entry) []byte {
	r := versions.Row{Next: next, Entries: entries}
	b, err := r.Encode()
	if err != nil {
		panic(err)
	}
	return b
}

func physicalKey(segment int64, key string) string {
	return string(versions.AppendKey(nil, segment, []byte(key)))
}

func latestKey(key string) string { return physicalKey(versions.Latest, key) }

func latestRow(ts int64, value string) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(ts))) + value
}

// kafkaDirectory makes the store's database as Kafka Streams leaves it.
func kafkaDirectory(t testing.TB, dir, family string, rows map[string]string) {
	t.Helper()
	families := []string{rocks.Default}
	if family != rocks.Default {
		families = append(families, family)
	}
	db, err := rocks.Open(filepath.Join(dir, "rocksdb", "store"), append(families, rocks.Offsets), nil, nil)
	require.NoError(t, err)
	defer db.Close()
	batch := db.NewBatch(0)
	defer batch.Close()
	for k, v := range rows {
		batch.Put(db.Family(family), []byte(k), []byte(v))
	}
	require.NoError(t, batch.Write())
	require.NoError(t, db.Flush())
}
