package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/store"
)

// A parity script runs on two lanes at a time, each with a state directory and a changelog
// of its own. A lane is Kafka Streams' or forebay's all the time, or they take turns: then
// the directory is handed over between two parts, and the other lane's the other way round.

// optionSet is a store of one kind, as scripts use it.
type optionSet struct {
	Name          string `json:"name"`
	Store         string `json:"store"`
	Format        string `json:"format"`            // of the first part
	Upgrade       string `json:"upgrade,omitempty"` // of those after it
	Memory        bool   `json:"memory,omitempty"`
	Cache         int64  `json:"cache,omitempty"`
	Guarantee     string `json:"guarantee,omitempty"`
	Transactional bool   `json:"transactional,omitempty"` // Kafka's store
	Duplicates    bool   `json:"duplicates,omitempty"`
	Ordered       string `json:"ordered,omitempty"`
	Retention     int64  `json:"retention,omitempty"`
	Segment       int64  `json:"segment,omitempty"`

	// What random scripts do with it.
	single bool // one part only
	swap   bool // lanes may take turns
	wipe   bool // a directory may be restored from its changelog
	kill   bool // a part may end by a kill
	young  bool // timestamps begin near 0
}

func (o optionSet) format(part int) string {
	if part > 0 && o.Upgrade != "" {
		return o.Upgrade
	}
	return o.Format
}

// segmented: there is a database for each interval of time.
func (o optionSet) segmented() bool { return o.Store == "window" || o.Store == "session" }

// lasting is a retention within which nothing expires in a script.
const lasting = 100_000_000

// optionSets are the store kinds of each family that Kafka Streams has.
var optionSets = map[string][]optionSet{
	"kv": {
		{Name: "plain", Format: "plain", swap: true, wipe: true, kill: true},
		{Name: "timestamped", Format: "timestamped", swap: true, wipe: true, kill: true},
		{Name: "headers", Format: "headers", swap: true, wipe: true, kill: true},
		{Name: "plain to timestamped", Format: "plain", Upgrade: "timestamped", swap: true},
		{Name: "plain to headers", Format: "plain", Upgrade: "headers", swap: true},
		{Name: "timestamped to headers", Format: "timestamped", Upgrade: "headers", swap: true},
		{Name: "plain, memory", Format: "plain", Memory: true, swap: true},
		{Name: "timestamped, memory", Format: "timestamped", Memory: true, swap: true},
		{Name: "headers, memory", Format: "headers", Memory: true, swap: true},
		{Name: "plain, cached", Format: "plain", Cache: 1 << 20, swap: true, wipe: true},
		{Name: "headers, cached", Format: "headers", Cache: 1 << 20, swap: true, wipe: true},
		{Name: "headers, small cache", Format: "headers", Cache: 2000},
		{Name: "headers, memory, cached", Format: "headers", Memory: true, Cache: 1 << 20},
		{Name: "headers, exactly once", Format: "headers", Guarantee: exactlyOnceV2, swap: true},
		{Name: "headers, transactional", Format: "headers", Transactional: true, swap: true},
	},
	"window": {
		{Name: "plain", Format: "plain", swap: true, wipe: true},
		{Name: "timestamped", Format: "timestamped", swap: true, wipe: true},
		{Name: "headers", Format: "headers", swap: true, wipe: true},
		{Name: "headers, short", Format: "headers", Retention: 120_000, swap: true, wipe: true},
		{Name: "headers, lasting", Format: "headers", Retention: lasting, swap: true, wipe: true, kill: true},
		{Name: "plain to headers", Format: "plain", Upgrade: "headers", swap: true},
		{Name: "timestamped to headers", Format: "timestamped", Upgrade: "headers", swap: true},
		{Name: "headers, duplicates", Format: "headers", Duplicates: true, swap: true},
		{Name: "plain, duplicates", Format: "plain", Duplicates: true, swap: true},
		{Name: "plain, memory", Format: "plain", Memory: true, Retention: 120_000, swap: true},
		{Name: "headers, memory", Format: "headers", Memory: true, Retention: 120_000, swap: true},
		{Name: "headers, memory, duplicates", Format: "headers", Memory: true, Duplicates: true, Retention: 120_000, single: true},
		{Name: "headers, cached", Format: "headers", Cache: 1 << 20, Retention: 120_000, young: true},
		{Name: "headers, cached, lasting", Format: "headers", Cache: 1 << 20, Retention: lasting, young: true, wipe: true},
		{Name: "timestamped, cached", Format: "timestamped", Cache: 1 << 20, Retention: 120_000, young: true},
		{Name: "plain, memory, cached", Format: "plain", Memory: true, Cache: 1 << 20, Retention: 120_000, young: true},
		{Name: "headers, time-ordered, cached", Format: "headers", Ordered: "index", Cache: 1 << 20, Retention: 120_000, young: true},
		{Name: "timestamped, time-ordered, no index, cached", Format: "timestamped", Ordered: "noindex", Cache: 1 << 20, Retention: 120_000, young: true},
		{Name: "timestamped, time-ordered", Format: "timestamped", Ordered: "index", Retention: 120_000, swap: true, wipe: true},
		{Name: "timestamped, time-ordered, no index", Format: "timestamped", Ordered: "noindex", Retention: 120_000, swap: true, wipe: true},
		{Name: "headers, time-ordered", Format: "headers", Ordered: "index", Retention: 120_000, swap: true, wipe: true},
	},
	"session": {
		{Name: "plain", Format: "plain", swap: true, wipe: true},
		{Name: "headers", Format: "headers", swap: true, wipe: true},
		{Name: "headers, short", Format: "headers", Retention: 120_000, swap: true, wipe: true},
		{Name: "headers, lasting", Format: "headers", Retention: lasting, swap: true, wipe: true, kill: true},
		{Name: "plain to headers", Format: "plain", Upgrade: "headers", swap: true},
		{Name: "plain, memory", Format: "plain", Memory: true, Retention: 120_000, swap: true},
		{Name: "headers, memory", Format: "headers", Memory: true, Retention: 120_000, swap: true},
		{Name: "headers, cached", Format: "headers", Cache: 1 << 20, Retention: 120_000, young: true},
		{Name: "headers, cached, lasting", Format: "headers", Cache: 1 << 20, Retention: lasting, young: true, wipe: true},
		{Name: "plain, cached", Format: "plain", Cache: 1 << 20, Retention: 120_000, young: true},
		{Name: "headers, memory, cached", Format: "headers", Memory: true, Cache: 1 << 20, Retention: 120_000, young: true},
		{Name: "plain, time-ordered, cached", Format: "plain", Ordered: "index", Cache: 1 << 20, Retention: 120_000, young: true},
		{Name: "plain, time-ordered", Format: "plain", Ordered: "index", Retention: 120_000, swap: true, wipe: true},
		{Name: "plain, time-ordered, no index", Format: "plain", Ordered: "noindex", Retention: 120_000, swap: true, wipe: true},
		{Name: "headers, time-ordered", Format: "headers", Ordered: "index", Retention: 120_000, swap: true, wipe: true},
	},
	"versioned": {
		{Name: "plain", Format: "plain", Retention: longest, single: true},
		{Name: "plain, short", Format: "plain", Retention: 120_000, single: true},
		{Name: "plain, short segments", Format: "plain", Retention: 60_000, Segment: 7000, single: true},
		{Name: "plain, lasting", Format: "plain", Retention: lasting, swap: true, wipe: true},
	},
}

// prepared fills in what an option set leaves to its family.
func (o optionSet) prepared(family string) optionSet {
	o.Store = family
	if o.Retention == 0 {
		o.Retention = longest
	}
	if o.Guarantee == "" {
		o.Guarantee = atLeastOnce
	}
	return o
}

// parityScript is a script with all that its run depends on.
type parityScript struct {
	Options optionSet    `json:"options"`
	Swap    bool         `json:"swap,omitempty"` // the lanes take turns
	Parts   []parityPart `json:"parts"`
}

// parityPart is what happens between an open and a close.
type parityPart struct {
	Wipe  bool       `json:"wipe,omitempty"`  // before it: all is restored from the changelog
	Stale bool       `json:"stale,omitempty"` // before it: rows of the key-value store get a row in its oldest family, too
	Kill  killed     `json:"kill,omitempty"`  // at its end, with the last operations not committed
	Ops   []scriptOp `json:"ops"`
}

// killed says who is.
type killed string

const (
	killBoth  killed = "both"
	killKafka killed = "kafka"
)

// kills tells whether a part ends by a kill.
func (s *parityScript) kills(lane, part int) bool {
	k := s.Parts[part].Kill
	return k == killBoth || k == killKafka && s.kafka(lane, part)
}

// kafka tells which side has a lane in a part.
func (s *parityScript) kafka(lane, part int) bool {
	return lane == 0 == (!s.Swap || part%2 == 0)
}

func (s *parityScript) operations() (n int) {
	for _, p := range s.Parts {
		n += len(p.Ops)
	}
	return n
}

// handovers counts the times that a lane changes sides.
func (s *parityScript) handovers() int {
	if !s.Swap {
		return 0
	}
	return 2 * (len(s.Parts) - 1)
}

// newScript makes a random script of about n operations.
func newScript(o optionSet, rnd *rand.Rand, n int) *parityScript {
	s := &parityScript{Options: o}
	g := &generator{rnd, 1_700_000_000_000}
	if o.young {
		g.now = 200_000
	}
	parts := 1
	if !o.single {
		parts = 1 + g.IntN(4)
	}
	if o.Upgrade != "" {
		parts = 2 + g.IntN(3)
	}
	s.Swap = o.swap && parts > 1 && g.chance(0.6)
	for i := range parts {
		p := parityPart{Wipe: i > 0 && o.wipe && g.chance(0.25)}
		if i < parts-1 && o.kill && g.chance(0.25) {
			if p.Kill = killBoth; s.Swap && o.segmented() {
				p.Kill = killKafka // else see the fault "window-offsets"
			}
		}
		if o.Store == "versioned" && i > 0 {
			p.Wipe = true // else Kafka does not know its past: see the fault "versioned-reopen"
		}
		for range n / parts {
			p.Ops = append(p.Ops, g.parityOp(o))
		}
		p.Ops = append(p.Ops, g.everything(o)...)
		s.Parts = append(s.Parts, p)
	}
	return s
}

// parityOp makes an operation of any family, with the arguments that it needs.
func (g *generator) parityOp(o optionSet) scriptOp {
	if o.Store == "kv" {
		op := g.op()
		if g.chance(0.02) {
			return modelOp{line: line{Op: "commit", RTS: op.RTS, RH: op.RH}}
		}
		return op.trimmed()
	}
	var op timedOp
	switch o.Store {
	case "window":
		op = g.windowOp(o.Retention, !o.kill)
	case "session":
		op = g.sessionOp(o.Retention, (o.Ordered != "" || o.Memory) && (o.Cache == 0 || g.chance(0.1)))
		if op.End < g.now-o.Retention/2 && o.kill { // nothing expires: a kill leaves open what stream time is known
			op.End = g.now
		}
		if op.Op == "put" || op.Op == "remove" || op.Op == "fetchSession" {
			op.Start = min(op.Start, max(0, op.End))
		}
		if op.Op == "findTime" && g.chance(0.1) {
			op.End, op.Latest = op.Latest, op.End
		}
	default:
		op = g.versionedOp(o.Retention, true)
	}
	for _, at := range []*int64{&op.Start, &op.End, &op.From, &op.To, &op.AsOf, &op.TS} {
		*at = max(0, *at)
	}
	if g.chance(0.02) {
		return timedOp{line: line{Op: "commit", RTS: op.RTS, RH: op.RH}}
	}
	return op.trimmed()
}

func (op modelOp) trimmed() modelOp {
	t := modelOp{line: op.line}
	switch op.Op {
	case "put", "putIfAbsent":
		t.kvRow = op.kvRow
	case "putAll":
		t.Rows = op.Rows
	case "get", "delete":
		t.K = op.K
	case "range", "reverseRange":
		t.From, t.To = op.From, op.To
	case "prefix":
		t.P = op.P
	}
	return t
}

func (op timedOp) trimmed() timedOp {
	t := timedOp{line: op.line}
	if strings.HasPrefix(op.Op, "fetch") || strings.HasPrefix(op.Op, "find") || op.Op == "all" {
		t.Back = op.Back
	}
	switch op.Op {
	case "put", "delete": // of any family
		t.kvRow, t.Start, t.End = op.kvRow, op.Start, op.End
	case "fetch", "remove", "fetchSession":
		t.K, t.Start, t.End, t.Back = op.K, op.Start, op.End, false
	case "fetchRange":
		t.K, t.From, t.To = op.K, op.From, op.To
	case "fetchKeys":
		t.K1, t.K2, t.From, t.To = op.K1, op.K2, op.From, op.To
	case "fetchAll":
		t.From, t.To = op.From, op.To
	case "find":
		t.K, t.End, t.Start = op.K, op.End, op.Start
	case "findKeys":
		t.K1, t.K2, t.End, t.Start = op.K1, op.K2, op.End, op.Start
	case "findTime":
		t.End, t.Latest, t.Back = op.End, op.Latest, false
	case "fetchKey", "get":
		t.K = op.K
	case "getAsOf":
		t.K, t.AsOf = op.K, op.AsOf
	case "history":
		t.K, t.From, t.To, t.Order = op.K, op.From, op.To, op.Order
	}
	return t
}

// everything reads all that a store shows.
func (g *generator) everything(o optionSet) (ops []scriptOp) {
	switch o.Store {
	case "kv":
		return []scriptOp{modelOp{line: line{Op: "all", RTS: g.now}}}
	case "window":
		return []scriptOp{timedOp{line: line{Op: "all", RTS: g.now}}}
	case "session":
		return []scriptOp{timedOp{line: line{Op: "fetchKeys", RTS: g.now}}}
	}
	for _, k := range genKeys {
		ops = append(ops, timedOp{line: line{Op: "history", RTS: g.now}, kvRow: kvRow{K: hexBytes(k)},
			From: max(0, g.now-o.Retention/2), To: g.now, Order: "asc"})
	}
	return ops
}

// lane is a state directory with its changelog, under way.
type lane struct {
	app, state string
	log        []logRecord
	offset     int64 // input offset that is due
}

// outcome is what a part left.
type outcome struct {
	answers []json.RawMessage
	logged  []logRecord
	dumps   map[string]dump // nil after a kill
}

// parity runs scripts.
type parity struct {
	driver *driver
	tmp    string // for state directories
}

// lanes runs a script and gives the outcomes of its parts on both lanes.
func (p *parity) lanes(s *parityScript) (all [2][]outcome, err error) {
	dir, err := os.MkdirTemp(p.tmp, "app-")
	if err != nil {
		return all, err
	}
	defer os.RemoveAll(dir)
	for i := range all {
		l := &lane{app: filepath.Base(dir), state: filepath.Join(dir, strconv.Itoa(i))}
		if all[i], err = p.lane(s, i, l); err != nil {
			return all, fmt.Errorf("lane %d: %w", i, err)
		}
	}
	return all, nil
}

func (p *parity) lane(s *parityScript, n int, l *lane) (outcomes []outcome, err error) {
	for i, part := range s.Parts {
		if part.Wipe {
			if err := os.RemoveAll(filepath.Join(l.state, l.app)); err != nil {
				return nil, err
			}
		}
		if part.Stale {
			if err := l.plant(); err != nil {
				return nil, err
			}
		}
		var o outcome
		if s.kafka(n, i) {
			o.answers, o.logged, err = l.kafka(p.driver, s, i, s.kills(n, i))
		} else {
			o.answers, o.logged, err = l.forebay(s, i, s.kills(n, i))
		}
		if err != nil {
			return nil, fmt.Errorf("part %d: %w", i, err)
		}
		if len(o.answers) != len(part.Ops) {
			return nil, fmt.Errorf("part %d: %d answers to %d operations", i, len(o.answers), len(part.Ops))
		}
		l.log = append(l.log, o.logged...)
		l.offset += int64(len(part.Ops))
		if !s.kills(n, i) && !s.Options.Memory {
			if o.dumps, err = l.dumps(s.Options.Store); err != nil {
				return nil, fmt.Errorf("part %d: %w", i, err)
			}
		}
		outcomes = append(outcomes, o)
	}
	return outcomes, nil
}

// plant leaves what a crash between the two writes of Kafka's migration leaves.
func (l *lane) plant() error {
	dir := filepath.Join(l.state, l.app, taskName, "rocksdb", storeName)
	listed, err := rocks.List(dir)
	if err != nil {
		return err
	}
	db, err := rocks.Open(dir, listed, listed, nil)
	if err != nil {
		return err
	}
	defer db.Close()
	batch := db.NewBatch(0)
	defer batch.Close()
	for _, name := range listed {
		if name == rocks.Default || name == rocks.Offsets {
			continue
		}
		scan := db.Scan(db.Family(name), base.Span{})
		for scan.Next() {
			batch.Put(db.Family(rocks.Default), scan.Key(), []byte{0})
		}
		err := scan.Err()
		scan.Close()
		if err != nil {
			return err
		}
	}
	return errors.Join(batch.Write(), db.Flush())
}

func (l *lane) next() int64 {
	if len(l.log) == 0 {
		return 0
	}
	return l.log[len(l.log)-1].Offset + 1
}

func (l *lane) kafka(d *driver, s *parityScript, part int, kill bool) ([]json.RawMessage, []logRecord, error) {
	o, p := s.Options, s.Parts[part]
	return d.run(kafkaRun{
		App: l.app, State: l.state, Store: o.Store, Format: o.format(part), Guarantee: o.Guarantee, Cache: o.Cache,
		Transactional: o.Transactional, Retention: o.Retention, Size: windowSize, Duplicates: o.Duplicates, Ordered: o.Ordered,
		Memory: o.Memory, Segment: o.Segment,
		inProcess: &inProcess{Ops: p.Ops, Offset: l.offset, Restore: l.log, Next: l.next(), Kill: kill},
	})
}

func (l *lane) forebay(s *parityScript, part int, kill bool) (answers []json.RawMessage, logged []logRecord, err error) {
	set, p := s.Options, s.Parts[part]
	o := defaults()
	o.app, o.state, o.offset = l.app, l.state, l.offset
	o.store, o.format, o.memory, o.cache, o.guarantee = set.Store, set.format(part), set.Memory, set.Cache, set.Guarantee
	o.retention, o.size, o.segment, o.duplicates, o.ordered = set.Retention, windowSize, set.Segment, set.Duplicates, set.Ordered
	log := &parityLog{fileLog: newFileLog(o.app, nil)}
	log.next = l.next()
	log.any = log.next > 0
	dir := filepath.Join(l.state, l.app)
	f, err := families[o.store](o, filepath.Join(dir, taskName), log)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if kill && err == nil {
			err = errors.Join(os.RemoveAll(dir), os.Rename(filepath.Join(l.state, "killed"), dir))
		}
	}()
	if err := l.restore(f); err != nil {
		return nil, nil, err
	}
	for i, op := range p.Ops {
		text, err := json.Marshal(op)
		if err != nil {
			return nil, nil, err
		}
		answer, err := step(o, f, int64(i), text)
		if errors.Is(err, errScript) {
			return nil, nil, err
		}
		if err != nil {
			answer = failure{err.Error()}
		}
		line, err := marshal(answer)
		if err != nil {
			return nil, nil, err
		}
		answers = append(answers, json.RawMessage(line))
	}
	if kill {
		return answers, log.records, os.CopyFS(filepath.Join(l.state, "killed"), os.DirFS(dir))
	}
	err = f.Commit(context.Background())
	return answers, log.records, err
}

// restore applies what the store does not hold of the lane's changelog.
func (l *lane) restore(f store.RestoreTarget) error {
	held, known := f.RestoredOffset()
	var changes []store.Change
	for _, r := range l.log {
		if known && r.Offset <= held {
			continue
		}
		h, err := r.H.headers()
		if err != nil {
			return err
		}
		changes = append(changes, store.Change{Key: r.K, Row: store.Row{Value: r.V, Timestamp: r.TS, Headers: h}})
	}
	for at := int(l.next()) - len(changes); len(changes) > 0; {
		n := min(restoreBatch, len(changes))
		at += n
		if err := f.RestoreBatch(changes[:n], int64(at-1)); err != nil {
			return err
		}
		changes = changes[n:]
	}
	return nil
}

// parityLog keeps what is logged.
type parityLog struct {
	*fileLog
	records []logRecord
}

func (l *parityLog) Append(c store.Change) error {
	l.records = append(l.records, logRecord{l.next, slices.Clone(c.Key), slices.Clone(c.Value), c.Timestamp, listHeaders(c.Headers)})
	return l.fileLog.Append(c)
}

// dumps reads all databases of the store.
func (l *lane) dumps(family string) (map[string]dump, error) {
	dir := filepath.Join(l.state, l.app, taskName, storeName)
	if family == "kv" || family == "versioned" {
		dir = filepath.Join(l.state, l.app, taskName, "rocksdb")
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	all := map[string]dump{}
	for _, e := range entries {
		if all[e.Name()], err = readDump(filepath.Join(dir, e.Name()), l.state); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// text is the script as it is printed, to be run again.
func (s *parityScript) text() string {
	var b strings.Builder
	_ = encoder(&b).Encode(s)
	return strings.TrimSpace(b.String())
}
