package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// summary is the last line of TestInterop. It comes behind what the testing package says.
var summary string

func TestMain(m *testing.M) {
	slog.SetLogLoggerLevel(slog.LevelError) // that duplicates have no cache, and what expires, is part of the scripts
	code := m.Run()
	if summary != "" {
		fmt.Println(summary)
	}
	os.Exit(code)
}

// families in the order of their lines.
var parityFamilies = []string{"kv", "window", "session", "versioned"}

// scriptSize is how many operations a script has, about: so many that each option set gets
// several scripts, but opening stores does not take all the time.
func scriptSize(operations, sets int) int { return min(max(operations/sets/5, 20), 600) }

// TestInterop runs random scripts on Kafka Streams and on forebay, and compares. FOREBAY_OPS
// are the operations per family, FOREBAY_SEED is the seed, FOREBAY_FAMILY picks one family,
// FOREBAY_SCRIPT is a file with one script, as a difference prints it.
func TestInterop(t *testing.T) {
	r := &interopRun{T: t, parity: newParity(t), seed: uint64(envInt(t, "FOREBAY_SEED", 1))}
	if file := os.Getenv("FOREBAY_SCRIPT"); file != "" {
		r.file(file)
		return
	}
	n := int(envInt(t, "FOREBAY_OPS", 20_000))
	var all tally
	for i, family := range parityFamilies {
		if only := os.Getenv("FOREBAY_FAMILY"); only != "" && only != family {
			continue
		}
		one := r.family(family, i, n)
		fmt.Printf("%-10s %s\n", family, one.line())
		all.add(one)
	}
	r.end(all)
}

func newParity(t *testing.T) *parity {
	return &parity{driver: startDriver(t, "none", needDriver(t)), tmp: scratch(t)}
}

// scratch is a directory in memory, if there is one: RocksDB syncs files when it closes.
func scratch(t *testing.T) string {
	const memory = "/dev/shm"
	if info, err := os.Stat(memory); err != nil || !info.IsDir() || os.Getenv("TMPDIR") != "" {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(memory, "forebay-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// tally counts what scripts have shown.
type tally struct {
	operations, scripts, handovers, unexplained int
	sets                                        int
	explained                                   map[string]int
}

func (a *tally) add(b tally) {
	a.operations += b.operations
	a.scripts += b.scripts
	a.handovers += b.handovers
	a.unexplained += b.unexplained
	if a.explained == nil {
		a.explained = map[string]int{}
	}
	for name, n := range b.explained {
		a.explained[name] += n
	}
}

func (a *tally) sum() (n int) {
	for _, k := range a.explained {
		n += k
	}
	return n
}

func (a *tally) line() string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(a.explained)) {
		names = append(names, fmt.Sprintf("%s %d", name, a.explained[name]))
	}
	text := fmt.Sprintf("%d operations, %d scripts on %d option sets, %d hand-overs, %d unexplained, %d explained",
		a.operations, a.scripts, a.sets, a.handovers, a.unexplained, a.sum())
	if len(names) > 0 {
		text += ": " + strings.Join(names, ", ")
	}
	return text
}

type interopRun struct {
	*testing.T
	parity *parity
	seed   uint64

	mu      sync.Mutex
	printed int
}

func (r *interopRun) end(all tally) {
	summary = fmt.Sprintf("%d operations, %d unexplained, %d explained", all.operations, all.unexplained, all.sum())
	require.Zero(r, all.unexplained, "unexplained differences")
}

// family runs so many operations on the option sets of a family in turn.
func (r *interopRun) family(family string, number, n int) tally {
	sets := optionSets[family]
	var all tally
	// Several scripts at a time: some are answered by Kafka Streams while others are by forebay.
	var workers sync.WaitGroup
	for range 3 {
		workers.Go(func() {
			for {
				r.mu.Lock()
				i := all.scripts
				if all.operations >= n {
					r.mu.Unlock()
					return
				}
				rnd := rand.New(rand.NewPCG(r.seed, uint64(number)<<32|uint64(i)))
				s := newScript(sets[i%len(sets)].prepared(family), rnd, min(scriptSize(n, len(sets)), n-all.operations))
				all.scripts++
				all.operations += s.operations()
				all.handovers += s.handovers()
				r.mu.Unlock()
				one := r.script(s)
				r.mu.Lock()
				all.add(one)
				r.mu.Unlock()
			}
		})
	}
	workers.Wait()
	all.sets = min(all.scripts, len(sets))
	return all
}

// differences runs a script. What could not be run at all is a difference, too.
func (p *parity) differences(s *parityScript) []difference {
	outcomes, err := p.lanes(s)
	if err != nil {
		return []difference{{line: -1, text: err.Error()}}
	}
	return judge(s, outcomes)
}

func unexplained(d difference) bool { return d.fault == "" }

// script runs one, and prints the shortest that shows a difference if there is one.
func (r *interopRun) script(s *parityScript) tally {
	one := tally{explained: map[string]int{}}
	list := r.parity.differences(s)
	for _, d := range list {
		if unexplained(d) {
			one.unexplained++
		} else {
			one.explained[d.fault]++
		}
	}
	if one.unexplained > 0 {
		r.show(s)
	}
	return one
}

// shown is how many differences are printed.
const shown = 5

func (r *interopRun) show(s *parityScript) {
	r.mu.Lock()
	r.printed++
	n := r.printed
	r.mu.Unlock()
	if n > shown {
		return
	}
	shows := func(s *parityScript) bool { return slices.ContainsFunc(r.parity.differences(s), unexplained) }
	s = reduce(s, time.Now().Add(time.Minute), shows)
	list := r.parity.differences(s)
	i := slices.IndexFunc(list, unexplained)
	if i < 0 {
		list, i = []difference{{text: "this time there was none"}}, 0
	}
	fmt.Printf("%s store, %s: %s\nthe shortest script that shows it, for make interop SCRIPT=file:\n%s\n",
		s.Options.Store, s.Options.Name, cut(list[i].text), s.text())
}

// cut leaves out most of a long text.
func cut(text string) string {
	const most = 4000
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}

func (r *interopRun) file(name string) {
	text, err := os.ReadFile(name)
	require.NoError(r, err)
	var s parityScript
	require.NoError(r, json.Unmarshal(text, &s))
	list := r.parity.differences(&s)
	one := tally{operations: s.operations(), explained: map[string]int{}}
	for _, d := range list {
		if unexplained(d) {
			one.unexplained++
		} else {
			one.explained[d.fault]++
		}
		fmt.Printf("%s: %s\n", cmp.Or(d.fault, "unexplained"), cut(d.text))
	}
	r.end(one)
}

// UnmarshalJSON reads a script whose operations are of some family.
func (s *parityScript) UnmarshalJSON(text []byte) error {
	var raw struct {
		Options optionSet
		Swap    bool
		Parts   []struct {
			Wipe, Stale bool
			Kill        killed
			Ops         []json.RawMessage
		}
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return err
	}
	s.Options, s.Swap = raw.Options, raw.Swap
	for _, p := range raw.Parts {
		part := parityPart{Wipe: p.Wipe, Stale: p.Stale, Kill: p.Kill}
		for _, line := range p.Ops {
			op, err := parseOp(raw.Options.Store, line)
			if err != nil {
				return err
			}
			part.Ops = append(part.Ops, op)
		}
		s.Parts = append(s.Parts, part)
	}
	return nil
}

func parseOp(family string, text []byte) (scriptOp, error) {
	if family == "kv" {
		var op modelOp
		err := json.Unmarshal(text, &op)
		return op, err
	}
	var op timedOp
	err := json.Unmarshal(text, &op)
	return op, err
}
