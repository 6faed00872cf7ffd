package migration

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/store"
)

const bare = "\x00" + stamp // no headers

func TestDowngrade(t *testing.T) {
	position := store.Position{}
	position.Advance("in", 0, 7)
	offsets := family{rocks.Offsets, map[string]string{"app-store-changelog-0": "\x00\x00\x00\x00\x00\x00\x00\x05", "position": string(position.Bytes())}}
	all := []DowngradeOption{DiscardHeaders(), DiscardTimestamps()}
	for _, c := range []struct {
		name     string
		families []family
		to       store.Layout
		options  []DowngradeOption
		want     map[string]map[string]string
		rows     int64
	}{
		{"headers to timestamped", []family{{name: rocks.Default}, {HeadersFamily, map[string]string{"a": bare + "1", "b": bare + ""}}},
			store.Timestamped, nil,
			map[string]map[string]string{rocks.Default: {}, TimestampedFamily: {"a": stamp + "1", "b": stamp}}, 2},
		{"with headers dropped", []family{{name: rocks.Default}, {HeadersFamily, map[string]string{"a": header + stamp + "1"}}},
			store.Timestamped, []DowngradeOption{DiscardHeaders()},
			map[string]map[string]string{rocks.Default: {}, TimestampedFamily: {"a": stamp + "1"}}, 1},
		{"headers to plain", []family{{name: rocks.Default}, {HeadersFamily, map[string]string{"a": header + stamp + "1"}}},
			store.Plain, all, map[string]map[string]string{rocks.Default: {"a": "1"}}, 1},
		{"half migrated from timestamped", []family{{name: rocks.Default}, {TimestampedFamily, map[string]string{"a": stamp + "old", "b": stamp + "2"}},
			{HeadersFamily, map[string]string{"a": bare + "new", "c": bare + "3"}}},
			store.Timestamped, nil,
			map[string]map[string]string{rocks.Default: {}, TimestampedFamily: {"a": stamp + "new", "b": stamp + "2", "c": stamp + "3"}}, 2},
		{"half migrated from timestamped, to plain", []family{{name: rocks.Default}, {TimestampedFamily, map[string]string{"a": stamp + "old", "b": stamp + "2"}},
			{HeadersFamily, map[string]string{"a": bare + "new", "c": bare + "3"}}},
			store.Plain, all, map[string]map[string]string{rocks.Default: {"a": "new", "b": "2", "c": "3"}}, 5},
		{"half migrated from plain", []family{{rocks.Default, map[string]string{"a": "old", "b": "2"}}, {HeadersFamily, map[string]string{"a": bare + "new", "c": bare + "3"}}},
			store.Timestamped, nil,
			map[string]map[string]string{rocks.Default: {}, TimestampedFamily: {"a": stamp + "new", "b": absent + "2", "c": stamp + "3"}}, 5},
		{"half migrated from plain, to plain", []family{{rocks.Default, map[string]string{"a": "old", "b": "2"}}, {HeadersFamily, map[string]string{"a": bare + "new", "c": bare + "3"}}},
			store.Plain, all, map[string]map[string]string{rocks.Default: {"a": "new", "b": "2", "c": "3"}}, 2},
		{"rows without a timestamp", []family{{name: rocks.Default}, {HeadersFamily, map[string]string{"a": "\x00" + absent + "1"}}},
			store.Plain, nil, map[string]map[string]string{rocks.Default: {"a": "1"}}, 1},
		{"nothing to do", []family{{rocks.Default, map[string]string{"a": "1"}}}, store.Plain, nil, map[string]map[string]string{rocks.Default: {"a": "1"}}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := build(t, append(c.families, offsets)...)
			result, err := Downgrade(dir, c.to, c.options...)
			require.NoError(t, err)
			require.Equal(t, c.rows, result.Rows)
			c.want[rocks.Offsets] = offsets.rows
			require.Equal(t, c.want, contents(t, dir))
			openTable(t, dir, c.to).Close()
		})
	}
}

func TestDowngradeRefusesLoss(t *testing.T) {
	dir := build(t, family{name: rocks.Default}, family{HeadersFamily, map[string]string{"a": bare + "1", "b": header + stamp + "2"}}, family{name: rocks.Offsets})
	before := contents(t, dir)
	_, err := Downgrade(dir, store.Timestamped)
	require.ErrorIs(t, err, ErrLossy)
	require.ErrorContains(t, err, "DiscardHeaders")
	_, err = Downgrade(dir, store.Plain, DiscardHeaders())
	require.ErrorIs(t, err, ErrLossy)
	require.ErrorContains(t, err, "DiscardTimestamps")
	_, err = Downgrade(dir, store.WithHeaders)
	require.ErrorIs(t, err, store.ErrConfig)
	require.Equal(t, before, contents(t, dir))
	_, err = Downgrade(filepath.Join(t.TempDir(), "none"), store.Plain)
	require.ErrorIs(t, err, store.ErrConfig)
	_, err = Downgrade(build(t, family{name: rocks.Default}, family{name: "strange"}), store.Plain)
	require.ErrorIs(t, err, store.ErrIncompatible)
}

// An interrupted downgrade leaves a directory that opens in the newer format with every
// row, and goes on when it is called again.
func TestDowngradeGoesOn(t *testing.T) {
	rows := many(100, func(int) string { return bare + "v" })
	delete(rows, "k00050")
	dir := build(t, family{rocks.Default, map[string]string{"k00050": "plain"}}, family{HeadersFamily, rows}, family{name: rocks.Offsets})
	stop := downgradeOption(func(d *downgrade) {
		d.rows = 30
		slices := 0
		d.afterSlice = func() {
			if slices++; slices == 3 { // one of them for the plain row
				panic("interrupted")
			}
		}
	})
	require.Panics(t, func() { _, _ = Downgrade(dir, store.Timestamped, stop) })
	now := contents(t, dir)
	require.Len(t, now[TimestampedFamily], 60)
	require.Len(t, now[HeadersFamily], 40)
	table := openTable(t, dir, store.WithHeaders)
	count := 0
	for c := table.Scan(base.Span{}); ; count++ {
		if !c.Next() {
			require.NoError(t, c.Err())
			c.Close()
			break
		}
	}
	require.Equal(t, 100, count)
	require.NoError(t, table.Close())
	result, err := Downgrade(dir, store.Timestamped)
	require.NoError(t, err)
	require.EqualValues(t, 40, result.Rows)
	want := many(100, func(int) string { return stamp + "v" })
	want["k00050"] = absent + "plain"
	require.Equal(t, want, contents(t, dir)[TimestampedFamily])
}

// For Kafka Streams up to 4.2 the offsets family goes and its content moves to files; a
// store that opens the directory again takes them over.
func TestDowngradeForKafka42AndBack(t *testing.T) {
	position := store.Position{}
	position.Advance("in", 0, 7)
	position.Advance("in", 1, 9)
	dir := build(t, family{name: rocks.Default}, family{HeadersFamily, map[string]string{"a": bare + "1"}},
		family{rocks.Offsets, map[string]string{"app-store-changelog-0": "\x00\x00\x00\x00\x00\x00\x00\x05", "status": "\x00\x00\x00\x00\x00\x00\x00\x00", "position": string(position.Bytes())}})
	task := filepath.Dir(filepath.Dir(dir))
	require.NoError(t, os.WriteFile(filepath.Join(task, ".checkpoint"), []byte("0\n1\napp-other-changelog 0 3\n"), 0o644))
	result, err := Downgrade(dir, store.Timestamped, ForKafka42())
	require.NoError(t, err)
	require.Equal(t, []string{HeadersFamily, rocks.Offsets}, result.Dropped)
	require.Equal(t, map[string]map[string]string{rocks.Default: {}, TimestampedFamily: {"a": stamp + "1"}}, contents(t, dir))
	b, err := os.ReadFile(filepath.Join(task, ".checkpoint"))
	require.NoError(t, err)
	require.Equal(t, "0\n2\napp-other-changelog 0 3\napp-store-changelog 0 5\n", string(b))
	b, err = os.ReadFile(filepath.Join(task, "store.position"))
	require.NoError(t, err)
	require.Equal(t, "0\n2\nin 0 7\nin 1 9\n", string(b))

	table := openTable(t, dir, store.WithHeaders)
	c, known := table.Checkpoint()
	require.True(t, known)
	require.EqualValues(t, 5, c.Offset)
	require.Equal(t, "{in-0:7 in-1:9}", c.Position.String())
	require.True(t, table.Migrating())
	require.NoError(t, table.Close())
	require.Equal(t, "\x00\x00\x00\x00\x00\x00\x00\x05", contents(t, dir)[rocks.Offsets]["app-store-changelog-0"])
	b, err = os.ReadFile(filepath.Join(task, ".checkpoint"))
	require.NoError(t, err)
	require.Equal(t, "0\n1\napp-other-changelog 0 3\n", string(b), "only its own entry is taken out")
}

func TestBadCheckpointFileFailsTheOpen(t *testing.T) {
	dir := build(t, family{name: rocks.Default})
	task := filepath.Dir(filepath.Dir(dir))
	require.NoError(t, os.WriteFile(filepath.Join(task, ".checkpoint"), []byte("7\n"), 0o644))
	formats, err := KeyValueFormats(store.Plain)
	require.NoError(t, err)
	_, err = Open(Config{Dir: dir, Store: "store", Formats: formats, ChangelogTopic: "t", TaskDir: task})
	require.ErrorIs(t, err, store.ErrCorrupt)
	require.ErrorContains(t, err, "restore from the changelog")
}
