package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// figure is one row of the report.
type figure struct {
	Family, What string
	Fits         string // "fits" or "outgrows": the rows and the caches
}

// label is the figure's name in a RATIO line. Those of the kv store whose rows outgrow the
// caches, and cached gets, have short ones.
func (f figure) label(rows int) string {
	short := []string{"put", "put-distinct", "get", "get-absent", "scan", "restore"}
	if f.Family == "kv" && (f.Fits == "outgrows" && slices.Contains(short, f.What) || f.What == "get-cached") {
		return f.What
	}
	return fmt.Sprintf("%s/%s/%d/%s", f.Family, f.What, rows, f.Fits)
}

type results struct {
	Rows, Rounds int
	Machine      string
	Date         string
	samples      map[figure]map[string][]sample // by rival; one a round
}

func newResults(rows, rounds int) *results {
	return &results{Rows: rows, Rounds: rounds, Machine: machine(), Date: time.Now().UTC().Format(time.DateOnly), samples: map[figure]map[string][]sample{}}
}

func (r *results) add(f figure, rival string, s sample) {
	if r.samples[f] == nil {
		r.samples[f] = map[string][]sample{}
	}
	r.samples[f][rival] = append(r.samples[f][rival], s)
}

// machine describes where the figures come from.
func machine() string {
	field := func(file, name string) string {
		b, _ := os.ReadFile(file)
		for line := range strings.Lines(string(b)) {
			if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == name {
				return strings.TrimSpace(v)
			}
		}
		return "unknown"
	}
	return fmt.Sprintf("%s, %d cores, %s memory, %s, %s/%s", field("/proc/cpuinfo", "model name"), runtime.NumCPU(),
		field("/proc/meminfo", "MemTotal"), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// Spread is a median with the least and the greatest.
type Spread struct{ Median, Min, Max float64 }

func spreadOf(v []float64) Spread {
	v = slices.Sorted(slices.Values(v))
	if len(v) == 0 {
		return Spread{}
	}
	return Spread{(v[(len(v)-1)/2] + v[len(v)/2]) / 2, v[0], v[len(v)-1]}
}

func (s Spread) String() string { return fmt.Sprintf("%.2f (%.2f–%.2f)", s.Median, s.Min, s.Max) }

// Line is a figure with what was measured.
type Line struct {
	Figure  figure
	Rounds  int
	Label   string
	Wall    map[string]Spread // ns an operation, by contender
	CPU     map[string]Spread // ns an operation of the whole process
	RSS     map[string]float64
	Heap    map[string]float64
	Cross   float64           // calls into C an operation, of forebay
	Allocs  float64           // allocations an operation, of forebay
	Ratio   map[string]Spread // how many times as fast as a rival
	CPUGain map[string]Spread // how many times less processor time
}

// lines evaluates the samples. A ratio is taken between two measurements of one round.
func (r *results) lines() (lines []Line) {
	for f, by := range r.samples {
		l := Line{Figure: f, Rounds: r.Rounds, Label: f.label(r.Rows), Wall: map[string]Spread{}, CPU: map[string]Spread{}, RSS: map[string]float64{},
			Heap: map[string]float64{}, Ratio: map[string]Spread{}, CPUGain: map[string]Spread{}}
		each := func(rival string, of func(sample) float64) (v []float64) {
			for _, s := range by[rival] {
				v = append(v, of(s)/float64(max(s.Ops, 1)))
			}
			return v
		}
		wall := func(s sample) float64 { return float64(s.Wall) }
		cpu := func(s sample) float64 { return float64(s.CPU) }
		for rival, samples := range by {
			l.Wall[rival], l.CPU[rival] = spreadOf(each(rival, wall)), spreadOf(each(rival, cpu))
			for _, s := range samples {
				l.RSS[rival], l.Heap[rival] = max(l.RSS[rival], float64(s.RSS)), max(l.Heap[rival], float64(s.Heap))
			}
			if rival != "forebay" && len(by["forebay"]) == len(samples) {
				l.Ratio[rival] = spreadOf(divide(each(rival, wall), each("forebay", wall)))
				l.CPUGain[rival] = spreadOf(divide(each(rival, cpu), each("forebay", cpu)))
			}
		}
		l.Cross = spreadOf(each("forebay", func(s sample) float64 { return float64(s.Cross) })).Median
		l.Allocs = spreadOf(each("forebay", func(s sample) float64 { return float64(s.Allocs) })).Median
		lines = append(lines, l)
	}
	sortLines(lines)
	return lines
}

func sortLines(lines []Line) {
	slices.SortFunc(lines, func(a, b Line) int {
		return cmp.Or(cmp.Compare(a.Figure.Family, b.Figure.Family), cmp.Compare(a.Figure.Fits, b.Figure.Fits)*-1, cmp.Compare(a.Figure.What, b.Figure.What))
	})
}

func divide(a, b []float64) []float64 {
	out := make([]float64, 0, len(a))
	for i := range min(len(a), len(b)) {
		if b[i] > 0 {
			out = append(out, a[i]/b[i])
		}
	}
	return out
}

// Report is what a run leaves behind.
type Report struct {
	Rows, Rounds  int
	Machine, Date string
	Lines         []Line
}

// keep takes over what an earlier run measured of families that this one left out.
func (r *Report) keep(file string) error {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var old Report
	if err := json.Unmarshal(b, &old); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	measured := map[string]bool{}
	for _, l := range r.Lines {
		measured[l.Figure.Family] = true
	}
	for _, l := range old.Lines {
		if !measured[l.Figure.Family] {
			l.Rounds = cmp.Or(l.Rounds, old.Rounds)
			r.Lines = append(r.Lines, l)
		}
	}
	sortLines(r.Lines)
	return nil
}

// rounds is how many there were, of figures that were measured in different runs as well.
func (r *Report) rounds() string {
	least, most := r.Rounds, r.Rounds
	for _, l := range r.Lines {
		least, most = min(least, l.Rounds), max(most, l.Rounds)
	}
	if least == most {
		return fmt.Sprint(most)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

// write keeps the reports below dir and prints the table and the RATIO lines.
func (r *results) write(dir string) error {
	report := Report{r.Rows, r.Rounds, r.Machine, r.Date, r.lines()}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	measured := slices.Clone(report.Lines)
	if err := report.keep(filepath.Join(dir, fmt.Sprint(r.Rows)+".json")); err != nil {
		return err
	}
	b, err := json.MarshalIndent(report, "", "\t")
	if err != nil {
		return err
	}
	base := filepath.Join(dir, fmt.Sprint(r.Rows))
	if err := os.WriteFile(base+".json", append(b, '\n'), 0o644); err != nil {
		return err
	}
	var md strings.Builder
	report.markdown(&md)
	if err := os.WriteFile(base+".md", []byte(md.String()), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(base+".svg", []byte(report.svg()), 0o644); err != nil {
		return err
	}
	if err := writeGrowth(dir); err != nil {
		return err
	}
	fmt.Print(md.String())
	for _, l := range measured {
		for _, rival := range slices.Sorted(maps.Keys(l.Ratio)) {
			fmt.Printf("RATIO %s %s %.2f\n", l.Label, rival, l.Ratio[rival].Median)
		}
	}
	return nil
}

func (r *Report) markdown(w io.Writer) {
	fmt.Fprintf(w, "# %d rows\n\n%s, rounds: %s, %s. 16-byte keys, 100-byte values, two headers.\n", r.Rows, r.Date, r.rounds(), r.Machine)
	fmt.Fprintf(w, "Nanoseconds an operation (a row, for range, scan and restore): median of the rounds, wall clock / processor time of the\n"+
		"whole process. Ratios: how many times as fast forebay is as the other, median (least–greatest) of the rounds. Crossings and\n"+
		"allocations are forebay's, an operation.\n\n![ratios](%d.svg)\n\n", r.Rows)
	fmt.Fprintln(w, "| | caches | forebay | raw RocksDB | Kafka Streams | × raw | × Kafka | × Kafka, processor | crossings | allocations |\n|---|---|---|---|---|---|---|---|---|---|")
	cell := func(l Line, rival string) string {
		if _, ok := l.Wall[rival]; !ok {
			return ""
		}
		return fmt.Sprintf("%.0f / %.0f", l.Wall[rival].Median, l.CPU[rival].Median)
	}
	ratio := func(m map[string]Spread, rival string) string {
		if s, ok := m[rival]; ok && s.Median > 0 {
			return s.String()
		}
		return ""
	}
	for _, l := range r.Lines {
		fmt.Fprintf(w, "| %s %s | %s | %s | %s | %s | %s | %s | %s | %.2f | %.2f |\n", l.Figure.Family, l.Figure.What, l.Figure.Fits,
			cell(l, "forebay"), cell(l, "raw"), cell(l, "kafka"), ratio(l.Ratio, "raw"), ratio(l.Ratio, "kafka"), ratio(l.CPUGain, "kafka"), l.Cross, l.Allocs)
	}
	fmt.Fprintln(w, "\nMemory at the end of a measurement, greatest of the rounds, MiB: resident (of it on the collected heap).\n\n| | caches | forebay | raw RocksDB | Kafka Streams |\n|---|---|---|---|---|")
	memory := func(l Line, rival string) string {
		if l.RSS[rival] == 0 {
			return ""
		}
		return fmt.Sprintf("%.0f (%.0f)", l.RSS[rival]/(1<<20), l.Heap[rival]/(1<<20))
	}
	for _, l := range r.Lines {
		if l.RSS["forebay"] > 0 {
			fmt.Fprintf(w, "| %s %s | %s | %s | %s | %s |\n", l.Figure.Family, l.Figure.What, l.Figure.Fits, memory(l, "forebay"), memory(l, "raw"), memory(l, "kafka"))
		}
	}
}

// writeGrowth sets forebay's figures of all reports in dir side by side.
func writeGrowth(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return err
	}
	var reports []Report
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var r Report
		if err := json.Unmarshal(b, &r); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		reports = append(reports, r)
	}
	slices.SortFunc(reports, func(a, b Report) int { return cmp.Compare(a.Rows, b.Rows) })
	at := map[figure]map[int]string{}
	var order []figure
	for _, r := range reports {
		for _, l := range r.Lines {
			if at[l.Figure] == nil {
				at[l.Figure] = map[int]string{}
				order = append(order, l.Figure)
			}
			at[l.Figure][r.Rows] = fmt.Sprintf("%.0f", l.Wall["forebay"].Median)
		}
	}
	var w strings.Builder
	fmt.Fprint(&w, "# How forebay's figures grow\n\nNanoseconds an operation, median of the rounds of each run; the runs are in the files next to this one.\n\n| | caches |")
	for _, r := range reports {
		fmt.Fprintf(&w, " [%d rows](%d.md) |", r.Rows, r.Rows)
	}
	fmt.Fprint(&w, "\n|---|---|"+strings.Repeat("---|", len(reports))+"\n")
	for _, f := range order {
		fmt.Fprintf(&w, "| %s %s | %s |", f.Family, f.What, f.Fits)
		for _, r := range reports {
			fmt.Fprintf(&w, " %s |", at[f][r.Rows])
		}
		fmt.Fprintln(&w)
	}
	return os.WriteFile(filepath.Join(dir, "growth.md"), []byte(w.String()), 0o644)
}
