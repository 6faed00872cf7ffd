package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func script(list ...string) []byte { return []byte(strings.Join(list, "\n") + "\n") }

func testOptions(t *testing.T) options {
	o := defaults()
	o.state = t.TempDir()
	return o
}

func replayScript(t *testing.T, o options, restore string, list ...string) (results, log []string) {
	var from io.Reader
	if restore != "" {
		from = strings.NewReader(restore)
	}
	return runLines(t, o, script(list...), from)
}

func TestAnswers(t *testing.T) {
	results, log := replayScript(t, testOptions(t), "",
		`{"op":"put","k":"61","v":"01","ts":7,"h":[["<&>","3c"],["",null],["x",""]]}`, // no rts, no rh
		`{"op":"get","k":"61"}`,
		`{"op":"put","k":null,"v":"01","ts":7,"h":[],"rts":8,"rh":[]}`,
		`{"op":"put","k":"61","v":"02","ts":-7,"h":[],"rts":9,"rh":[]}`,
		`{"op":"delete","k":"61","rts":10,"rh":[["d","00"]]}`,
		`{"op":"commit"}`,
		`{"op":"all"}`)
	require.Len(t, results, 7)
	require.Equal(t, []string{
		`{"i":0,"r":null}`,
		`{"i":1,"r":{"v":"01","ts":7,"h":[["<&>","3c"],["",null],["x",""]]}}`,
	}, results[:2])
	require.Equal(t, `{"i":2,"r":{"error":"store \"store\": put: nil key"}}`, results[2])
	require.Equal(t, []string{
		`{"i":3,"r":null}`,
		`{"i":4,"r":{"v":"02","ts":-7,"h":[]}}`,
		`{"i":5,"r":null}`,
		`{"i":6,"r":[]}`,
	}, results[3:])
	require.Equal(t, []string{
		`{"offset":0,"k":"61","v":"01","ts":7,"h":[["<&>","3c"],["",null],["x",""]]}`,
		`{"offset":1,"k":"61","v":"02","ts":9,"h":[]}`, // Kafka takes no negative timestamp
		`{"offset":2,"k":"61","v":null,"ts":10,"h":[["d","00"]]}`,
	}, log)
}

func TestOffsets(t *testing.T) {
	o := testOptions(t)
	o.format = "timestamped"
	file := string(script(
		`{"offset":3,"k":"61","v":"01","ts":5,"h":[["dropped","00"]]}`,
		`{"offset":5,"k":null,"v":"ff","ts":6,"h":[]}`,
		`{"offset":7,"k":"62","v":"","ts":6,"h":[]}`))
	results, log := replayScript(t, o, file, `{"op":"all"}`, `{"op":"delete","k":"61","rts":9}`)
	require.Equal(t, []string{`{"i":0,"r":[["61",{"v":"01","ts":5}],["62",{"v":"","ts":6}]]}`, `{"i":1,"r":{"v":"01","ts":5}}`}, results)
	require.Equal(t, []string{`{"offset":8,"k":"61","v":null,"ts":9,"h":[]}`}, log)

	// What the directory holds already is not restored again.
	results, log = replayScript(t, o, file+`{"offset":9,"k":"63","v":"03","ts":1,"h":[]}`,
		`{"op":"all"}`, `{"op":"put","k":"61","v":"02","ts":10,"rts":10}`)
	require.Equal(t, []string{`{"i":0,"r":[["62",{"v":"","ts":6}],["63",{"v":"03","ts":1}]]}`, `{"i":1,"r":null}`}, results)
	require.Equal(t, []string{`{"offset":10,"k":"61","v":"02","ts":10,"h":[]}`}, log)

	results, log = replayScript(t, o, "", `{"op":"get","k":"61"}`)
	require.Equal(t, []string{`{"i":0,"r":{"v":"02","ts":10}}`}, results)
	require.Empty(t, log)
}

// A script that cannot be understood ends the run, and nothing is committed.
func TestBadScripts(t *testing.T) {
	for _, bad := range []string{
		``, `[]`, `{"op":`, `{"op":"put","k":"6"}`, `{"op":"fetch","k":"61"}`, `{"op":"put","k":"61","v":"zz"}`,
		`{"op":"put","k":"61","v":"00","h":[[null,"00"]]}`, `{"op":"get","k":"61","rh":[["x","0"]]}`,
		`{"op":"putAll","rows":[{"k":"61","v":"00","h":[[null,null]]}]}`,
	} {
		o := testOptions(t)
		var results bytes.Buffer
		err := run(o, streams{ops: bytes.NewReader(script(`{"op":"put","k":"00","v":"00","ts":1}`, bad, `{"op":"all"}`)), results: &results})
		require.ErrorIs(t, err, errScript, bad)
		require.ErrorContains(t, err, "line 1:")
		require.Equal(t, []string{`{"i":0,"r":null}`}, lines(results.Bytes()))
		after, _ := replayScript(t, o, "", `{"op":"all"}`)
		require.Equal(t, []string{`{"i":0,"r":[]}`}, after)
	}
	err := run(testOptions(t), streams{ops: strings.NewReader(""), restore: strings.NewReader("{"), results: &bytes.Buffer{}})
	require.ErrorContains(t, err, "restore: line 0:")
}

func TestOptions(t *testing.T) {
	given := func(more ...string) []string { return append([]string{"--ops", "a", "--results", "b"}, more...) }
	o, err := parseOptions(given())
	require.NoError(t, err)
	want := defaults()
	want.ops, want.results = "a", "b"
	require.Equal(t, want, o)
	o, err = parseOptions(given("--memory", "true", "--cache", "5", "--guarantee", "exactly_once_v2", "--transactional", "true",
		"--commit", "1000", "--wait", "3", "--bootstrap", "localhost:9092", "--offset", "7", "--app", "x", "--format", "plain"))
	require.NoError(t, err)
	want.memory, want.cache, want.guarantee, want.transactional, want.offset, want.app, want.format = true, 5, exactlyOnceV2, true, 7, "x", "plain"
	require.Equal(t, want, o)
	for _, bad := range [][]string{
		nil, {"--ops", "a"}, given("--colour", "red"), given("--memory"), given("--memory", "yes"), given("x"), given("-app", "x"),
		given("--cache", "-1"), given("--offset", "x"), given("--format", "xml"), given("--store", "list"), given("--app", "../x"),
		given("--guarantee", "exactly_once"),
	} {
		_, err := parseOptions(bad)
		require.ErrorIs(t, err, errUsage, bad)
	}
}

// TestCommand runs the program itself.
func TestCommand(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "replay")
	out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	call := func(args ...string) (int, string) {
		cmd := exec.Command(bin, args...)
		cmd.Dir = t.TempDir()
		cmd.Env = append(os.Environ(), "TMPDIR="+cmd.Dir)
		out, err := cmd.CombinedOutput()
		left, globErr := filepath.Glob(filepath.Join(cmd.Dir, "*"))
		require.NoError(t, globErr)
		require.Empty(t, left, "temporary files")
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return exit.ExitCode(), string(out)
		}
		require.NoError(t, err)
		return 0, string(out)
	}
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	const name = "kv-timestamped-restored"
	g := readGolden(t, name)
	before := lines(unzip(t, g.before, "changelog.jsonl.gz"))
	ops, want := unzip(t, name, "ops.jsonl.gz"), unzip(t, name, "expected.jsonl.gz")
	require.NoError(t, os.WriteFile(path("ops"), ops, 0o644))
	require.NoError(t, os.WriteFile(path("before"), script(before...), 0o644))

	for _, memory := range []string{"false", "true"} {
		args := []string{"--store", "kv", "--format", "headers", "--ops", path("ops"), "--results", path("results"), "--changelog", path("changelog"),
			"--app", g.options.app, "--restore", path("before"), "--offset", "300", "--memory", memory, "--commit", "1000"}
		if memory == "false" {
			args = append(args, "--state", path("state"))
		}
		code, out := call(args...)
		require.Zero(t, code, out)
		require.Empty(t, out)
		got, err := os.ReadFile(path("results"))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
		got, err = os.ReadFile(path("changelog"))
		require.NoError(t, err)
		require.Equal(t, lines(unzip(t, name, "changelog.jsonl.gz"))[len(before):], lines(got))
	}
	require.DirExists(t, filepath.Join(path("state"), g.options.app, "0_0", "rocksdb", "store"))

	// Of the temporary directory nothing is left.
	code, out2 := call("--ops", path("ops"), "--results", path("results2"))
	require.Zero(t, code, out2)

	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{2, "unknown option --colour", []string{"--colour", "red"}},
		{2, "--ops FILE and --results FILE must be given", []string{"--ops", path("ops")}},
		{1, "no such file", []string{"--ops", path("missing"), "--results", path("none")}},
		{1, "incompatible", []string{"--format", "plain", "--ops", path("ops"), "--results", path("none"), "--state", path("state"), "--app", g.options.app}},
	} {
		code, out := call(c.args...)
		require.Equal(t, c.code, code, out)
		require.Contains(t, out, c.says)
	}
}
