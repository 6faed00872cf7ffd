package engine_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/dsl/internal/engine"
)

func TestMetadata(t *testing.T) {
	for want, m := range map[string]engine.Metadata{
		"AgAAAYvP5WgA":                         {Time: 1700000000000},
		"Av//////////":                         {Time: -1},
		"AgAAAYvP5WgAAAAAAQAAAAFrAAAAAAAAAAU=": {Time: 1700000000000, Marks: map[string]int64{"k": 5}},
	} {
		assert.Equal(t, want, m.String())
		back, err := engine.ParseMetadata(want)
		require.NoError(t, err)
		assert.Equal(t, m, back)
	}
	empty, err := engine.ParseMetadata("")
	require.NoError(t, err)
	assert.Equal(t, engine.Metadata{Time: -1}, empty)
	v1, err := engine.ParseMetadata("AQAAAYvP5WgA")
	require.NoError(t, err)
	assert.Equal(t, engine.Metadata{Time: 1700000000000}, v1)
}

func FuzzMetadata(f *testing.F) {
	for _, seed := range []string{"", "AgAAAYvP5WgA", "AgAAAYvP5WgAAAAAAQAAAAFrAAAAAAAAAAU=", "AgAAAYvP5WgAf////wAAAAFrAAAAAAAAAAU=", "AwAAAYvP5WgA", "some member id"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, err := engine.ParseMetadata(s)
		if err != nil {
			assert.Equal(t, engine.Metadata{Time: -1}, m)
			return
		}
		again, err := engine.ParseMetadata(m.String())
		require.NoError(t, err)
		if len(m.Marks) == 0 {
			m.Marks = nil
		}
		assert.Equal(t, m, again)
	})
}
