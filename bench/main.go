package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-streams/forebay/changelog"
)

type plan struct {
	job
	rounds           int
	families, rivals string
	classpath, out   string
	work, executable string
	results          *results
}

func main() {
	var p plan
	worker := flag.Bool("worker", false, "measure one thing, as the command itself asks it to")
	flag.IntVar(&p.rows, "rows", 1_000_000, "rows of a store")
	flag.IntVar(&p.rounds, "rounds", 5, "rounds, in which the contenders alternate")
	flag.IntVar(&p.reads, "reads", 300_000, "most look-ups of a measurement")
	flag.StringVar(&p.families, "families", "kv,windowed,session,versioned", "families to measure")
	flag.StringVar(&p.rivals, "rivals", "raw,kafka", "whom to set forebay beside")
	flag.StringVar(&p.broker, "broker", "", "address of a Kafka broker")
	flag.StringVar(&p.classpath, "classpath", "", "file with the classpath of interop/java")
	flag.StringVar(&p.out, "out", "docs/bench", "directory of the reports")
	flag.StringVar(&p.profile, "profile", "", "directory for profiles of forebay; the times then mean little")
	flag.StringVar(&p.rival, "rival", "", "of a worker")
	flag.StringVar(&p.family, "family", "", "of a worker")
	flag.StringVar(&p.phase, "phase", "", "of a worker")
	flag.StringVar(&p.dir, "dir", "", "of a worker; else where to work")
	flag.StringVar(&p.app, "app", "", "of a worker")
	flag.Int64Var(&p.caches.block, "block-cache", 0, "bytes, of a worker")
	flag.Int64Var(&p.caches.record, "record-cache", 0, "bytes, of a worker")
	flag.BoolVar(&p.caches.mapped, "mapped", false, "read through memory maps, of a worker")
	flag.Parse()
	var err error
	if *worker {
		err = p.job.run()
	} else {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		err = p.run(ctx)
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (p *plan) run(ctx context.Context) (err error) {
	if p.executable, err = os.Executable(); err != nil {
		return err
	}
	if p.work, err = os.MkdirTemp(p.dir, "forebay-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(p.work)
	contenders := []string{"forebay"}
	if p.rivals != "" {
		contenders = append(contenders, strings.Split(p.rivals, ",")...)
	}
	p.results = newResults(p.rows, p.rounds)
	if strings.Contains(p.families, "kv") && p.broker != "" {
		p.app = "bench-" + strconv.FormatInt(time.Now().UnixNano(), 36)
		if err := p.fillChangelog(ctx); err != nil {
			return fmt.Errorf("fill the changelog: %w", err)
		}
	}
	for r := range p.rounds {
		for _, family := range strings.Split(p.families, ",") {
			// Who comes first alternates.
			order := slices.Concat(contenders[r%len(contenders):], contenders[:r%len(contenders)])
			for _, rival := range order {
				began := time.Now()
				if err := p.contend(ctx, rival, family); err != nil {
					return fmt.Errorf("%s, %s: %w", rival, family, err)
				}
				fmt.Fprintf(os.Stderr, "round %d of %d: %s %s (%.0f s)\n", r+1, p.rounds, family, rival, time.Since(began).Seconds())
			}
		}
	}
	return p.results.write(p.out)
}

// contend measures everything of one contender and one family, on fresh databases.
func (p *plan) contend(ctx context.Context, rival, family string) error {
	if rival == "raw" && family == "versioned" {
		return nil // it has no versions
	}
	data := int64(p.rows) * rowBytes
	outgrown := caches{block: min(50<<20, max(data/4, 256<<10))}
	fitting := caches{block: max(2*data, 8<<20)}
	dir := filepath.Join(p.work, fmt.Sprint(rival, "-", family))
	defer os.RemoveAll(dir)
	do := func(name, phase, fits string, c caches) error {
		j := p.job
		j.rival, j.family, j.phase, j.caches = rival, family, phase, c
		j.dir = filepath.Join(dir, name)
		return p.measure(ctx, j, fits)
	}
	steps := []func() error{
		func() error { return do("rows", "put-distinct", "outgrows", outgrown) },
		func() error { return settle(filepath.Join(dir, "rows")) },
		func() error { return do("rows", "read", "outgrows", outgrown) },
	}
	if family == "kv" {
		steps = append(steps, func() error { return do("put", "put", "outgrows", outgrown) })
		if p.rows <= 2_000_000 { // else it would take most machines' memory
			steps = append(steps,
				func() error { return do("rows", "read", "fits", fitting) },
				func() error {
					return do("rows", "cached", "fits", caches{block: fitting.block, record: int64(p.rows) * 1000})
				})
		}
		mapped := outgrown
		mapped.mapped = true
		steps = append(steps, func() error { return do("rows", "read", "outgrows", mapped) })
		if rival != "raw" {
			steps = append(steps, func() error { return p.migration(ctx, rival, dir, outgrown) })
		}
		if p.app != "" {
			steps = append(steps, func() error { return do("restore", "restore", "outgrows", outgrown) })
		}
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// migration reads a store that was written with timestamps alone.
func (p *plan) migration(ctx context.Context, rival, dir string, c caches) error {
	plant := p.job
	plant.rival, plant.family, plant.phase, plant.caches = "forebay", "kv", "plant", c
	plant.app = "bench"
	plant.dir = filepath.Join(dir, "old")
	if rival == "kafka" {
		plant.dir = filepath.Join(plant.dir, plant.app, "0_0")
	}
	if err := p.measure(ctx, plant, ""); err != nil {
		return err
	}
	if err := settle(plant.dir); err != nil {
		return err
	}
	plant.rival, plant.phase, plant.dir = rival, "migrating", filepath.Join(dir, "old")
	return p.measure(ctx, plant, "outgrows")
}

// measure runs a worker and keeps what it prints; fits is empty for what only prepares.
func (p *plan) measure(ctx context.Context, j job, fits string) error {
	if err := os.MkdirAll(j.dir, 0o755); err != nil {
		return err
	}
	cmd := p.forebayWorker(ctx, j)
	if j.rival == "kafka" {
		cmd = p.kafkaWorker(ctx, j)
	}
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", j.phase, err, tail(complaint.Bytes()))
	}
	for line := range bytes.Lines(out.Bytes()) {
		var s sample
		if json.Unmarshal(line, &s) != nil || fits == "" {
			continue
		}
		switch {
		case j.phase == "migrating":
			s.What = "migration-" + s.What
		case j.caches.mapped:
			s.What = "mapped-" + s.What
		}
		p.results.add(figure{j.family, s.What, fits}, j.rival, s)
	}
	return nil
}

func tail(b []byte) string { return string(b[max(0, len(b)-2000):]) }

func (p *plan) forebayWorker(ctx context.Context, j job) *exec.Cmd {
	args := []string{"-worker", "-rival", j.rival, "-family", j.family, "-phase", j.phase, "-dir", j.dir, "-app", j.app, "-broker", j.broker,
		"-rows", strconv.Itoa(j.rows), "-reads", strconv.Itoa(j.reads),
		"-block-cache", strconv.FormatInt(j.caches.block, 10), "-record-cache", strconv.FormatInt(j.caches.record, 10)}
	if j.caches.mapped {
		args = append(args, "-mapped")
	}
	if j.profile != "" && j.rival == "forebay" {
		args = append(args, "-profile", filepath.Join(j.profile, "forebay"))
	}
	return exec.CommandContext(ctx, p.executable, args...)
}

func (p *plan) kafkaWorker(ctx context.Context, j job) *exec.Cmd {
	classpath, err := os.ReadFile(p.classpath)
	if err != nil {
		return exec.CommandContext(ctx, "interop-deps-first")
	}
	app := j.app
	if j.phase != "restore" && j.phase != "migrating" {
		// One application for the steps that share a directory; new ones read no old commands.
		app = fmt.Sprintf("bench-%x-%s", os.Getpid(), j.family)
	}
	return exec.CommandContext(ctx, "java", "-Xmx1g", "-cp", strings.TrimSpace(string(classpath)),
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "Bench",
		"--bootstrap", j.broker, "--state", j.dir, "--app", app, "--family", j.family, "--phase", j.phase,
		"--rows", strconv.Itoa(j.rows), "--reads", strconv.Itoa(j.reads),
		"--block-cache", strconv.FormatInt(j.caches.block, 10), "--record-cache", strconv.FormatInt(j.caches.record, 10),
		"--mapped", strconv.FormatBool(j.caches.mapped))
}

// fillChangelog writes every row once to the changelog that both sides restore from.
func (p *plan) fillChangelog(ctx context.Context) error {
	cl, err := kgo.NewClient(append(changelog.ProducerOpts(), kgo.SeedBrokers(p.broker))...)
	if err != nil {
		return err
	}
	defer cl.Close()
	topic := changelog.Name(p.app, storeName)
	if err := changelog.EnsureTopic(ctx, kadm.NewClient(cl), changelog.Spec{Topic: topic, Partitions: 1, Kind: changelog.KeyValue}); err != nil {
		return err
	}
	headers, err := changelog.RecordHeaders(rowHeaders)
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	now := time.Now()
	for i := range p.rows {
		cl.Produce(ctx, &kgo.Record{Topic: topic, Key: appendKey(nil, i), Value: value(i), Timestamp: now, Headers: headers}, func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}
