package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// report prints what happens, and a table at the end.
type report struct {
	out      io.Writer
	embedded bool // the broker is in this process
	phases   []phase
}

type phase struct {
	name string
	rows int
	took time.Duration
}

func (p phase) rate() float64 { return float64(p.rows) / max(p.took, time.Microsecond).Seconds() }

func (r *report) printf(format string, args ...any) { fmt.Fprintf(r.out, format+"\n", args...) }

// progress is that of one phase.
type progress struct {
	report      *report
	name        string
	total       int // 0: not known
	began, said time.Time
}

func (r *report) begin(name string, total int) *progress {
	now := time.Now()
	return &progress{r, name, total, now, now}
}

// at says, at most once a second, how far the phase has come.
func (p *progress) at(n int) {
	now := time.Now()
	if now.Sub(p.said) < time.Second || p.total == 0 {
		return
	}
	p.said = now
	f := phase{p.name, n, now.Sub(p.began)}
	p.report.printf("%-9s %3d %%  %9.0f rows/s", f.name, 100*n/p.total, f.rate())
}

func (p *progress) end(rows int) {
	f := phase{p.name, rows, time.Since(p.began)}
	p.report.phases = append(p.report.phases, f)
	p.report.printf("%-9s 100 %%  %9.0f rows/s  %d rows in %.2f s", f.name, f.rate(), f.rows, f.took.Seconds())
}

func (r *report) table() {
	r.printf("\n%-9s %9s %8s %9s", "phase", "rows", "seconds", "rows/s")
	for _, f := range r.phases {
		r.printf("%-9s %9d %8.2f %9.0f", f.name, f.rows, f.took.Seconds(), f.rate())
	}
	with := ""
	if r.embedded {
		with = ", the broker's included"
	}
	r.printf("peak memory %s%s\n", peakMemory(), with)
}

// peakMemory is the process's largest resident set, where the system tells.
func peakMemory() string {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		var kib int
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kib); err == nil {
			return fmt.Sprintf("%d MiB", kib>>10)
		}
	}
	return "unknown"
}
