//go:build linux

package rocks

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// glibc makes a heap of a thread at an address that is a multiple of its size, leaves what it
// does not use yet without any rights, and begins it with the address of its arena, which lies
// at the beginning of the first one. Go's own heap lies in maps like these.
const arenaBytes = 64 << 20

var arenaMap = regexp.MustCompile(`(?m)^([0-9a-f]+)-[0-9a-f]+ rw-p 00000000 00:00 0 .*\n[0-9a-f]+-([0-9a-f]+) ---p 00000000 00:00 0`)

func countArenas(t *testing.T) (n int) {
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	memory, err := os.Open("/proc/self/mem")
	require.NoError(t, err)
	defer memory.Close()
	for _, m := range arenaMap.FindAllStringSubmatch(string(maps), -1) {
		from, err := strconv.ParseUint(m[1], 16, 64)
		require.NoError(t, err)
		to, err := strconv.ParseUint(m[2], 16, 64)
		require.NoError(t, err)
		if from%arenaBytes != 0 || to != from+arenaBytes {
			continue
		}
		var word [8]byte
		if _, err := memory.ReadAt(word[:], int64(from)); err != nil {
			continue // gone again
		}
		if arena := binary.NativeEndian.Uint64(word[:]); arena > from && arena < from+256 {
			n++
		}
	}
	return n
}

// The test runs itself again: the number is fixed when a process starts.
func TestFewArenas(t *testing.T) {
	if os.Getenv("FOREBAY_COUNT_ARENAS") != "" {
		busyThreads(t)
		fmt.Println("arenas:", countArenas(t))
		return
	}
	run := func(env ...string) int {
		cmd := exec.Command(os.Args[0], "-test.run=^TestFewArenas$", "-test.v")
		cmd.Env = append(append(os.Environ(), "FOREBAY_COUNT_ARENAS=1"), env...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		_, rest, ok := strings.Cut(string(out), "arenas: ")
		require.True(t, ok, "%s", out)
		n, err := strconv.Atoi(strings.Fields(rest)[0])
		require.NoError(t, err)
		return n
	}
	limit := 1
	if n := runtime.NumCPU(); n >= 8 {
		limit = n / 4
	}
	assert.LessOrEqual(t, run(), limit)
	assert.Greater(t, run("MALLOC_ARENA_MAX=16"), limit, "the environment has the last word")
	assert.Greater(t, run("GLIBC_TUNABLES=glibc.malloc.arena_max=16"), limit)
}

func busyThreads(t *testing.T) {
	db, err := Open(t.TempDir(), families, nil, nil)
	require.NoError(t, err)
	defer db.Close()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			runtime.LockOSThread()
			for range 100 {
				batch := db.NewBatch(0)
				batch.Put(db.Family("rows"), []byte("k"), make([]byte, 10_000))
				assert.NoError(t, batch.Write())
				batch.Close()
			}
		})
	}
	all.Wait()
}
