package contract

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/subject"
	"github.com/forebay-streams/forebay/store"
)

// resident is the memory of this process in bytes.
func resident(t *testing.T) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	require.NoError(t, err)
	pages, err := strconv.ParseInt(string(bytes.Fields(b)[1]), 10, 64)
	require.NoError(t, err)
	return pages * int64(os.Getpagesize())
}

// Under many puts, committed when the store asks for it, what the budget counts stays within
// it, and the process grows by no more than twice that beside RocksDB's own memory: Go's
// collector lets a heap double before it runs. `make soak` puts ten million rows.
func TestMemory(t *testing.T) {
	const (
		mib      = 1 << 20
		buffers  = 3 * 16 * mib // of the family with the rows, without a common limit
		distinct = 2_000_000
	)
	cache, uncommitted, blocks := int64(16*mib), int64(16*mib), int64(8*mib)
	puts := 100_000
	if raceEnabled {
		puts, cache, uncommitted = 10_000, mib, mib
	}
	if s := os.Getenv("FOREBAY_PUTS"); s != "" {
		var err error
		puts, err = strconv.Atoi(s)
		require.NoError(t, err)
		cache, uncommitted, blocks = 64*mib, store.DefaultUncommitted, store.DefaultBlockCache
	}
	data := bytes.Repeat([]byte("0123456789"), 10)
	headers := store.NewHeaders(
		store.Header{Key: "traceparent", Value: []byte("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")},
		store.Header{Key: "tenant", Value: []byte("acme")})
	for _, k := range []kind{
		{subject.KV, subject.Config{Cache: true}}, {subject.KV, subject.Config{}},
		{subject.Windowed, subject.Config{Cache: true}}, {subject.Session, subject.Config{Cache: true}}, {subject.Versioned, subject.Config{}},
	} {
		if puts > 1_000_000 && k.family != subject.KV {
			continue
		}
		k.config.Layout = store.WithHeaders
		t.Run(k.String(), func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			budget := store.NewBudget(cache, store.Uncommitted(uncommitted), store.BlockCache(blocks))
			k.config.Budget = budget
			s := k.open(t, taskDir(t))
			debug.FreeOSMemory()
			before, most := resident(t), int64(0)
			commits := 0
			var key [16]byte
			for i := range puts {
				binary.BigEndian.PutUint64(key[:], r.Uint64N(distinct)*0x9e3779b97f4a7c15)
				s.SetRecord(store.Record{Topic: "in", Offset: int64(i), Timestamp: 1, Headers: headers})
				if err := s.Put(k.family.At(string(key[:]), 1), subject.Value{Data: data, Timestamp: 1, Headers: headers}); err != nil {
					t.Fatal(err)
				}
				if used := budget.CacheUsed(); used > cache+cache/10 {
					t.Fatalf("caches hold %d bytes of %d", used, cache)
				}
				if used := budget.UncommittedUsed(); used > uncommitted+uncommitted/10 {
					t.Fatalf("uncommitted rows hold %d bytes of %d", used, uncommitted)
				}
				if s.NeedsCommit() {
					most = max(most, resident(t))
					require.NoError(t, s.Commit(ctx))
					commits++
				}
				if i%10_000 == 0 {
					most = max(most, resident(t))
				}
			}
			require.NoError(t, s.Commit(ctx))
			grown, allowed := max(most, resident(t))-before, 2*(cache+uncommitted)+buffers+blocks
			what := fmt.Sprintf("%d puts, %d commits asked for: %d MiB more, %d MiB allowed", puts, commits, grown/mib, allowed/mib)
			t.Log(what)
			require.Greater(t, commits, 0)
			if !raceEnabled {
				require.LessOrEqual(t, grown, allowed, what)
			}
		})
	}
}
