// Package checkpointfile reads and writes the text files in which Kafka Streams kept
// offsets beside its stores before 4.3: .checkpoint for changelog offsets, and
// <store>.position for input positions.
package checkpointfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/forebay-streams/forebay/store"
)

// Name is the file of a task's changelog offsets.
const Name = ".checkpoint"

// Entry is one line: the offset of a partition, or [store.UnknownOffset].
type Entry struct {
	Topic     string
	Partition int32
	Offset    int64
}

// maxLine bounds a line; a topic name has 249 characters at most.
const maxLine = 4096

// Read returns the entries of a file, none if there is no file. Lines with an offset
// that is no offset are left out, as Kafka does.
func Read(path string) ([]Entry, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := parse(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return entries, nil
}

func parse(r io.Reader) ([]Entry, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	bad := func(reason string) error { return &store.CorruptError{Reason: reason} }
	next := func() ([]string, bool) {
		ok := lines.Scan()
		return strings.Fields(lines.Text()), ok
	}
	if f, ok := next(); !ok || len(f) != 1 || f[0] != "0" {
		return nil, bad("checkpoint_version")
	}
	f, ok := next()
	if !ok || len(f) != 1 {
		return nil, bad("checkpoint_count")
	}
	expected, err := strconv.Atoi(f[0])
	if err != nil {
		return nil, bad("checkpoint_count")
	}
	var entries []Entry
	for {
		f, ok := next()
		if !ok {
			break
		}
		if len(f) != 3 {
			return nil, bad("checkpoint_line")
		}
		partition, err1 := strconv.ParseInt(f[1], 10, 32)
		offset, err2 := strconv.ParseInt(f[2], 10, 64)
		if err1 != nil || err2 != nil {
			return nil, bad("checkpoint_line")
		}
		if offset < 0 && offset != store.UnknownOffset {
			expected--
			continue
		}
		entries = append(entries, Entry{f[0], int32(partition), offset})
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(entries) != expected {
		return nil, bad("checkpoint_count")
	}
	return entries, nil
}

// Write replaces a file by one with these entries, synced and renamed into place. No
// entries: no file.
func Write(path string, entries []Entry) (err error) {
	if len(entries) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	f, err := os.Create(path + ".tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	var b strings.Builder
	fmt.Fprintf(&b, "0\n%d\n", len(entries))
	for _, e := range entries {
		fmt.Fprintf(&b, "%s %d %d\n", e.Topic, e.Partition, e.Offset)
	}
	_, err = f.WriteString(b.String())
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes a rename durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// changing guards read-modify-write: the stores of a task share the file.
var changing sync.Mutex

// Set replaces the entry of a partition, or adds it.
func Set(path string, e Entry) error {
	return change(path, e, func(list []Entry) []Entry { return append(list, e) })
}

// Remove takes out the entry of a partition.
func Remove(path, topic string, partition int32) error {
	return change(path, Entry{Topic: topic, Partition: partition}, func(list []Entry) []Entry { return list })
}

func change(path string, of Entry, then func([]Entry) []Entry) error {
	changing.Lock()
	defer changing.Unlock()
	list, err := Read(path)
	if err != nil {
		return err
	}
	before := len(list)
	list = slices.DeleteFunc(list, func(x Entry) bool { return x.Topic == of.Topic && x.Partition == of.Partition })
	rest := len(list)
	if list = then(list); len(list) == rest && rest == before {
		return nil
	}
	return Write(path, list)
}
