package main

import (
	"encoding/hex"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/internal/windowkey"
)

func TestGoldenWindow(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(goldenDir, "window-*"))
	require.NoError(t, err)
	require.Len(t, dirs, 22)
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) { readGolden(t, filepath.Base(dir)).checkSegmented(t) })
	}
	require.Zero(t, rocks.Live())
}

// checkSegmented is check for a store whose databases are segments.
func (g golden) checkSegmented(t *testing.T) {
	r := g.replay(t, nil)
	o := r.o
	g.checkLog(t, r.wantLog, r.log)
	if o.memory {
		require.NoDirExists(t, filepath.Join(o.state, o.app))
		return
	}
	kafka := t.TempDir()
	unpackState(t, g.name, o.app, kafka)
	theirs, ours := dumpSegments(t, kafka, o.app), dumpSegments(t, o.state, o.app)
	require.Equal(t, slices.Sorted(maps.Keys(theirs)), slices.Sorted(maps.Keys(ours)))
	for name := range theirs {
		if g.upgrade { // forebay's reads move no rows
			require.Equal(t, theirs[name].logical(t, o.format), ours[name].logical(t, o.format), name)
		}
		for _, d := range []dump{theirs[name], ours[name]} {
			d.without("status")
			if o.cache > 0 {
				d.without(newFileLog(o.app, nil).topic + "-0")
			}
			for family := range d {
				if g.upgrade && family != rocks.Offsets {
					delete(d, family)
				}
			}
		}
		if o.ordered == "index" {
			theirs[name].dropStale("window")
		}
		require.Equal(t, theirs[name], ours[name], name)
	}
}

// dropStale leaves out index rows without a base row. Kafka Streams writes one for every
// delete and removes it when a read comes by; forebay deletes both rows at once. What an
// index row holds is forebay's own.
func (d dump) dropStale(family string) {
	for name, rows := range d {
		if name == rocks.Offsets {
			continue
		}
		for k := range rows {
			key, err := hex.DecodeString(k)
			if err != nil || key[0] != windowkey.IndexPrefix {
				continue
			}
			base := windowkey.ToBase(nil, key)
			if family == "session" {
				base = windowkey.SessionToBase(nil, key)
			}
			if rows[k] = ""; !has(rows, hex.EncodeToString(base)) {
				delete(rows, k)
			}
		}
	}
}

// dumpSegments dumps every segment of a store.
func dumpSegments(t *testing.T, state, app string) map[string]dump {
	dir := filepath.Join(state, app, taskName, storeName)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	out := map[string]dump{}
	for _, e := range entries {
		out[e.Name()] = dumpDir(t, filepath.Join(dir, e.Name()))
	}
	return out
}
