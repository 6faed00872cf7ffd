package migration

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/store"
)

func TestInspect(t *testing.T) {
	var position store.Position
	position.Advance("in", 0, 7)
	dir := build(t, family{rocks.Default, map[string]string{"a": "1", "b": "2"}},
		family{HeadersFamily, map[string]string{"c": header + stamp + "3"}},
		family{rocks.Offsets, map[string]string{"app-store-changelog-0": "\x00\x00\x00\x00\x00\x00\x00\x2a", "status": "\x00\x00\x00\x00\x00\x00\x00\x01",
			"position": string(position.Bytes()), "no number": "x"}})
	before := contents(t, dir)
	r, err := Inspect(dir, CountRows())
	require.NoError(t, err)
	require.Equal(t, store.WithHeaders, r.Format)
	require.Equal(t, store.Plain, r.Legacy)
	require.Equal(t, map[string]int64{"app-store-changelog-0": 42}, r.Offsets)
	require.Equal(t, "{in-0:7}", r.Position.String())
	require.EqualValues(t, 1, r.Status)
	require.Len(t, r.Families, 3)
	for i, want := range []FamilyReport{{Name: rocks.Default, Layout: store.Plain, Estimate: 2, Exact: 2},
		{Name: HeadersFamily, Layout: store.WithHeaders, Estimate: 1, Exact: 1}, {Name: rocks.Offsets, Estimate: 4, Exact: 4}} {
		require.Positive(t, r.Families[i].Bytes)
		want.Bytes = r.Families[i].Bytes
		require.Equal(t, want, r.Families[i])
	}
	require.Equal(t, before, contents(t, dir))

	r, err = Inspect(dir)
	require.NoError(t, err)
	require.EqualValues(t, -1, r.Families[0].Exact)

	r, err = Inspect(filepath.Join(t.TempDir(), "none"))
	require.NoError(t, err)
	require.Empty(t, r.Families)
	require.Zero(t, r.Format)
}

func TestInspectChecksRows(t *testing.T) {
	dir := build(t, family{name: rocks.Default}, family{HeadersFamily, map[string]string{"c": "\x04\x00\x00" + stamp + "3"}}, family{name: rocks.Offsets})
	_, err := Inspect(dir, CountRows())
	require.NoError(t, err)
	_, err = Inspect(dir, CheckRows())
	require.ErrorIs(t, err, store.ErrCorrupt)
	require.ErrorContains(t, err, "block_empty")
}

func TestInspectOfASingleFormat(t *testing.T) {
	for name, layout := range map[string]store.Layout{rocks.Default: store.Plain, TimestampedFamily: store.Timestamped} {
		families := []family{{name: rocks.Default}, {name: name}, {name: rocks.Offsets}}
		if name == rocks.Default {
			families = families[1:]
		}
		r, err := Inspect(build(t, families...))
		require.NoError(t, err)
		require.Equal(t, layout, r.Format)
		require.Zero(t, r.Legacy)
		require.EqualValues(t, -1, r.Status)
	}
}
