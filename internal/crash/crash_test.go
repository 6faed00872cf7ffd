package crash

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/forebay-streams/forebay/internal/failpoint"
)

// TestMain is the harness itself if CRASH_CYCLES is set, so that its output ends with its
// own last line, and a child if childEnv is.
func TestMain(m *testing.M) {
	if spec := os.Getenv(childEnv); spec != "" {
		os.Exit(child(spec))
	}
	if os.Getenv("CRASH_CYCLES") != "" {
		os.Exit(crash())
	}
	os.Exit(m.Run())
}

// crash runs CRASH_CYCLES cycles from CRASH_SEED (default: random), of all groups or of
// CRASH_GROUP only.
func crash() int {
	if !failpoint.Enabled {
		fmt.Fprintln(os.Stderr, "crash: built without the tag failpoints; use make crash")
		return 2
	}
	cycles, err := strconv.Atoi(os.Getenv("CRASH_CYCLES"))
	if err != nil || cycles < 1 {
		fmt.Fprintln(os.Stderr, "crash: CRASH_CYCLES must be a positive number")
		return 2
	}
	seed := rand.Uint64N(1 << 32)
	if s := os.Getenv("CRASH_SEED"); s != "" {
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			fmt.Fprintln(os.Stderr, "crash: CRASH_SEED:", err)
			return 2
		}
	}
	only := -1
	if s := os.Getenv("CRASH_GROUP"); s != "" {
		if only, err = strconv.Atoi(s); err != nil {
			fmt.Fprintln(os.Stderr, "crash: CRASH_GROUP:", err)
			return 2
		}
	}
	dir, err := os.MkdirTemp("", "forebay-crash-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "crash:", err)
		return 2
	}
	fmt.Printf("crash: seed %d\n", seed)
	r := &run{began: time.Now(), asked: cycles, seed: seed, dir: dir, kills: map[string]int{}}
	groups := make(chan *group)
	var workers sync.WaitGroup
	// More than processors: a good part of a cycle is waiting for the disk.
	for range min(2*runtime.NumCPU(), 8) {
		workers.Go(func() {
			for g := range groups {
				r.add(g, g.run())
			}
		})
	}
	for n := 0; n*groupCycles < cycles && !r.broken(); n++ {
		if only < 0 || n == only {
			groups <- newGroup(dir, seed, n, min(groupCycles, cycles-n*groupCycles))
		}
	}
	close(groups)
	workers.Wait()
	return r.report()
}

// run sums up what the groups found.
type run struct {
	began time.Time
	asked int
	seed  uint64
	dir   string

	mu                                      sync.Mutex
	groups, cycles, checked, lost, invented int
	failures                                int
	kills                                   map[string]int
}

func (r *run) broken() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failures > 0
}

func (r *run) add(g *group, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.groups++
	r.cycles += g.done
	r.checked += g.checked
	for name, n := range g.kills {
		r.kills[name] += n
	}
	if err == nil {
		if now := time.Since(r.began); r.groups%25 == 0 {
			fmt.Printf("crash: %d cycles, %.1f/s\n", r.cycles, float64(r.cycles)/now.Seconds())
		}
		return
	}
	r.failures++
	fmt.Printf("crash: FAILED: make crash CYCLES=%d SEED=%d GROUP=%d, %s\n  variant %s\n  %v\n", r.asked, r.seed, g.number, g.cycle, g.variant, err)
	var f *failure
	if errors.As(err, &f) {
		r.lost += f.Lost
		r.invented += f.Invented
		fmt.Printf("  %d lost, %d invented\n", f.Lost, f.Invented)
		for _, line := range f.Lines {
			fmt.Println("  " + line)
		}
	}
	fmt.Println("  its files are in", g.dir)
}

func (r *run) report() int {
	fmt.Printf("crash: %d directories, %.1f cycles/s, %d restores checked whole\n", r.groups, float64(r.cycles)/time.Since(r.began).Seconds(), r.checked)
	fmt.Print("crash: killed at")
	for i, name := range slices.Sorted(maps.Keys(r.kills)) {
		fmt.Printf("%s %s %d", map[bool]string{true: ","}[i > 0], name, r.kills[name])
	}
	fmt.Println()
	line := fmt.Sprintf("%d cycles, %d lost, %d invented", r.cycles, r.lost, r.invented)
	if r.failures > 0 {
		fmt.Printf("%s, %d FAILED\n", line, r.failures)
		return 1
	}
	os.RemoveAll(r.dir)
	fmt.Println(line)
	return 0
}
