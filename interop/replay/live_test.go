package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-streams/forebay/changelog"
	"github.com/forebay-streams/forebay/kv"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
	"github.com/forebay-streams/forebay/versioned"
	"github.com/forebay-streams/forebay/windowed"
)

// liveRun replays a script as an application that uses forebay would: on the changelog
// topic, with committed input offsets, and in transactions under exactly-once.
type liveRun struct {
	Format    string
	State     string
	App       string
	Guarantee string
	Cache     int64
	Offset    int64 // of the first operation in the input
	Address   string
	// Of the other families than kv, whose windows have windowSize.
	Store               string
	Retention           int64
	Duplicates, Ordered bool
	// Buffer is the size of all memtables, 0: the default.
	Buffer int64
	// Drain is how many slices of three rows are drained at the end, -1: all.
	Drain int
	// Hang waits after the last operation, for being killed.
	Hang bool
}

func (r liveRun) options() options {
	o := defaults()
	o.format, o.state, o.app, o.guarantee, o.cache, o.offset = r.Format, r.State, r.App, r.Guarantee, r.Cache, r.Offset
	o.store, o.retention, o.size, o.duplicates = r.Store, r.Retention, windowSize, r.Duplicates
	if r.Ordered {
		o.ordered = "index"
	}
	return o
}

func (r liveRun) open(log store.Changelog) (family, error) {
	o := r.options()
	dir := filepath.Join(o.state, o.app, taskName)
	if r.Buffer == 0 {
		return families[o.store](o, dir, log)
	}
	small := store.NewBudget(0, store.WriteBuffers(r.Buffer))
	switch o.store {
	case "window":
		s, err := windowed.Open(dir, storeName, store.Bytes(), store.Bytes(), windowed.Format(layouts[o.format]), windowed.Changelog(log),
			windowed.Size(milliseconds(o.size)), windowed.Retention(milliseconds(o.retention)), windowed.Shared(small))
		if err != nil {
			return nil, err
		}
		return &window{s, layouts[o.format]}, nil
	case "versioned":
		s, err := versioned.Open(dir, storeName, store.Bytes(), store.Bytes(), versioned.Format(layouts[o.format]), versioned.Changelog(log),
			versioned.History(milliseconds(o.retention)), versioned.Shared(small))
		if err != nil {
			return nil, err
		}
		return &versionedStore{s, layouts[o.format]}, nil
	}
	opts := []kv.Option{kv.Format(layouts[o.format]), kv.Changelog(log), kv.Shared(small)}
	if o.guarantee == exactlyOnceV2 {
		opts = append(opts, kv.ExactlyOnce())
	}
	s, err := kv.Open(dir, storeName, store.Bytes(), store.Bytes(), opts...)
	if err != nil {
		return nil, err
	}
	return &keyValue{s, layouts[o.format]}, nil
}

// topic is what the changelog must be like.
func (r liveRun) topic() changelog.Spec {
	kinds := map[string]changelog.Kind{
		"kv": changelog.KeyValue, "window": changelog.Window, "session": changelog.Session, "versioned": changelog.Versioned,
	}
	return changelog.Spec{
		Topic: changelog.Name(r.App, storeName), Partitions: 1, Kind: kinds[r.Store], Retention: milliseconds(r.Retention),
	}
}

func (r liveRun) run(ctx context.Context, ops io.Reader, results io.Writer) (err error) {
	transactional := r.Guarantee == exactlyOnceV2
	opts := append(changelog.ProducerOpts(), kgo.SeedBrokers(r.Address))
	restoreOpts := []changelog.RestoreOption{changelog.Bulk(0)}
	if transactional {
		opts = append(opts, kgo.TransactionalID(r.App+"-forebay"))
		restoreOpts = append(restoreOpts, changelog.ReadCommitted())
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer client.Close()
	adm := kadm.NewClient(client)
	topic := changelog.Name(r.App, storeName)
	// Also looks whether the topic is right that Kafka Streams made.
	if err := changelog.EnsureTopic(ctx, adm, r.topic()); err != nil {
		return err
	}
	log, err := changelog.NewWriter(client, topic, 0)
	if err != nil {
		return err
	}
	f, err := r.open(log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := changelog.Restore(ctx, client, f, restoreOpts...); err != nil {
		return err
	}
	begin := func() error {
		if transactional {
			return client.BeginTransaction()
		}
		return nil
	}
	commit := func(next int64) error {
		if err := f.(interface{ Flush(context.Context) error }).Flush(ctx); err != nil {
			return err
		}
		if transactional {
			if err := client.EndTransaction(ctx, kgo.TryCommit); err != nil {
				return err
			}
		}
		offsets := kadm.Offsets{}
		offsets.AddOffset(r.App+"-in", 0, next, -1)
		if _, err := adm.CommitOffsets(ctx, r.App, offsets); err != nil {
			return err
		}
		return f.Commit(ctx)
	}
	if err := begin(); err != nil {
		return err
	}
	o, next, out := r.options(), r.Offset, encoder(results)
	err = eachLine(ops, func(n int64, text []byte) error {
		next = r.Offset + n + 1
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return err
		}
		if l.Op == "commit" {
			if err := errors.Join(commit(next), begin()); err != nil {
				return err
			}
			return out.Encode(result{n, nil})
		}
		answer, err := step(o, f, n, text)
		if err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
		return out.Encode(result{n, answer})
	})
	if err != nil {
		return err
	}
	if r.Hang {
		select {}
	}
	if err := commit(next); err != nil {
		return err
	}
	if r.Drain == 0 {
		return nil
	}
	drain := migration.NewDrain(f.(migration.Drainable), migration.SliceRows(3))
	for n, done := 0, false; n != r.Drain && !done; n++ {
		if done, err = drain.Step(); err != nil {
			return err
		}
	}
	return nil
}

const childVariable = "FOREBAY_LIVE_RUN"

// TestLiveRun is a process of its own, that can be killed: the operations come from
// standard input, the answers go to standard output.
func TestLiveRun(t *testing.T) {
	text := os.Getenv(childVariable)
	if text == "" {
		t.Skip("started by TestHandover")
	}
	var r liveRun
	require.NoError(t, json.Unmarshal([]byte(text), &r))
	require.NoError(t, r.run(context.Background(), os.Stdin, os.Stdout))
}

// child is the command of a run in a process of its own.
func (r liveRun) child(ops io.Reader, log io.Writer) (*exec.Cmd, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestLiveRun$")
	cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	cmd.Stdin, cmd.Stderr = ops, log
	return cmd, nil
}
