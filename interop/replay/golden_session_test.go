package main

import (
	"encoding/hex"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

func TestGoldenSession(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(goldenDir, "session-*"))
	require.NoError(t, err)
	require.Len(t, dirs, 16)
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) { readGolden(t, filepath.Base(dir)).checkSession(t) })
	}
	require.Zero(t, rocks.Live())
}

func (g golden) checkSession(t *testing.T) {
	var before map[string]dump
	r := g.replay(t, func(o options) {
		if g.upgrade {
			before = dumpSegments(t, o.state, o.app)
		}
	})
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
	if g.upgrade {
		checkMoved(t, before, ours, parseLog(t, r.log))
	}
	for name := range theirs {
		if g.upgrade { // forebay's reads move no rows
			require.Equal(t, theirs[name].sessions(t), ours[name].sessions(t), name)
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
			if o.ordered != "" {
				d.dropStale("session")
			}
		}
		require.Equal(t, theirs[name], ours[name], name)
	}
}

// sessions gives the rows with headers that both families hold together.
func (d dump) sessions(t *testing.T) map[string]string {
	rows := map[string]string{}
	for k, v := range d[rocks.Default] {
		b, err := store.Plain.Convert(nil, store.Aggregation, unhex(t, v))
		require.NoError(t, err)
		rows[k] = hex.EncodeToString(b)
	}
	maps.Copy(rows, d[migration.SessionHeadersFamily])
	return rows
}

// checkMoved: a session that was written, and no other, leaves the plain family.
func checkMoved(t *testing.T, before, after map[string]dump, log []logRecord) {
	written := map[string]bool{}
	for _, r := range log {
		written[hex.EncodeToString(r.K)] = true
	}
	kept := 0
	for name, d := range before {
		want := map[string]string{}
		for k, v := range d[rocks.Default] {
			if !written[k] {
				want[k] = v
			}
		}
		if after[name] != nil { // not expired
			kept += len(want)
			require.Equal(t, want, after[name][rocks.Default], name)
		}
	}
	require.Positive(t, kept)
}

func unhex(t *testing.T, s string) []byte {
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}
