package migration_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/base/basetest"
	"github.com/forebay-streams/forebay/store"
)

// upgrades are the ways from an older family to a newer one.
var upgrades = map[string]struct {
	families    []string
	old, target string
	ts          int64 // of a legacy row that was stored with 7
}{
	"plain to timestamped":   {[]string{D, offsets}, D, TS, store.NoTimestamp},
	"plain to headers":       {[]string{D, offsets}, D, HDR, store.NoTimestamp},
	"timestamped to headers": {[]string{D, TS, offsets}, TS, HDR, 7},
}

func TestDualMode(t *testing.T) {
	for name, u := range upgrades {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			dir := t.TempDir()
			legacy := raw{}
			for _, k := range []string{"a", "b", "c", "d", "e"} {
				legacy[k] = stored(layouts[u.old], "old "+k, 7)
			}
			build(t, dir, u.families, map[string]raw{u.old: legacy})
			layout := layouts[u.target]
			table := open(t, config(t, dir, layout))
			require.True(t, table.Migrating())
			old := func(k string) string { return fmt.Sprintf("old %s@%d", k, u.ts) }
			fresh := "new@9"
			if layout.HasHeaders() {
				fresh += " h"
			}

			assert.Equal(t, old("a"), get(t, table, "a"))
			assert.Equal(t, "absent", get(t, table, "x"))
			assert.Equal(t, []string{"a=" + old("a"), "b=" + old("b"), "c=" + old("c"), "d=" + old("d"), "e=" + old("e")}, scan(t, table, base.Span{}))

			before, err := table.Snapshot()
			require.NoError(t, err)
			defer before.Close()
			commit(t, table, 1, change("", row("new", 9, "h")), change("b", row("new", 9, "h")), change("c", store.Row{}),
				change("d", row("", 9, "h")), change("x", store.Row{}), change("z", row("new", 9, "h")))
			empty := strings.TrimPrefix(fresh, "new")
			want := []string{"=" + fresh, "a=" + old("a"), "b=" + fresh, "d=" + empty, "e=" + old("e"), "z=" + fresh}
			assert.Equal(t, want, scan(t, table, base.Span{}))
			assert.Equal(t, []string{want[5], want[4], want[3], want[2], want[1], want[0]}, scan(t, table, base.Span{Reverse: true}))
			assert.Equal(t, want[1:4], scan(t, table, base.Span{From: []byte("a"), To: []byte("d")}))
			assert.Equal(t, []string{want[2], want[1]}, scan(t, table, base.Span{From: []byte("a"), To: []byte("d"), Exclusive: true, Reverse: true}))
			assert.Equal(t, want[2:3], scan(t, table, base.Prefix([]byte("b"))))
			assert.Equal(t, fresh, get(t, table, "b"))
			assert.Equal(t, "absent", get(t, table, "c"))
			assert.Equal(t, empty, get(t, table, "d"))
			assert.Equal(t, fresh, get(t, table, ""))

			assert.Equal(t, old("b"), get(t, before, "b"), "the snapshot stays where it was")
			assert.Equal(t, old("c"), get(t, before, "c"))
			assert.Equal(t, "absent", get(t, before, "z"))
			assert.Len(t, scan(t, before, base.Span{Reverse: true}), 5)

			// On disk: each key once, legacy bytes untouched.
			require.NoError(t, table.Close())
			disk := dump(t, dir)
			assert.Equal(t, raw{"a": legacy["a"], "e": legacy["e"]}, disk[u.old])
			assert.Equal(t, raw{"": stored(layout, "new", 9), "b": stored(layout, "new", 9), "d": stored(layout, "", 9), "z": stored(layout, "new", 9)}, disk[u.target])
		})
	}
}

func TestEqualKeysInBothFamiliesShowOnce(t *testing.T) {
	for name, u := range upgrades {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			dir := t.TempDir()
			layout := layouts[u.target]
			families := append([]string{}, u.families...)
			legacy, fresh := raw{}, raw{}
			var want []string
			for i := range 300 {
				key := fmt.Sprintf("%03d", i)
				shown := ""
				if i%2 == 0 {
					legacy[key] = stored(layouts[u.old], "old", 7)
					shown = fmt.Sprintf("old@%d", u.ts)
				}
				if i%3 == 0 {
					fresh[key] = stored(layout, "new", 9)
					shown = "new@9"
					if layout.HasHeaders() {
						shown += " h"
					}
				}
				if shown != "" {
					want = append(want, key+"="+shown)
				}
			}
			build(t, dir, append(families, u.target), map[string]raw{u.old: legacy, u.target: fresh})
			table := open(t, config(t, dir, layout))
			assert.Equal(t, want, scan(t, table, base.Span{}))
			reversed := make([]string, len(want))
			for i, s := range want {
				reversed[len(want)-1-i] = s
			}
			assert.Equal(t, reversed, scan(t, table, base.Span{Reverse: true}))
			for _, s := range want {
				key, shown, _ := strings.Cut(s, "=")
				assert.Equal(t, shown, get(t, table, key))
			}
			commit(t, table, 1, change("000", store.Row{}), change("006", store.Row{}))
			assert.Equal(t, "absent", get(t, table, "000"), "a delete removes both")
			require.NoError(t, table.Close())
			disk := dump(t, dir)
			for _, family := range []string{u.old, u.target} {
				assert.NotContains(t, disk[family], "000")
				assert.NotContains(t, disk[family], "006")
			}
		})
	}
}

func TestReadsNeverWrite(t *testing.T) {
	noLeaks(t)
	dir := t.TempDir()
	legacy := raw{}
	for i := range 100 {
		legacy[fmt.Sprintf("%03d", i)] = ts8(int64(i)) + "value"
	}
	build(t, dir, []string{D, TS, offsets}, map[string]raw{TS: legacy})
	require.NoError(t, open(t, config(t, dir, store.WithHeaders)).Close(), "makes the families")
	before := dump(t, dir)
	table := open(t, config(t, dir, store.WithHeaders))
	for key := range legacy {
		assert.NotEqual(t, "absent", get(t, table, key))
	}
	assert.Len(t, scan(t, table, base.Span{}), 100)
	snapshot, err := table.Snapshot()
	require.NoError(t, err)
	assert.Len(t, scan(t, snapshot, base.Span{Reverse: true}), 100)
	snapshot.Close()
	require.NoError(t, table.Close())
	assert.Equal(t, before, dump(t, dir))
	assert.Equal(t, legacy, before[TS])
}

func TestCorruptLegacyRow(t *testing.T) {
	noLeaks(t)
	dir := t.TempDir()
	build(t, dir, []string{D, TS, offsets}, map[string]raw{TS: {"a": ts8(1) + "good", "bad": "1234567", "c": ts8(1)}})
	table := open(t, config(t, dir, store.WithHeaders))
	requireCorrupt := func(err error, family, key string) {
		t.Helper()
		require.ErrorIs(t, err, store.ErrCorrupt)
		var detail *store.CorruptError
		require.ErrorAs(t, err, &detail)
		assert.Equal(t, []string{"orders", family, key}, []string{detail.Store, detail.Family, string(detail.Key)})
	}
	var scratch []byte
	_, ok, err := table.Get([]byte("bad"), &scratch)
	assert.False(t, ok)
	requireCorrupt(err, TS, "bad")
	for _, reverse := range []bool{false, true} {
		c := table.Scan(base.Span{Reverse: reverse})
		rows, err := basetest.Read(c)
		requireCorrupt(err, TS, "bad")
		assert.Len(t, rows, 1)
		assert.False(t, c.Next())
		c.Close()
		requireCorrupt(c.Err(), TS, "bad")
	}
	assert.Equal(t, "good@1", get(t, table, "a"))

	commit(t, table, 1, change("bad", row("repaired", 2)))
	assert.Equal(t, []string{"a=good@1", "bad=repaired@2", "c=@1"}, scan(t, table, base.Span{}))
	require.NoError(t, table.Close())

	// In the new family, a size beyond the row.
	build(t, dir, list(t, dir), map[string]raw{HDR: {"bad": "\x7f"}})
	table = open(t, config(t, dir, store.WithHeaders))
	_, _, err = table.Get([]byte("bad"), &scratch)
	requireCorrupt(err, HDR, "bad")
}

// The rows that Kafka Streams converts, to the byte.
func TestConvertedRows(t *testing.T) {
	noLeaks(t)
	for name, c := range map[string]struct {
		families    []string
		old, target string
		stored      string
		want        string
	}{
		"plain to timestamped":   {[]string{D, offsets}, D, TS, "7631", "ffffffffffffffff7631"},
		"plain to headers":       {[]string{D, offsets}, D, HDR, "7631", "00ffffffffffffffff7631"},
		"timestamped to headers": {[]string{D, TS, offsets}, TS, HDR, "00000000000003e87631", "0000000000000003e87631"},
		"a negative timestamp":   {[]string{D, TS, offsets}, TS, HDR, "ffffffffffffffff7631", "00ffffffffffffffff7631"},
		"no value":               {[]string{D, TS, offsets}, TS, HDR, "00000000000003e8", "0000000000000003e8"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "orders")
			build(t, dir, c.families, map[string]raw{c.old: {"k": unhex(c.stored)}})
			table := open(t, config(t, dir, layouts[c.target]))
			var scratch []byte
			r, ok, err := table.Get([]byte("k"), &scratch)
			require.NoError(t, err)
			require.True(t, ok)
			commit(t, table, 1, change("k", r.Clone()))
			require.NoError(t, table.Close())
			assert.Equal(t, raw{"k": unhex(c.want)}, dump(t, dir)[c.target])
			assert.Empty(t, dump(t, dir)[c.old])
		})
	}
}

func TestApproximateCountIsTheSumOfBoth(t *testing.T) {
	noLeaks(t)
	dir := t.TempDir()
	build(t, dir, []string{D, offsets}, map[string]raw{D: {"a": "1", "b": "2"}})
	table := open(t, config(t, dir, store.Timestamped))
	n, err := table.ApproximateCount()
	require.NoError(t, err)
	assert.Equal(t, int64(2), n)
	require.NoError(t, table.Commit([]store.Change{change("c", row("3", 1))}, base.Checkpoint{}))
	n, err = table.ApproximateCount()
	require.NoError(t, err)
	assert.GreaterOrEqual(t, n, int64(1))
	assert.LessOrEqual(t, n, int64(3))
}
