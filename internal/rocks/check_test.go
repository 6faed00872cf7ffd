package rocks

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/store"
)

func TestVersion(t *testing.T) {
	assert.Regexp(t, regexp.MustCompile(`^11\.1\.\d+$`), Version())
	require.NoError(t, checkLibrary())
}

func TestVersionsThatDoNotFit(t *testing.T) {
	for _, version := range []string{"7.8.3", "unknown", "11.10.0", "11.0.4", "10.1.3", "1.11.1", ""} {
		err := checkVersion(version)
		require.ErrorIs(t, err, store.ErrLibrary, version)
		require.ErrorContains(t, err, "RocksDB "+version+" is loaded")
		require.ErrorContains(t, err, "11.1.x")
		require.ErrorContains(t, err, "make deps")
	}
	for _, version := range []string{"11.1.0", "11.1.2", "11.1.20"} {
		require.NoError(t, checkVersion(version))
	}
}

func TestHandleOfAnotherWrapperPanics(t *testing.T) {
	assert.Panics(t, func() { handle(&struct{ d *int }{}) })
	assert.Panics(t, func() { handle(&struct{ c int }{}) })
}
