// Package formatdoc reads the test vectors out of the pages in docs/format, so that
// pages and code cannot drift apart. It is for tests only.
//
// A page keeps vectors in fenced blocks that open with "```vectors NAME". Lines that
// start with # are comments; columns are separated by semicolons.
package formatdoc

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/forebay-streams/forebay/store"
)

// Rows returns the rows of one block. Every row must have so many columns. A missing or
// empty block fails the test.
func Rows(t testing.TB, page, block string, columns int) [][]string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	b, err := os.ReadFile(filepath.Join(filepath.Dir(here), "../../docs/format", page))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(b), "\n```vectors "+block+"\n")
	text, _, closed := strings.Cut(rest, "\n```\n")
	if !found || !closed {
		t.Fatalf("%s has no block of vectors %q", page, block)
	}
	var rows [][]string
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		row := strings.Split(line, ";")
		if len(row) != columns {
			t.Fatalf("%s, %s: %d columns where %d are due: %s", page, block, len(row), columns, line)
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		t.Fatalf("%s: no rows in %q", page, block)
	}
	return rows
}

// Hex reads a column of bytes: "nil" is nil, "-" is zero bytes.
func Hex(t testing.TB, column string) []byte {
	t.Helper()
	switch column {
	case "nil":
		return nil
	case "-":
		column = ""
	}
	b, err := hex.DecodeString(column)
	if err != nil {
		t.Fatalf("%q: %v", column, err)
	}
	return b
}

// List reads a column of headers: key=value in hex, "~" is a null value, "[]" (or a
// blank column, where headers do not apply) is no headers.
func List(t testing.TB, column string) []store.Header {
	t.Helper()
	if column == "[]" || column == "" {
		return nil
	}
	var list []store.Header
	for pair := range strings.SplitSeq(column, ",") {
		key, value, found := strings.Cut(pair, "=")
		if !found {
			t.Fatalf("%q is no header", pair)
		}
		h := store.Header{Key: string(Hex(t, key))}
		if value != "~" {
			h.Value = Hex(t, value)
		}
		list = append(list, h)
	}
	return list
}

// Int reads a decimal column.
func Int(t testing.TB, column string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(column, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
