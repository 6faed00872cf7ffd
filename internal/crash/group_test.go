package crash

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/forebay-streams/forebay/internal/subject"
	"github.com/forebay-streams/forebay/migration"
	"github.com/forebay-streams/forebay/store"
)

// groupCycles is how many kills a directory sees.
const groupCycles = 20

// group is one directory and one variant.
type group struct {
	number  int
	dir     string
	r       *rand.Rand
	variant variant
	phases  []phase
	cycles  int // still to do
	done    int
	checked int // whole checks after a restore
	kills   map[string]int

	layout  store.Layout
	base    origin
	eras    []era           // the formats before
	last    disk            // as of the last kill
	logged  bool            // of a key-value store: the changelog had records then
	allowed map[string]bool // keys that may lie in two families
	cycle   string          // for messages
}

// phase is the part of a group's life in which its directory has one format.
type phase struct {
	layout store.Layout
	cycles int
	// behind leaves rows of the phase before in both families.
	behind bool
	// down begins with a downgrade, as Kafka Streams 4.2 needs it or later ones.
	down, kafka42 bool
}

func newGroup(dir string, seed uint64, number, cycles int) *group {
	r := rand.New(rand.NewPCG(seed, uint64(number)))
	g := &group{kills: map[string]int{}, number: number, dir: filepath.Join(dir, strconv.Itoa(number)), r: r, cycles: cycles}
	pick := func(n ...int64) int64 { return n[r.IntN(len(n))] }
	family, round := subject.Families[number%len(subject.Families)], number/len(subject.Families)
	g.variant = variant{
		Family:       family,
		ExactlyOnce:  (number+round)%2 == 0,
		Cache:        pick(0, 0, 20_000, 200_000),
		WriteBuffers: pick(0, 1<<10, 1<<10, 2<<20, 4<<20),
		LogBuffer:    int(pick(0, 10, 1000)),
		CommitEvery:  int(pick(5, 40, 120)),
		Keys:         int(pick(10, 150, 400, 400)),
		InputSeed:    r.Uint64(),
	}
	older := []store.Layout{store.Plain, store.Timestamped}[r.IntN(2)]
	g.base = origin{rows: rows{}, offset: -1}
	g.last = disk{offset: -1, rows: rows{}}
	if family != subject.KV {
		g.timed(round)
		return g
	}
	switch round % 10 {
	case 0, 3, 7: // one format
		g.phases = []phase{{layout: []store.Layout{store.WithHeaders, store.WithHeaders, store.Timestamped, store.Plain}[r.IntN(4)], cycles: cycles}}
	case 2, 5: // a downgrade, and up again
		g.variant.Big = r.IntN(4) == 0
		g.phases = []phase{
			{layout: older, cycles: 2 * r.IntN(2)},
			{layout: store.WithHeaders, cycles: 2, behind: r.IntN(2) == 0},
			{layout: []store.Layout{store.Plain, store.Timestamped}[r.IntN(2)], cycles: 6, down: true, kafka42: r.IntN(3) == 0},
			{layout: store.WithHeaders, cycles: cycles, behind: r.IntN(2) == 0},
		}
	case 8: // step by step
		g.phases = []phase{{layout: store.Plain, cycles: 4}, {layout: store.Timestamped, cycles: 6}, {layout: store.WithHeaders, cycles: cycles}}
	default: // a migration
		g.phases = []phase{
			{layout: older, cycles: 1 + r.IntN(3)}, {layout: store.WithHeaders, cycles: 8, behind: r.IntN(2) == 0},
			{layout: older, cycles: 1, down: true}, {layout: store.WithHeaders, cycles: cycles, behind: r.IntN(2) == 0},
		}
	}
	g.variant.Drain = len(g.phases) > 1 && r.IntN(4) > 0
	if g.variant.Big {
		g.variant.WriteBuffers, g.variant.Keys, g.variant.CommitEvery = 0, 400, 40
	}
	g.layout = g.phases[0].layout
	return g
}

// timed chooses what a family with times is put through.
func (g *group) timed(round int) {
	v := &g.variant
	v.Step = []int64{20, 200, 600}[g.r.IntN(3)]
	v.Keys = []int{3, 20, 60}[g.r.IntN(3)]
	v.Ordered = v.Family.Segmented() && g.r.IntN(3) == 0
	if !v.Family.Cached() {
		v.Cache = 0
	}
	older := []store.Layout{store.Plain, store.Timestamped}[g.r.IntN(2)]
	switch {
	case v.Family != subject.Windowed:
		older = store.Plain
	case v.Ordered:
		older = store.Timestamped
	}
	switch round % 4 {
	case 0, 2: // a migration
		g.phases = []phase{{layout: older, cycles: 1 + g.r.IntN(3)}, {layout: store.WithHeaders, cycles: g.cycles}}
		if older == store.Plain && v.Family == subject.Windowed && g.r.IntN(2) == 0 { // step by step
			g.phases = []phase{{layout: older, cycles: 2}, {layout: store.Timestamped, cycles: 4}, {layout: store.WithHeaders, cycles: g.cycles}}
		}
	case 1:
		g.phases = []phase{{layout: store.WithHeaders, cycles: g.cycles}}
	case 3:
		g.phases = []phase{{layout: older, cycles: g.cycles}}
	}
	v.Drain = len(g.phases) > 1 && g.r.IntN(4) > 0
	g.layout = g.phases[0].layout
}

// run does the group's cycles; a failure ends it.
func (g *group) run() error {
	if err := os.MkdirAll(g.dir, 0o755); err != nil {
		return err
	}
	if err := writeRows(g.path("base"), g.base.rows); err != nil {
		return err
	}
	for i, p := range g.phases {
		if p.down {
			if err := g.downgrade(p); err != nil {
				return err
			}
		} else if i > 0 {
			if err := g.upgrade(p); err != nil {
				return err
			}
		}
		g.layout = p.layout
		n := min(p.cycles, g.cycles-g.done)
		for c := range n {
			// A format ends with all rows on disk, so that the next one finds some, and a
			// timestamped one without plain rows, which a store with headers would refuse.
			if err := g.work(i+1 < len(g.phases) && c == n-1); err != nil {
				return err
			}
		}
		if g.done == g.cycles {
			break
		}
	}
	g.cycle = "the end"
	t := g.task("run")
	t.Kill.None, t.Until = true, -200
	said, err := g.start(t)
	if err != nil {
		return err
	}
	if said.end != saidDone {
		return failed("the last child ended without a word: %s", said.stderr)
	}
	if err := g.look(said); err != nil {
		return err
	}
	return os.RemoveAll(g.dir)
}

func (g *group) path(name string) string { return filepath.Join(g.dir, name) }

func (g *group) task(mode string) task {
	return task{Mode: mode, Dir: g.dir, Seed: g.r.Uint64(), Variant: g.variant, Layout: g.layout, Base: g.base.offset, Eras: g.eras, Bulk: g.r.IntN(4) > 0, Half: g.last.half}
}

// A mark, and the most hits of it to wait for.
type mark struct {
	name string
	hits int
}

func (m mark) pick(r *rand.Rand, k *kill) { k.Mark, k.Hit = m.name, 1+r.IntN(m.hits) }

var marks = []mark{
	{"log/append", 300}, {"log/append", 300}, {"log/written", 10}, {"store/flushed", 10}, {"commit/acknowledged", 10},
	{"commit/batch", 10}, {"commit/written", 10}, {"commit/written", 10}, {"store/committed", 10},
}

// moreMarks are those of one guarantee only.
var moreMarks = map[bool][]mark{false: {{"input/committed", 10}}, true: {{"transaction/committed", 10}, {"transaction/aborted", 2}}}

// segmentMarks are those of stores with segments only.
var segmentMarks = []mark{{"segments/making", 3}, {"segments/made", 10}, {"segments/one", 20}, {"segments/one", 20}, {"segments/written", 10}, {"segments/removing", 3}, {"segments/removing", 3}}

// bulkMarks are those of a restore in bulk, and emptiedMark that of the open after a half one.
var bulkMarks = []mark{{"bulk/written", 4}, {"bulk/marked", 4}, {"bulk/joined", 4}, {"bulk/committed", 4}}

var emptiedMark = mark{"bulk/emptied", 1}

var drainMarks = []mark{{"drain/slice", 5}, {"drain/slice", 5}, {"drain/slice", 5}, {"drain/unflushed", 1}, {"drain/flushed", 1}, {"drain/dropped", 1}}

var earlyMarks = []string{"open/begin", "open/done", "commit/batch", "commit/written", "restore/batch", "restore/batch"}

// work is a cycle with a child that works.
func (g *group) work(last bool) error {
	if g.variant.Family.Bulk() && g.r.IntN(4) == 0 {
		if err := g.lose(); err != nil {
			return err
		}
	}
	t := g.task("run")
	t.Until = -int64(300 + g.r.IntN(900))
	if g.variant.Big {
		t.Until = -400
	}
	k := &t.Kill
	switch p := g.r.IntN(100); {
	case last:
		k.Close, k.Drain = true, g.layout == store.Timestamped
	case g.last.half && p < 25:
		k.Early = true
		emptiedMark.pick(g.r, k)
	case g.variant.Family.Bulk() && g.last.offset < 0 && g.logged && p < 75:
		t.Bulk, k.Early = true, true
		bulkMarks[g.r.IntN(len(bulkMarks))].pick(g.r, k)
	case p < 15:
		k.Early = true
		if g.r.IntN(3) == 0 {
			k.After = time.Duration(g.r.IntN(40_000)) * time.Microsecond
		} else {
			k.Mark, k.Hit = earlyMarks[g.r.IntN(len(earlyMarks))], 1+g.r.IntN(4)
		}
	case p < 55 && g.legacyLeft() && g.variant.Drain:
		m := drainMarks[g.r.IntN(len(drainMarks))]
		m.pick(g.r, k)
		k.Drain, k.Slice = true, 1+g.r.IntN(20)
		if m.name != "drain/slice" {
			k.Slice = 200 // to come to the end
		}
	case p < 50:
		k.After = time.Duration(g.r.IntN(80_000)) * time.Microsecond
	case p < 95:
		list := slices.Concat(marks, moreMarks[g.variant.ExactlyOnce])
		if g.variant.Family.Segmented() {
			list = append(list, segmentMarks...)
		}
		list[g.r.IntN(len(list))].pick(g.r, k)
	default:
		k.Close, k.Dirty = g.r.IntN(3) > 0, g.r.IntN(2) == 0
	}
	if k.Mark != "" && g.r.IntN(2) == 0 {
		k.Wait = time.Duration(g.r.IntN(15_000)) * time.Microsecond
	}
	g.done++
	return g.killed(t)
}

// lose deletes the state directory, as a disk that is replaced: all comes from the changelog.
func (g *group) lose() error {
	g.base = origin{rows: rows{}, offset: -1}
	g.last = disk{offset: -1, rows: rows{}}
	if err := os.RemoveAll(taskDir(g.dir)); err != nil {
		return err
	}
	return writeRows(g.path("base"), g.base.rows)
}

// legacyLeft tells whether rows of an older format were on disk last.
func (g *group) legacyLeft() bool {
	for layout, n := range g.last.count {
		if n > 0 && layout < g.layout {
			return true
		}
	}
	return false
}

// killed runs a child to its violent end, and looks at what it left.
func (g *group) killed(t task) error {
	g.cycle = fmt.Sprintf("cycle %d, %s %s store, kill %+v", g.done, g.variant.Family, g.layout, t.Kill)
	said, err := g.start(t)
	if err != nil {
		return err
	}
	if !said.killed {
		return failed("the child ended otherwise: %s", said.stderr)
	}
	if said.checked {
		g.checked++
	}
	g.count(t, said)
	g.last.offset = max(g.last.offset, said.loaded)
	if g.r.IntN(8) == 0 {
		if err := g.tear(); err != nil {
			return err
		}
	}
	return g.look(said)
}

func (g *group) count(t task, said words) {
	switch {
	case said.hit != "":
		g.kills[said.hit]++
	case said.closed >= 0:
		g.kills["closed"]++
	case t.Kill.After > 0:
		g.kills["any moment"]++
	default:
		g.kills["end"]++ // its mark was not hit so often
	}
}

// tear leaves half a record at the end of the changelog.
func (g *group) tear() error {
	f, err := os.OpenFile(g.path("changelog"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	b := appendFrame(nil, frame{kind: record, change: store.Change{Key: []byte("torn"), Row: store.Row{Value: []byte("torn")}}})
	b[frameHead-1] ^= 1 // two halves in a row must not make a whole
	_, err = f.Write(b[:1+g.r.IntN(len(b)-1)])
	if err != nil {
		return err
	}
	return f.Close()
}

// words are what a child said.
type words struct {
	checked, killed bool
	hit             string // the mark that it died at
	end             string
	loaded          int64 // offset of a bulk load that ended, or -1
	closed          int64 // offset of a clean close, or -1
	stderr          string
	info            []string
	noMount         bool
}

// start runs a child until it is dead.
func (g *group) start(t task, change ...func(*exec.Cmd)) (words, error) {
	spec, err := json.Marshal(t)
	if err != nil {
		return words{}, err
	}
	out := words{loaded: -1, closed: -1}
	cmd := exec.Command(os.Args[0])
	// What a killed child leaves there goes with the group's directory.
	temp := g.path("tmp")
	if err := os.MkdirAll(temp, 0o755); err != nil {
		return words{}, err
	}
	cmd.Env = append(os.Environ(), childEnv+"="+string(spec), "TMPDIR="+temp)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	for _, f := range change {
		f(cmd)
	}
	stdin, err := cmd.StdinPipe() // never written: a child whose parent dies sees its end
	if err != nil {
		return out, err
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return out, err
	}
	if err := cmd.Start(); err != nil {
		return out, err
	}
	hang := time.AfterFunc(3*time.Minute, func() { _ = cmd.Process.Signal(syscall.SIGQUIT) })
	defer hang.Stop()
	var fail *failure
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case saidReady:
			if t.Kill.Mark == "" && t.Kill.After > 0 {
				time.AfterFunc(t.Kill.After, func() { _ = cmd.Process.Kill() })
			}
		case saidHit:
			out.hit = rest
		case saidChecked:
			out.checked = true
		case saidLoaded:
			out.loaded, _ = strconv.ParseInt(rest, 10, 64)
		case saidClosed:
			out.closed, _ = strconv.ParseInt(rest, 10, 64)
		case saidInfo:
			out.info = append(out.info, rest)
		case saidNoMount:
			out.noMount = true
		case saidDone:
			out.end = word
		case saidFail:
			fail = &failure{}
			if err := json.Unmarshal([]byte(rest), fail); err != nil {
				fail.What = rest
			}
		}
	}
	_ = cmd.Wait() // how it ended is in the state
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	out.killed = status.Signaled() && status.Signal() == syscall.SIGKILL
	out.stderr = strings.TrimSpace(stderr.String())
	if fail != nil {
		return out, fail
	}
	return out, nil
}

// look checks what lies on disk.
func (g *group) look(said words) error {
	if g.variant.Family != subject.KV {
		return g.lookTimed(said)
	}
	d, log, err := g.read()
	if err != nil {
		return err
	}
	want := g.base.replay(log, d.offset, g.layout)
	if err := differ(compare(want, d.rows, equal), "after the kill: the rows on disk are not those of the changelog up to the stored offset %d", d.offset); err != nil {
		return err
	}
	if said.closed >= 0 && d.offset != said.closed {
		return failed("closed at offset %d, but on disk is %d", said.closed, d.offset)
	}
	return g.agree(d, log)
}

func (g *group) read() (d disk, log view, err error) {
	if log, err = readLog(g.path("changelog"), g.variant.ExactlyOnce); err != nil {
		return d, log, err
	}
	d, err = readDisk(g.dir)
	return d, log, err
}

// agree checks offset and position, and that no key came to lie in two families.
func (g *group) agree(d disk, log view) error {
	if d.offset < g.last.offset {
		return failed("the stored offset went from %d back to %d", g.last.offset, d.offset)
	}
	end := log.end
	if g.variant.ExactlyOnce {
		end = log.marker
	}
	if d.offset > end {
		return failed("the stored offset %d lies behind the changelog's committed end %d", d.offset, end)
	}
	for key := range d.twice {
		if !g.allowed[key] {
			return failed("key %q lies in two of the families %v", key, d.families)
		}
	}
	noted, err := readJournal(g.path("journal"))
	if err != nil {
		return err
	}
	if d.offset < 0 {
		noted[-1] = append(noted[store.UnknownOffset], store.Position{})
	}
	if !slices.ContainsFunc(noted[d.offset], d.position.Equal) {
		return failed("the stored position %s was never handed over with offset %d, but %v", d.position, d.offset, noted[d.offset])
	}
	g.last, g.logged = d, len(log.records) > 0
	return nil
}

// rebase takes what is on disk as the state from which the next format begins.
func (g *group) rebase(layout store.Layout) error {
	g.base = origin{rows: rows{}, offset: g.last.offset}
	for key, row := range g.last.rows {
		g.base.rows[key] = keep(row, layout)
	}
	return writeRows(g.path("base"), g.base.rows)
}

func (g *group) upgrade(p phase) error {
	g.eras = append(g.eras, era{g.last.offset, g.layout})
	if g.variant.Family != subject.KV {
		return nil
	}
	if err := g.rebase(p.layout); err != nil || !p.behind || p.layout != store.WithHeaders || len(g.last.families) == 0 {
		return err
	}
	if slices.Contains(g.last.families, migration.HeadersFamily) {
		return nil
	}
	var keys []string
	g.allowed = map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(g.last.rows)) {
		if g.r.IntN(3) == 0 {
			keys = append(keys, key)
			g.allowed[key] = true
		}
	}
	return leaveBehind(g.dir, keys, g.base.rows, func(string) store.Row {
		return store.Row{Value: []byte("stale"), Timestamp: 1}
	})
}

// downgrade goes down to an older format, in as many cycles as it takes.
func (g *group) downgrade(p phase) error {
	before := g.last
	for round := 0; g.done < g.cycles; round++ {
		t := g.task("downgrade")
		t.To, t.Kafka42 = p.layout, p.kafka42
		switch {
		case round == 4: // to the end
		case g.r.IntN(2) == 0:
			t.Kill.After = time.Duration(1+g.r.IntN(60_000)) * time.Microsecond
		default:
			t.Kill.Mark, t.Kill.Hit = []string{"downgrade/moved", "downgrade/flushed", "downgrade/dropped"}[g.r.IntN(3)], 1+g.r.IntN(2)
		}
		g.done++
		g.cycle = fmt.Sprintf("cycle %d, downgrade to %s, kill %+v", g.done, p.layout, t.Kill)
		said, err := g.start(t)
		if err != nil {
			return err
		}
		if !said.killed {
			return failed("the child ended otherwise: %s", said.stderr)
		}
		g.count(t, said)
		done := said.end == saidDone
		if err := g.lookDown(before, p.layout, done); err != nil {
			return err
		}
		if done {
			break
		}
	}
	return g.rebase(p.layout)
}

// lookDown checks a directory amid a downgrade, or behind it: every row is there, as it
// was or stripped of what an older format does not hold.
func (g *group) lookDown(before disk, to store.Layout, done bool) error {
	d, log, err := g.read()
	if err != nil {
		return err
	}
	if err := differ(compare(before.rows, d.rows, func(want, got store.Row) bool {
		stripped := keep(want, to)
		return equal(stripped, got) || !done && (equal(want, got) || equal(keep(want, store.Timestamped), got))
	}), "after the kill (downgrade done: %t)", done); err != nil {
		return err
	}
	if d.offset != before.offset {
		return failed("the downgrade changed offset %d to %d", before.offset, d.offset)
	}
	if done && (slices.Contains(d.families, migration.HeadersFamily) || to == store.Plain && slices.Contains(d.families, migration.TimestampedFamily)) {
		return failed("the downgrade left families %v", d.families)
	}
	return g.agree(d, log)
}
