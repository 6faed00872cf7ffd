package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-streams/forebay/changelog"
	"github.com/forebay-streams/forebay/kv"
	"github.com/forebay-streams/forebay/store"
)

// job is what one worker process does.
type job struct {
	rival, family, phase string
	dir                  string // the task directory; the database's, for raw
	rows, reads          int
	caches               caches
	broker, app          string
	profile              string // prefix of the files that keep profiles; none if empty
}

// sample is one measurement, as workers print it.
type sample struct {
	What   string `json:"what"`
	Ops    int    `json:"ops"`
	Wall   int64  `json:"wall_ns"`
	CPU    int64  `json:"cpu_ns"` // of the whole process
	RSS    int64  `json:"rss"`
	Heap   int64  `json:"heap"`   // of the language's own collector
	Cross  int64  `json:"cross"`  // calls into C; unknown of Kafka
	Allocs int64  `json:"allocs"` // unknown of Kafka
}

type meter struct {
	wall      time.Time
	cpu       int64
	cross     int64
	mem       runtime.MemStats
	profiling func()
}

func processorTime() int64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// begin starts a measurement.
func (j *job) begin(what string) *meter {
	m := &meter{profiling: func() {}}
	if j.profile != "" {
		name := fmt.Sprintf("%s-%s-%s", j.profile, j.family, what)
		if f, err := os.Create(name + ".cpu.pprof"); err == nil && pprof.StartCPUProfile(f) == nil {
			m.profiling = func() {
				pprof.StopCPUProfile()
				f.Close()
				if heap, err := os.Create(name + ".allocs.pprof"); err == nil {
					_ = pprof.Lookup("allocs").WriteTo(heap, 0)
					heap.Close()
				}
			}
		}
	}
	runtime.ReadMemStats(&m.mem)
	m.cross, m.cpu, m.wall = runtime.NumCgoCall(), processorTime(), time.Now()
	return m
}

// end prints the measurement.
func (m *meter) end(what string, ops int) {
	wall, cpu, cross := time.Since(m.wall).Nanoseconds(), processorTime()-m.cpu, runtime.NumCgoCall()-m.cross
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	m.profiling()
	emit(sample{what, ops, wall, cpu, resident(), int64(now.HeapAlloc), cross, int64(now.Mallocs - m.mem.Mallocs)})
}

func emit(s sample) { _ = json.NewEncoder(os.Stdout).Encode(s) }

func resident() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages, _ := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

func (j *job) open(layout store.Layout) (subject, error) {
	if j.rival == "raw" {
		return openRaw(j.dir, j.family, j.rows, j.caches)
	}
	return openForebay(j.dir, j.family, layout, j.rows, j.caches)
}

// run is the worker's main.
func (j *job) run() (err error) {
	if j.phase == "restore" {
		return j.restore()
	}
	layout := store.WithHeaders
	if j.phase == "plant" {
		layout = store.Timestamped
	}
	s, err := j.open(layout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	switch j.phase {
	case "put", "put-distinct", "plant":
		return errors.Join(j.warmUp(layout), j.puts(s))
	default:
		return j.read(s)
	}
}

// warmUp puts rows into a store that is thrown away, as Kafka Streams' side does: the first
// commits of a process wait for its memory.
func (j *job) warmUp(layout store.Layout) (err error) {
	dir, err := os.MkdirTemp("", "forebay-bench-warm")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	w := *j
	w.dir, w.rows = filepath.Join(dir, storeName), min(j.rows, 200_000)
	s, err := w.open(layout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	_, err = w.write(s)
	return err
}

// puts measures how rows are written.
func (j *job) puts(s subject) error {
	m := j.begin(j.phase)
	committing, err := j.write(s)
	if err != nil {
		return err
	}
	m.end(j.phase, j.rows)
	if j.phase == "put-distinct" {
		emit(sample{What: "commit", Ops: j.rows, Wall: committing.Nanoseconds()})
	}
	return nil
}

// write writes rows with a commit for every round of them, and returns the time of the
// commits. In phase put each key is written three times in its round.
func (j *job) write(s subject) (committing time.Duration, err error) {
	for from := 0; from < j.rows; from += round {
		n := min(round, j.rows-from)
		distinct := n
		if j.phase == "put" {
			distinct = (n + 2) / 3
		}
		for i := range n {
			if err := s.put(from + i%distinct); err != nil {
				return 0, err
			}
		}
		began := time.Now()
		if err := s.commit(); err != nil {
			return 0, err
		}
		committing += time.Since(began)
	}
	return committing, nil
}

var errRows = errors.New("rows are missing or too many")

func (j *job) gets(what string, s subject, n int, at func() int, want bool) error {
	m := j.begin(what)
	for range n {
		if ok, err := s.get(at()); err != nil || ok != want {
			return errors.Join(err, fmt.Errorf("%s: %w", what, errRows))
		}
	}
	m.end(what, n)
	return nil
}

// read measures reads, after some that warm caches up.
func (j *job) read(s subject) error {
	r := rand.New(rand.NewPCG(2, 2))
	any := func() int { return r.IntN(j.rows) }
	n := min(j.rows, j.reads)
	cached := j.phase == "cached"
	warm := min(j.rows, 200_000)
	if cached {
		warm = j.rows
	}
	for i := range warm {
		at := i
		if !cached {
			at = any()
		}
		if ok, err := s.get(at); err != nil || !ok {
			return errors.Join(err, errRows)
		}
	}
	if cached {
		return j.gets("get-cached", s, n, any, true)
	}
	for range min(n, 2000) {
		if _, err := s.rangeFrom(any()); err != nil {
			return err
		}
	}
	if err := j.gets("get", s, n, any, true); err != nil {
		return err
	}
	if j.family == "kv" {
		if err := j.gets("get-absent", s, n, func() int { return j.rows + any() }, false); err != nil {
			return err
		}
	}
	if h, ok := s.(headerReader); ok && j.family == "kv" && j.phase == "read" {
		m := j.begin("get-header")
		for range n {
			if ok, err := h.header(any()); err != nil || !ok {
				return errors.Join(err, errRows)
			}
		}
		m.end("get-header", n)
	}
	m, rows := j.begin("range"), 0
	for range n / 20 {
		got, err := s.rangeFrom(any())
		if err != nil {
			return err
		}
		rows += got
	}
	m.end("range", rows)
	m = j.begin("scan")
	rows, err := s.scan()
	if err != nil || rows == 0 {
		return err
	}
	if rows != j.rows {
		return fmt.Errorf("scan saw %d rows: %w", rows, errRows)
	}
	m.end("scan", rows)
	return nil
}

// restore fills a fresh store from the changelog of app.
func (j *job) restore() error {
	topic := changelog.Name(j.app, storeName)
	if j.rival == "raw" {
		return j.rawRestore(topic)
	}
	budget := j.caches.budget()
	s, err := kv.Open(j.dir, storeName, store.RawBytes(), store.RawBytes(), kv.Shared(budget), kv.ChangelogTopic(topic, 0))
	if err != nil {
		return err
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(j.broker))
	if err != nil {
		return errors.Join(err, s.Close())
	}
	defer cl.Close()
	m := j.begin("restore")
	result, err := changelog.Restore(context.Background(), cl, s)
	if err == nil {
		m.end("restore", int(result.Rows))
	}
	return errors.Join(err, s.Close())
}

// rawRestore consumes the topic and writes what comes, in batches.
func (j *job) rawRestore(topic string) error {
	s, err := openRaw(j.dir, "kv", j.rows, j.caches)
	if err != nil {
		return err
	}
	r := s.(*raw)
	cl, err := kgo.NewClient(kgo.SeedBrokers(j.broker), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	if err != nil {
		return errors.Join(err, s.close())
	}
	defer cl.Close()
	m, rows := j.begin("restore"), 0
	var buffer []byte
	for rows < j.rows {
		fetches := cl.PollFetches(context.Background())
		if err := fetches.Err0(); err != nil {
			return errors.Join(err, s.close())
		}
		fetches.EachRecord(func(record *kgo.Record) {
			b, e := r.layout.Append(buffer[:0], store.Row{Value: record.Value, Timestamp: record.Timestamp.UnixMilli(), Headers: changelog.Headers(record)})
			err, buffer = errors.Join(err, e), b
			r.batch.PutCF(r.rows, record.Key, b)
			rows++
		})
		if err = errors.Join(err, s.commit()); err != nil {
			return errors.Join(err, s.close())
		}
	}
	m.end("restore", rows)
	return s.close()
}

// settle opens every database below a directory until RocksDB has flushed and compacted what
// it wants to. It can call a compaction pending for ever that it never begins: what has not
// begun for patience will not.
func settle(dir string) error {
	const step, patience = 20 * time.Millisecond, time.Second
	return filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.Name() != "CURRENT" {
			return err
		}
		db, err := openDatabase(filepath.Dir(path), caches{block: 8 << 20})
		if err != nil {
			return err
		}
		for waited := time.Duration(0); waited < patience; waited += step {
			if db.any("num-running-flushes", "num-running-compactions") {
				waited = 0
			} else if !db.any("mem-table-flush-pending", "compaction-pending") {
				break
			}
			time.Sleep(step)
		}
		return db.close()
	})
}

// any tells whether one of the properties is not 0, of any family.
func (d *database) any(properties ...string) bool {
	for _, h := range d.handles {
		for _, property := range properties {
			if n, _ := d.db.GetIntPropertyCF("rocksdb."+property, h); n > 0 {
				return true
			}
		}
	}
	return false
}
