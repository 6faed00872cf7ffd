package checkpointfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/store"
)

func TestWrittenAndRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), Name)
	entries := []Entry{{"app-a-changelog", 0, 42}, {"app-b-changelog", 3, store.UnknownOffset}}
	require.NoError(t, Write(path, entries))
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "0\n2\napp-a-changelog 0 42\napp-b-changelog 3 -4\n", string(b))
	got, err := Read(path)
	require.NoError(t, err)
	require.Equal(t, entries, got)

	require.NoError(t, Set(path, Entry{"app-a-changelog", 0, 43}))
	require.NoError(t, Remove(path, "app-b-changelog", 3))
	require.NoError(t, Remove(path, "app-b-changelog", 3))
	got, err = Read(path)
	require.NoError(t, err)
	require.Equal(t, []Entry{{"app-a-changelog", 0, 43}}, got)

	require.NoError(t, Remove(path, "app-a-changelog", 0))
	require.NoFileExists(t, path, "no entries, no file")
	require.NoFileExists(t, path+".tmp")
	got, err = Read(path)
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestForms(t *testing.T) {
	for _, c := range []struct {
		text, reason string
		want         []Entry
	}{
		{"0\n1\nt  0\t 5\n", "", []Entry{{"t", 0, 5}}},
		{"0\n2\nt 0 5\nt 1 -1\n", "", []Entry{{"t", 0, 5}}}, // no offset: left out, and not counted
		{"0\n0\n", "", nil},
		{"", "checkpoint_version", nil},
		{"1\n0\n", "checkpoint_version", nil},
		{"0\n", "checkpoint_count", nil},
		{"0\nx\n", "checkpoint_count", nil},
		{"0\n2\nt 0 5\n", "checkpoint_count", nil},
		{"0\n1\nt 0\n", "checkpoint_line", nil},
		{"0\n1\nt x 5\n", "checkpoint_line", nil},
		{"0\n1\nt 0 5 6\n", "checkpoint_line", nil},
	} {
		got, err := parse(strings.NewReader(c.text))
		if c.reason == "" {
			require.NoError(t, err, c.text)
			require.Equal(t, c.want, got)
			continue
		}
		var corrupt *store.CorruptError
		require.ErrorAs(t, err, &corrupt, c.text)
		require.Equal(t, c.reason, corrupt.Reason)
	}
	_, err := parse(strings.NewReader("0\n1\n" + strings.Repeat("x", 2*maxLine)))
	require.Error(t, err, "an endless line is not read whole")
}
