// Replay runs a script of store operations on a forebay store, and writes every answer,
// every changelog record and the state directory in the form in which runs of real Kafka
// Streams were recorded:
//
//	go run ./interop/replay --store kv --format headers --ops ops.jsonl --results results.jsonl
//
// It uses the public API only.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
)

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

func main() { os.Exit(command(os.Args[1:], os.Stderr)) }

func command(args []string, stderr io.Writer) int {
	o, err := parseOptions(args)
	if err != nil {
		fmt.Fprintf(stderr, "replay: %v\n", err)
		return exitUsage
	}
	if err := runFiles(o); err != nil {
		fmt.Fprintf(stderr, "replay: %v\n", err)
		return exitFailed
	}
	return 0
}

// runFiles runs with the files that the options name.
func runFiles(o options) (err error) {
	var s streams
	var opened []io.Closer
	defer func() {
		for _, f := range opened {
			err = errors.Join(err, f.Close())
		}
	}()
	read := func(path string) io.Reader {
		if path == "" || err != nil {
			return nil
		}
		var f *os.File
		if f, err = os.Open(path); err != nil {
			return nil
		}
		opened = append(opened, f)
		return f
	}
	var outputs []*bufio.Writer
	write := func(path string) io.Writer {
		if path == "" || err != nil {
			return nil
		}
		var f *os.File
		if f, err = os.Create(path); err != nil {
			return nil
		}
		opened = append(opened, f)
		w := bufio.NewWriter(f)
		outputs = append(outputs, w)
		return w
	}
	// Inputs first: nothing is overwritten when one is missing.
	s.ops, s.restore = read(o.ops), read(o.restore)
	s.results, s.changelog = write(o.results), write(o.changelog)
	if err != nil {
		return err
	}
	err = run(o, s)
	for _, w := range outputs {
		err = errors.Join(err, w.Flush())
	}
	return err
}
