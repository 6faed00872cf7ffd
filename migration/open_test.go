package migration_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/base/basetest"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

// What an open does: the families to read from, new one first, and those there are
// afterwards; or the parts of its error.
type outcome struct {
	reads   []string
	listed  []string
	refused []string
}

func reads(families ...string) outcome { return outcome{reads: families} }

func (o outcome) leaving(families ...string) outcome {
	o.listed = families
	return o
}

func refused(parts ...string) outcome { return outcome{refused: parts} }

var (
	remedy = "delete the local state and restore it from the changelog"
	errorA = refused("it was written by a timestamped store and cannot be opened as a plain one", "open it as timestamped", remedy)
	errorB = refused("it was written by a headers store and cannot be opened as a timestamped one", "open it as headers", remedy)
	errorC = refused("it was written by a headers store and cannot be opened as a plain one", "open it as headers", remedy)
	errorE = refused("column family \"sessionKeyValueWithHeaders\" of a session store with headers", remedy)
	errorF = refused("it holds plain and timestamped rows", "open it once as a timestamped store", remedy)
)

var layouts = map[string]store.Layout{D: store.Plain, TS: store.Timestamped, HDR: store.WithHeaders}

func TestEveryDirectoryInEveryFormat(t *testing.T) {
	for name, c := range map[string]struct {
		families []string // in order of creation
		full     []string // those with rows
		plain    outcome
		ts       outcome
		headers  outcome
	}{
		"nothing": {nil, nil,
			reads(D).leaving(D, offsets), reads(TS).leaving(D, TS, offsets), reads(HDR).leaving(D, HDR, offsets)},
		"default without rows": {[]string{D}, nil,
			reads(D).leaving(D, offsets), reads(TS).leaving(D, TS, offsets), reads(HDR).leaving(D, HDR, offsets)},
		"4.3 default without rows": {[]string{D, offsets}, nil,
			reads(D).leaving(D, offsets), reads(TS).leaving(D, offsets, TS), reads(HDR).leaving(D, offsets, HDR)},
		"default": {[]string{D}, []string{D},
			reads(D).leaving(D, offsets), reads(TS, D).leaving(D, TS, offsets), reads(HDR, D).leaving(D, HDR, offsets)},
		"4.3 default": {[]string{D, offsets}, []string{D},
			reads(D).leaving(D, offsets), reads(TS, D).leaving(D, offsets, TS), reads(HDR, D).leaving(D, offsets, HDR)},
		"TS": {[]string{D, TS, offsets}, []string{TS},
			errorA, reads(TS).leaving(D, TS, offsets), reads(HDR, TS).leaving(D, TS, offsets, HDR)},
		"4.2 TS": {[]string{D, TS}, []string{TS},
			errorA, reads(TS).leaving(D, TS, offsets), reads(HDR, TS).leaving(D, TS, HDR, offsets)},
		"TS without rows": {[]string{D, TS, offsets}, nil,
			errorA, reads(TS).leaving(D, TS, offsets), reads(HDR).leaving(D, offsets, HDR)},
		"TS and default": {[]string{D, TS, offsets}, []string{D, TS},
			errorA, reads(TS, D).leaving(D, TS, offsets), errorF},
		"TS without rows and default": {[]string{D, TS, offsets}, []string{D},
			errorA, reads(TS, D).leaving(D, TS, offsets), errorF},
		"HDR": {[]string{D, HDR, offsets}, []string{HDR},
			errorC, errorB, reads(HDR).leaving(D, HDR, offsets)},
		"HDR without rows": {[]string{D, HDR, offsets}, nil,
			errorC, errorB, reads(HDR).leaving(D, HDR, offsets)},
		"HDR and default": {[]string{D, HDR, offsets}, []string{D, HDR},
			errorC, errorB, reads(HDR, D).leaving(D, HDR, offsets)},
		"HDR without rows and default": {[]string{D, offsets, HDR}, []string{D},
			errorC, errorB, reads(HDR, D).leaving(D, offsets, HDR)},
		"HDR and TS": {[]string{D, TS, offsets, HDR}, []string{TS, HDR},
			errorA, errorB, reads(HDR, TS).leaving(D, TS, offsets, HDR)},
		"HDR and TS without rows": {[]string{D, TS, offsets, HDR}, []string{HDR},
			errorA, errorB, reads(HDR).leaving(D, offsets, HDR)},
		"HDR, TS and default": {[]string{D, TS, offsets, HDR}, []string{D, TS, HDR},
			errorA, errorB, errorF},
		"HDR listed before TS": {[]string{D, HDR, TS, offsets}, []string{TS, HDR},
			errorC, errorB, reads(HDR, TS).leaving(D, HDR, TS, offsets)},
		"a session store": {[]string{D, "sessionKeyValueWithHeaders", offsets}, []string{D},
			errorE, errorE, errorE},
		"a session store, then TS": {[]string{D, "sessionKeyValueWithHeaders", TS, offsets}, []string{TS},
			errorE, errorE, errorE},
		"TS, then a session store": {[]string{D, TS, offsets, "sessionKeyValueWithHeaders"}, []string{TS},
			errorA, errorE, errorE},
	} {
		t.Run(name, func(t *testing.T) {
			for layout, want := range map[store.Layout]outcome{store.Plain: c.plain, store.Timestamped: c.ts, store.WithHeaders: c.headers} {
				t.Run(layout.String(), func(t *testing.T) {
					noLeaks(t)
					dir := filepath.Join(t.TempDir(), "orders")
					data := map[string]raw{}
					for _, f := range c.full {
						data[f] = raw{"in " + f: stored(layouts[f], "of "+f, 7), "in all": stored(layouts[f], "of "+f, 7)}
					}
					if c.families != nil {
						build(t, dir, c.families, data)
					}
					check(t, dir, layout, data, want)
				})
			}
		})
	}
}

// A time-ordered store and one that is not have other families, in every layout.
func TestTimeOrderedOrNot(t *testing.T) {
	for _, c := range []struct {
		family  string
		formats func() ([]migration.Format, error)
		says    []string
	}{
		{TS, func() ([]migration.Format, error) {
			return migration.OrderedWindowFormats(store.Timestamped, migration.Index{})
		},
			[]string{"written by a timestamped store that is not time-ordered; open it as that", remedy}},
		{HDR, func() ([]migration.Format, error) {
			return migration.OrderedWindowFormats(store.WithHeaders, migration.Index{})
		},
			[]string{"written by a headers store that is not time-ordered; open it as that", remedy}},
		{migration.WindowHeadersFamily, func() ([]migration.Format, error) { return migration.KeyValueFormats(store.WithHeaders) },
			[]string{`"windowKeyValueWithHeaders" of a time-ordered window store with headers; open it as that`, remedy}},
		{migration.WindowHeadersFamily, func() ([]migration.Format, error) {
			return migration.OrderedWindowFormats(store.Timestamped, migration.Index{})
		},
			[]string{"of a time-ordered window store with headers; open it as that", remedy}},
		{migration.SessionHeadersFamily, func() ([]migration.Format, error) { return migration.SessionFormats(store.Plain) },
			[]string{"of a session store with headers; open it as that", remedy}},
		{"rows", func() ([]migration.Format, error) { return migration.SessionFormats(store.Plain) },
			[]string{`"rows" of a store of another kind; open it as that`, remedy}},
	} {
		t.Run(c.family, func(t *testing.T) {
			noLeaks(t)
			dir := filepath.Join(t.TempDir(), "clicks")
			build(t, dir, []string{D, c.family, offsets}, nil)
			before := basetest.Files(t, dir)
			formats, err := c.formats()
			require.NoError(t, err)
			o := config(t, dir, store.Plain)
			o.Formats = formats
			_, err = migration.Open(o)
			require.ErrorIs(t, err, store.ErrIncompatible)
			for _, part := range c.says {
				require.ErrorContains(t, err, part)
			}
			require.Equal(t, before, basetest.Files(t, dir))
		})
	}
}

func check(t *testing.T, dir string, layout store.Layout, data map[string]raw, want outcome) {
	before := basetest.Files(t, dir)
	table, err := migration.Open(config(t, dir, layout))
	if want.refused != nil {
		require.ErrorIs(t, err, store.ErrIncompatible)
		var detail *store.Error
		require.ErrorAs(t, err, &detail)
		assert.Equal(t, "orders", detail.Store)
		for _, part := range want.refused {
			require.ErrorContains(t, err, part)
		}
		assert.Equal(t, before, basetest.Files(t, dir), "a refused directory stays as it was")
		return
	}
	require.NoError(t, err)
	defer func() { require.NoError(t, table.Close()) }()
	assert.Equal(t, len(want.reads) == 2, table.Migrating())
	assert.Equal(t, want.listed, list(t, dir))

	// Legacy rows first, for the new ones to win.
	rows := basetest.Rows{}
	for _, family := range slices.Backward(want.reads) {
		for k, v := range data[family] {
			b, err := layouts[family].Convert(nil, layout, []byte(v))
			require.NoError(t, err)
			rows[k], err = layout.Decode(b)
			require.NoError(t, err)
		}
	}
	basetest.RequireRows(t, rows.Within(base.Span{}), table.Scan(base.Span{}))
	for k, r := range rows {
		assert.Equal(t, show(r), get(t, table, k))
	}
	require.NoError(t, table.Flush())
	require.NoError(t, table.Close())
	left := dump(t, dir)
	for _, family := range want.listed {
		if family != offsets {
			assert.Equal(t, len(data[family]), len(left[family]), family)
		}
	}
}

func TestFormats(t *testing.T) {
	for layout, want := range map[store.Layout][]migration.Format{
		store.Plain:       {{Family: D, Layout: store.Plain}},
		store.Timestamped: {{Family: D, Layout: store.Plain}, {Family: TS, Layout: store.Timestamped}},
		store.WithHeaders: {{Family: D, Layout: store.Plain}, {Family: TS, Layout: store.Timestamped}, {Family: HDR, Layout: store.WithHeaders}},
	} {
		formats, err := migration.KeyValueFormats(layout)
		require.NoError(t, err)
		assert.Equal(t, want, formats)
	}
	_, err := migration.KeyValueFormats(store.Aggregation)
	require.ErrorIs(t, err, store.ErrConfig)
	require.ErrorContains(t, err, "aggregation")
}

// A store that upgraded and moved all rows is single from its next open, when the old
// family goes.
func TestUpgradeFromFirstToLastOpen(t *testing.T) {
	noLeaks(t)
	dir := t.TempDir()
	build(t, dir, []string{D, TS, offsets}, map[string]raw{TS: {"a": ts8(1) + "1", "b": ts8(2) + "2"}})
	table := open(t, config(t, dir, store.WithHeaders))
	commit(t, table, 1, change("a", row("new", 3, "h")))
	require.NoError(t, table.Close())

	table = open(t, config(t, dir, store.WithHeaders))
	assert.True(t, table.Migrating(), "one is left")
	assert.Equal(t, []string{"a=new@3 h", "b=2@2"}, scan(t, table, base.Span{}))
	commit(t, table, 2, change("b", row("new", 4)))
	assert.True(t, table.Migrating(), "fixed until the next open")
	require.NoError(t, table.Close())
	assert.Equal(t, []string{D, TS, offsets, HDR}, list(t, dir))

	table = open(t, config(t, dir, store.WithHeaders))
	assert.False(t, table.Migrating())
	assert.Equal(t, []string{"a=new@3 h", "b=new@4"}, scan(t, table, base.Span{}))
	commit(t, table, 3, change("c", row("3", 5)))
	require.NoError(t, table.Flush(), "without the dropped family")
	require.NoError(t, table.Close())
	assert.Equal(t, []string{D, offsets, HDR}, list(t, dir))
}

// A failed open frees everything and says where.
func TestFailedOpens(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, dir string){
		"CURRENT": func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "CURRENT"), []byte("damaged"), 0o600))
		},
		"MANIFEST": func(t *testing.T, dir string) {
			files, err := filepath.Glob(filepath.Join(dir, "MANIFEST-*"))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(files[0], []byte("damaged"), 0o600))
		},
		"a file instead": func(t *testing.T, dir string) {
			require.NoError(t, os.RemoveAll(dir))
			require.NoError(t, os.WriteFile(dir, nil, 0o600))
		},
		"open elsewhere": func(t *testing.T, dir string) { open(t, config(t, dir, store.WithHeaders)) },
		"offset of nine bytes": func(t *testing.T, dir string) {
			build(t, dir, list(t, dir), map[string]raw{offsets: {"app-orders-changelog-3": "123456789"}})
		},
		"status of no bytes": func(t *testing.T, dir string) {
			build(t, dir, list(t, dir), map[string]raw{offsets: {"status": ""}})
		},
		"position of another version": func(t *testing.T, dir string) {
			build(t, dir, list(t, dir), map[string]raw{offsets: {"position": "\x01\x00\x00\x00\x00"}})
		},
		"position cut": func(t *testing.T, dir string) {
			build(t, dir, list(t, dir), map[string]raw{offsets: {"position": "\x00\x00"}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			dir := filepath.Join(t.TempDir(), "orders")
			build(t, dir, []string{D, TS, offsets}, map[string]raw{TS: {"k": ts8(1)}})
			spoil(t, dir)
			_, err := migration.Open(config(t, dir, store.WithHeaders))
			require.ErrorContains(t, err, `store "orders": open: `)
			_, err = migration.Open(config(t, dir, store.Timestamped))
			require.Error(t, err)
		})
	}
}

func TestCorruptOffsetsNameTheirKey(t *testing.T) {
	noLeaks(t)
	for key, value := range map[string]string{"app-orders-changelog-3": "short", "position": "\x07", "status": "x"} {
		dir := t.TempDir()
		build(t, dir, []string{D, offsets}, map[string]raw{offsets: {key: value}})
		_, err := migration.Open(config(t, dir, store.Plain))
		require.ErrorIs(t, err, store.ErrCorrupt)
		var detail *store.CorruptError
		require.ErrorAs(t, err, &detail)
		assert.Equal(t, []string{"orders", offsets, key}, []string{detail.Store, detail.Family, string(detail.Key)})
	}
}

func TestTwoBudgetsOneDirectoryEach(t *testing.T) {
	noLeaks(t)
	budget := store.NewBudget(0, store.BlockCache(1<<20), store.WriteBuffers(1<<20))
	root := t.TempDir()
	tables := map[string]*migration.Table{}
	for _, name := range []string{"a", "b"} {
		c := config(t, filepath.Join(root, name), store.WithHeaders)
		c.Budget = budget
		tables[name] = open(t, c)
		commit(t, tables[name], 1, change("k", row(name, 1)))
	}
	for name, table := range maps.All(tables) {
		assert.Equal(t, name+"@1", get(t, table, "k"))
		require.NoError(t, table.Wipe(), "gives its share back and takes it again")
		assert.Equal(t, "absent", get(t, table, "k"))
	}
}
