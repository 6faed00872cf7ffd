package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/changelog"
	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/store"
)

// scenario is a state directory and a changelog topic that Kafka Streams and forebay hand
// to each other.
type scenario struct {
	name string
	// parts run one after the other. A part is K for Kafka Streams or F for forebay, the
	// format p(lain), t(imestamped) or h(eaders), and perhaps:
	//
	//	*  every row of an older format is written again
	//	-  few operations, which leave most rows of an older format where they are
	//	0  no operation at all
	//	s  afterwards forebay drains some rows of an older format
	//	d  afterwards forebay drains all of them
	//	~  memtables so small that they reach the disk in the middle of the part
	//	!  killed in the middle
	//	w  the directory was removed: all is restored from the changelog
	//
	// Other parts: "Dx" downgrades the closed directory to the format x, "stale" plants rows
	// in the older family beside newer ones, "Fx no" tries whether forebay refuses to open
	// the directory in the format x, and leaves it as it was.
	parts         string
	guarantee     string
	transactional bool // Kafka's stores
	cache         int64

	// Of the other families.
	store               string // "": kv
	retention           int64  // 0: a few segments, that expire in the course of the parts
	duplicates, ordered bool
	mixed               bool // must have segments in different modes
}

var scenarios = slices.Concat(kvScenarios, windowScenarios, sessionScenarios, versionedScenarios)

// TestHandover hands state directories to and fro between forebay and real Kafka Streams.
// FOREBAY_SEED repeats a run, FOREBAY_HANDOVERS makes so many runs of each scenario, each
// with a seed of its own.
func TestHandover(t *testing.T) {
	address, classpath := needKafka(t)
	// One round of the same scripts by default, with the kills of the key-value family only:
	// those of the others take long. make interop-handover runs them all, and others each time.
	rounds, long := int64(1), os.Getenv("FOREBAY_HANDOVERS") != ""
	seed := envInt(t, "FOREBAY_SEED", 1)
	if long {
		rounds, seed = envInt(t, "FOREBAY_HANDOVERS", 1), envInt(t, "FOREBAY_SEED", time.Now().UnixNano())
	}
	t.Logf("FOREBAY_SEED=%d", seed)
	// Not long ago: a transaction marker has the broker's time, and much older records before
	// it would be compacted at once.
	now := time.Now().Add(-24 * time.Hour).UnixMilli()
	shared := startDriver(t, address, classpath)
	for n := range rounds {
		for i, s := range scenarios {
			if !long && s.store != "" && strings.Contains(s.parts, "!") {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", s.name, n), func(t *testing.T) {
				t.Parallel()
				h := &handover{
					T: t, scenario: s, cluster: newCluster(t, address), shared: shared, classpath: classpath,
					gen:   &generator{rand.New(rand.NewPCG(uint64(seed+n), uint64(i))), now},
					app:   fmt.Sprintf("handover-%d-%d-%d", time.Now().UnixNano(), n, i),
					state: t.TempDir(),
				}
				if h.guarantee == "" {
					h.guarantee = atLeastOnce
				}
				h.subject = h.newSubject()
				h.run()
			})
		}
	}
}

var formatLetters = map[byte]string{'p': "plain", 't': "timestamped", 'h': "headers"}

// part of a scenario.
type part struct {
	text                                  string
	kafka                                 bool
	format                                string
	rewrite, few, none, small, kill, wipe bool
	drain                                 int // slices, -1: all
	count                                 int // new operations
}

func parsePart(t *testing.T, text string) part {
	p := part{text: text, kafka: text[0] == 'K', format: formatLetters[text[1]]}
	require.NotEmpty(t, p.format, text)
	for _, flag := range text[2:] {
		switch flag {
		case '*':
			p.rewrite = true
		case '-':
			p.few = true
		case '0':
			p.none = true
		case 's':
			p.drain = 1
		case 'd':
			p.drain = -1
		case '~':
			p.small = true
		case '!':
			p.kill = true
		case 'w':
			p.wipe = true
		default:
			require.Fail(t, text)
		}
	}
	return p
}

// scriptOp is an operation of some family; its JSON is a line of the script.
type scriptOp interface{ common() line }

func (l line) common() line { return l }

// subject is the store of a scenario: its model, and what its family makes of a directory.
type subject interface {
	// begin readies the model for a part.
	begin(p part)
	// script makes the new operations of a part, which come after those pending.
	script(p part, pending []scriptOp) []scriptOp
	// do answers an operation as the model does.
	do(op scriptOp, offset int64) any
	// check compares the directory and what the part logged, up to the log's end.
	check(p part, log []logRecord, end int64)
	// killed brings the model to what the directory and its changelog hold together. The
	// input was committed after so many of the operations.
	killed(p part, ops []scriptOp, answers []json.RawMessage, committed int)
	// databases are the directories of RocksDB.
	databases() []string
	// wiped: the databases were removed, to be restored from these records.
	wiped(log []logRecord)
	downgrade(format string)
	plant()
	// finish looks whether the scenario did what it is for.
	finish()
}

func (h *handover) newSubject() subject {
	switch h.store {
	case "window", "session":
		return newTimedHandover(h)
	case "versioned":
		return newVersionedHandover(h)
	}
	h.store = "kv"
	return &kvHandover{handover: h}
}

// handover is a scenario under way: parts, kills, answers and offsets, the same for all
// families.
type handover struct {
	*testing.T
	scenario
	cluster   *cluster
	shared    *driver
	classpath string
	gen       *generator
	app       string
	state     string

	subject subject
	next    int64      // input offset that is due
	pending []scriptOp // operations in the input from next on, left by a part that was killed
	logged  int64      // changelog offset up to which records were compared
	// unsure is how many answers of the next part are not compared. Kafka's memtables may
	// have reached the disk with rows of operations that were not logged and come again.
	unsure int
}

func (h *handover) run() {
	h.cluster.makeInput(h.app)
	words := strings.Fields(h.parts)
	for i := 0; i < len(words); i++ {
		switch {
		case words[i] == "stale":
			h.subject.plant()
		case words[i][0] == 'D':
			h.subject.downgrade(formatLetters[words[i][1]])
		case i+1 < len(words) && words[i+1] == "no":
			h.refuse(formatLetters[words[i][1]])
			i++
		default:
			p := parsePart(h.T, words[i])
			p.text = fmt.Sprintf("part %d, %s", i, words[i])
			h.part(p)
		}
	}
	h.subject.finish()
}

func (h *handover) topic() string { return changelog.Name(h.app, storeName) }

func (h *handover) task() string { return filepath.Join(h.state, h.app, taskName) }

func (h *handover) db() string { return filepath.Join(h.task(), "rocksdb", storeName) }

func (h *handover) part(p part) {
	h.subject.begin(p)
	if p.wipe {
		log, _ := h.cluster.log(h.topic(), 0)
		require.NotEmpty(h, log)
		require.NoError(h, os.RemoveAll(h.task()))
		h.subject.wiped(log)
	}
	ops := h.operations(p)
	switch {
	case p.kafka && p.kill:
		h.killKafka(p, ops)
	case p.kafka:
		h.ended(p, ops, h.kafka(p, ops))
	case p.kill:
		h.killForebay(p, ops)
	default:
		h.ended(p, ops, h.forebay(p, ops))
	}
}

// operations makes the input of a part.
func (h *handover) operations(p part) []scriptOp {
	n := 120
	switch {
	case p.none:
		n = 0
	case p.kill && p.small:
		n = 3000 // enough to fill memtables several times
	case p.kill:
		n = 1500 // enough to be killed in time
	case p.few:
		n = 15
	}
	p.count = n
	ops := slices.Concat(h.pending, h.subject.script(p, h.pending))
	h.cluster.produce(h.app, ops[len(h.pending):], h.next+int64(len(h.pending)))
	h.pending = nil
	return ops
}

// compare holds answers against those of the model, which it advances.
func (h *handover) compare(p part, ops []scriptOp, answers []json.RawMessage) {
	require.LessOrEqual(h, len(answers), len(ops), p.text)
	for i, got := range answers {
		want, err := marshal(h.subject.do(ops[i], h.next+int64(i)))
		require.NoError(h, err)
		if want != string(got) && i >= h.unsure {
			text, err := marshal(ops[i])
			require.NoError(h, err)
			require.Equal(h, want, string(got), "%s, operation %d of %d: %s", p.text, i, len(ops), text)
		}
	}
}

// forebay runs operations in this process.
func (h *handover) forebay(p part, ops []scriptOp) []json.RawMessage {
	r := h.live(p)
	var out bytes.Buffer
	status := h.status()
	unclean := slices.Contains(slices.Collect(maps.Values(status)), 1)
	err := r.run(h.cluster.soon(), h.input(ops), &out)
	if unclean && h.guarantee == exactlyOnceV2 {
		// Kafka may have left uncommitted rows.
		require.ErrorIs(h, err, store.ErrTaskCorrupted, p.text)
		for _, dir := range h.subject.databases() {
			require.NoError(h, os.RemoveAll(dir))
		}
		log, _ := h.cluster.log(h.topic(), 0)
		h.subject.wiped(log)
		out.Reset()
		err = r.run(h.cluster.soon(), h.input(ops), &out)
		status = nil
	}
	require.NoError(h, err, p.text)
	for dir, after := range h.status() {
		before, ok := status[dir]
		if !ok {
			before = -1
		}
		require.Equal(h, before, after, "%s: forebay never writes it", p.text)
	}
	var answers []json.RawMessage
	for _, l := range lines(out.Bytes()) {
		answers = append(answers, h.answer(l))
	}
	return answers
}

func (h *handover) live(p part) liveRun {
	r := liveRun{
		Format: p.format, State: h.state, App: h.app, Guarantee: h.guarantee, Cache: h.cache,
		Offset: h.next, Address: h.cluster.address, Hang: p.kill, Drain: p.drain,
		Store: h.store, Retention: h.retention, Duplicates: h.duplicates, Ordered: h.ordered,
	}
	if p.small {
		r.Buffer = 64 << 10 // less than one allocation: every commit reaches the disk
	}
	return r
}

func (h *handover) input(ops []scriptOp) io.Reader {
	var b bytes.Buffer
	for _, op := range ops {
		require.NoError(h, encoder(&b).Encode(op))
	}
	return &b
}

func (h *handover) answer(text string) json.RawMessage {
	var l struct {
		R json.RawMessage `json:"r"`
	}
	require.NoError(h, json.Unmarshal([]byte(text), &l), text)
	return l.R
}

// status is what Kafka stored of how it ended, per database, -1 for nothing.
func (h *handover) status() map[string]int64 {
	status := map[string]int64{}
	for _, dir := range h.subject.databases() {
		status[dir] = -1
		listed, err := rocks.List(dir)
		require.NoError(h, err)
		if slices.Contains(listed, rocks.Offsets) {
			status[dir] = dumpDir(h.T, dir).long(h.T, "status")
		}
	}
	return status
}

// long reads a number of the offsets family, -1 for none.
func (d dump) long(t *testing.T, key string) int64 {
	text, ok := d[rocks.Offsets][hex.EncodeToString([]byte(key))]
	if !ok {
		return -1
	}
	b, err := hex.DecodeString(text)
	require.NoError(t, err)
	require.Len(t, b, 8)
	return int64(binary.BigEndian.Uint64(b))
}

func (h *handover) kafkaRun(p part, count int) kafkaRun {
	r := kafkaRun{
		App: h.app, State: h.state, Store: h.store, Format: p.format, Guarantee: h.guarantee,
		Cache: h.cache, Transactional: h.transactional, Count: count,
		Retention: h.retention, Size: windowSize, Duplicates: h.duplicates,
	}
	if h.ordered {
		r.Ordered = "index"
	}
	if p.small {
		r.Buffer = 64 << 10 // RocksDB takes no less
	}
	return r
}

func (h *handover) kafka(p part, ops []scriptOp) (answers []json.RawMessage) {
	require.NotEmpty(h, ops, "Kafka Streams ends after an operation")
	run, err := h.shared.start(h.kafkaRun(p, len(ops)), len(ops))
	require.NoError(h, err)
	for {
		select {
		case l, ok := <-run:
			if !ok {
				require.Fail(h, h.shared.why(), p.text)
			}
			require.Empty(h, l.Failed, p.text)
			if l.Closed {
				require.Len(h, answers, len(ops), p.text)
				return answers
			}
			answers = append(answers, l.R)
		case <-time.After(2 * time.Minute):
			require.Fail(h, "no answer of Kafka Streams", "%s: %d of %d", p.text, len(answers), len(ops))
		}
	}
}

// refuse opens the directory in a format that it cannot have.
func (h *handover) refuse(format string) {
	before := h.files()
	r := h.live(part{format: format})
	require.ErrorIs(h, r.run(h.cluster.soon(), strings.NewReader(""), &bytes.Buffer{}), store.ErrIncompatible)
	require.Equal(h, before, h.files())
}

func (h *handover) files() map[string]string {
	files := map[string]string{}
	require.NoError(h, filepath.WalkDir(h.task(), func(path string, e fs.DirEntry, err error) error {
		require.NoError(h, err)
		if !e.IsDir() {
			b, err := os.ReadFile(path)
			require.NoError(h, err)
			files[path] = string(b)
		}
		return nil
	}))
	return files
}

// killForebay kills a process in the middle of its operations.
func (h *handover) killForebay(p part, ops []scriptOp) {
	var log bytes.Buffer
	cmd, err := h.live(p).child(h.input(ops), &log)
	require.NoError(h, err)
	out, err := cmd.StdoutPipe()
	require.NoError(h, err)
	require.NoError(h, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	in, enough := bufio.NewReader(out), h.enough(ops)
	var answers []json.RawMessage
	for len(answers) < enough {
		text, err := in.ReadString('\n')
		if err != nil {
			_ = cmd.Wait()
			require.NoError(h, err, "%s: %s%s", p.text, text, log.String())
		}
		answers = append(answers, h.answer(text))
	}
	require.NoError(h, cmd.Process.Kill())
	_ = cmd.Wait()
	h.killed(p, ops, answers)
}

// enough is the number of answers to wait for before the kill.
func (h *handover) enough(ops []scriptOp) int { return len(ops)/2 + h.gen.IntN(len(ops)/4) }

func (h *handover) killKafka(p part, ops []scriptOp) {
	d := startDriver(h.T, h.cluster.address, h.classpath)
	run, err := d.start(h.kafkaRun(p, -1), len(ops))
	require.NoError(h, err)
	enough := h.enough(ops)
	var answers []json.RawMessage
	for len(answers) < enough {
		select {
		case l, ok := <-run:
			if !ok {
				require.Fail(h, d.why(), p.text)
			}
			require.Empty(h, l.Failed, p.text)
			answers = append(answers, l.R)
		case <-time.After(2 * time.Minute):
			require.Fail(h, "no answer of Kafka Streams", "%s: %d of %d", p.text, len(answers), enough)
		}
	}
	require.NoError(h, d.cmd.Process.Kill())
	for l := range run { // what it still said
		require.Empty(h, l.Failed, p.text)
		answers = append(answers, l.R)
	}
	h.killed(p, ops, answers)
}

// ended compares everything after a part that ended well.
func (h *handover) ended(p part, ops []scriptOp, answers []json.RawMessage) {
	require.Len(h, answers, len(ops), p.text)
	h.compare(p, ops, answers)
	h.unsure = 0
	h.next += int64(len(ops))
	require.Equal(h, h.next, h.cluster.committed(h.app), "%s: committed input", p.text)
	got, end := h.cluster.log(h.topic(), h.logged)
	h.subject.check(p, got, end)
	h.logged = end
}

// checkOffset: the changelog offset kept in a database is that of the last record, or of
// a transaction's marker behind it.
func (h *handover) checkOffset(p part, d dump, got []logRecord, end int64) {
	last := h.logged - 1
	if len(got) > 0 {
		last = got[len(got)-1].Offset
	}
	offset := d.long(h.T, h.topic()+"-0")
	if end == 0 {
		require.Equal(h, store.UnknownOffset, offset, p.text)
		return
	}
	require.GreaterOrEqual(h, offset, last, "%s: changelog offset", p.text)
	require.Less(h, offset, end, "%s: changelog offset", p.text)
}

// position is the input offset in a database's position, -1 for none.
func (h *handover) position(d dump) int64 {
	b, err := hex.DecodeString(d[rocks.Offsets][hex.EncodeToString([]byte("position"))])
	require.NoError(h, err)
	position, err := store.DecodePosition(b)
	require.NoError(h, err)
	if at, ok := position.Offset(h.app+"-in", 0); ok {
		return at
	}
	return -1
}

// exactLog compares records but for their offsets.
func (h *handover) exactLog(p part, want, got []logRecord) {
	require.Equal(h, len(want), len(got), "%s: changelog records from offset %d on", p.text, h.logged)
	for i := range want {
		r := got[i]
		r.Offset = 0
		require.Equal(h, want[i], r, "%s: changelog record %d", p.text, i)
	}
}

// killed goes on where the input was committed.
func (h *handover) killed(p part, ops []scriptOp, answers []json.RawMessage) {
	h.cluster.bury(h.app)
	committed := h.cluster.committed(h.app)
	require.GreaterOrEqual(h, committed, h.next, p.text)
	require.Less(h, committed, h.next+int64(len(ops)), p.text)
	h.subject.killed(p, ops, answers, int(committed-h.next))
	h.next, h.pending = committed, ops[committed-h.next:]
	h.logged = h.cluster.end(h.topic(), false)
}

// checkTree: a file that Kafka does not know makes it think of a crash.
func (h *handover) checkTree(p part, names *regexp.Regexp) {
	root := filepath.Join(h.state, h.app)
	require.NoError(h, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		require.NoError(h, err)
		name, err := filepath.Rel(root, path)
		require.NoError(h, err)
		require.Regexp(h, names, filepath.ToSlash(name), p.text)
		return nil
	}))
}
