package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/forebay-streams/forebay/store"
)

// Names of a recorded run.
const (
	storeName = "store"
	taskName  = "0_0"
)

// family is a store of one kind.
type family interface {
	store.RestoreTarget
	SetRecord(store.Record)
	// do runs an operation other than commit, whose line is text. The answer is what the
	// results show. An errScript ends the run, any other error is the answer.
	do(op string, text []byte) (answer any, err error)
	Commit(context.Context) error
	Close() error
}

// families open a store of each kind.
var families = map[string]func(o options, dir string, log store.Changelog) (family, error){
	"kv":        openKeyValue,
	"session":   openSession,
	"versioned": openVersioned,
	"window":    openWindow,
}

// errScript: a line of the script cannot be understood.
var errScript = errors.New("bad script")

// streams are a run's inputs and outputs; restore and changelog may be nil.
type streams struct {
	ops, restore       io.Reader
	results, changelog io.Writer
}

func run(o options, s streams) (err error) {
	if o.state == "" {
		if o.state, err = os.MkdirTemp("", "forebay-replay-"); err != nil {
			return err
		}
		defer os.RemoveAll(o.state)
	}
	log := newFileLog(o.app, s.changelog)
	f, err := families[o.store](o, filepath.Join(o.state, o.app, taskName), log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if s.restore != nil {
		if err := restore(f, s.restore); err != nil {
			return err
		}
	}
	if held, ok := f.RestoredOffset(); ok {
		log.next = held + 1
	}
	if err := replay(o, f, s.ops, s.results); err != nil {
		return err
	}
	return f.Commit(context.Background())
}

// replay answers every line of a script.
func replay(o options, f family, ops io.Reader, results io.Writer) error {
	out := encoder(results)
	return eachLine(ops, func(n int64, text []byte) error {
		answer, err := step(o, f, n, text)
		if errors.Is(err, errScript) {
			return err
		}
		if err != nil {
			answer = failure{err.Error()}
		}
		return out.Encode(result{n, answer})
	})
}

// step runs a line as one input record.
func step(o options, f family, n int64, text []byte) (any, error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return nil, fmt.Errorf("%w: %w", errScript, err)
	}
	h, err := l.RH.headers()
	if err != nil {
		return nil, fmt.Errorf("%w: rh: %w", errScript, err)
	}
	f.SetRecord(store.Record{Topic: o.app + "-in", Offset: o.offset + n, Timestamp: l.RTS, Headers: h})
	if l.Op == "commit" {
		return nil, f.Commit(context.Background())
	}
	return f.do(l.Op, text)
}
