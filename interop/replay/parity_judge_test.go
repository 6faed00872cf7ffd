package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/migration"
)

// difference is where a lane's outcome is not the right one.
type difference struct {
	fault string // "": unexplained
	lane  int
	part  int
	line  int // of the part; -1: what the part left
	text  string
}

// judge compares the outcomes of a script with the right ones, and with each other.
func judge(s *parityScript, all [2][]outcome) (list []difference) {
	right := newParityModel(s.Options)
	models := [2]parityModel{newParityModel(s.Options), newParityModel(s.Options)}
	var logs [2][]logRecord
	var rightLog []logRecord
	offset := int64(0)
	for i, part := range s.Parts {
		restored := part.Wipe || s.Options.Memory && i > 0
		right.open(s.Options, i, false, rightLog, restored)
		touched, removed := map[string]bool{}, int64(0)
		var want [2][]logRecord
		rightLogged := len(rightLog)
		for n := range models {
			models[n].open(s.Options, i, s.kafka(n, i), logs[n], restored)
			models[n].logged()
		}
		flush := func() {
			rightLog = append(rightLog, right.logged()...)
			for n := range models {
				w := models[n].logged()
				if s.Options.Cache > 0 {
					w = coalesce(w)
				}
				want[n] = append(want[n], w...)
			}
		}
		for line, op := range part.Ops {
			answer, _ := marshal(right.do(op, offset))
			right.touch(op, touched)
			if op.common().Op == "remove" {
				removed = max(removed, op.(timedOp).End)
			}
			for n, m := range models {
				got := string(all[n][i].answers[line])
				ask := func() string {
					a, _ := marshal(m.do(op, offset))
					return a
				}
				expected := answer
				if got != answer || !isRead(op) { // reads leave the model as it is
					expected = ask()
				}
				if got == answer {
					continue
				}
				d := difference{lane: n, part: i, line: line}
				switch {
				case got == expected:
					d.fault = followedFault(m, op, func() bool { return ask() == answer })
				case s.kafka(n, i) || s.Swap && i > 0:
					d.fault = explain(&evidence{s.Options, op, answer, expected, got, touched, removed, right, !s.kafka(n, i)})
				}
				if d.fault == "" {
					text, _ := marshal(op)
					d.text = fmt.Sprintf("part %d, line %d: %s\n  right:    %s\n  %-9s %s", i, line, text, answer, s.side(n, i)+":", got)
					if expected != answer {
						d.text += "\n  expected: " + expected
					}
				}
				list = append(list, d)
			}
			offset++
			if op.common().Op == "commit" {
				flush()
			}
		}
		flush()
		for n := range models {
			if text := s.sameLog(want[n], all[n][i].logged, len(logs[n])); text != "" {
				list = append(list, difference{lane: n, part: i, line: -1, text: fmt.Sprintf("part %d: changelog of %s: %s", i, s.side(n, i), text)})
			}
			logs[n] = append(logs[n], all[n][i].logged...)
			for range len(all[n][i].logged) - len(rightLog) + rightLogged {
				if s.Options.Store == "versioned" {
					list = append(list, difference{fault: "versioned-rejected", lane: n, part: i, line: -1})
				}
			}
		}
		list = append(list, s.sameDumps(i, all[0][i].dumps, all[1][i].dumps, right, models)...)
	}
	return list
}

// followedFault names the fault by which a model's answer is not the right one: the one
// without which it is.
func followedFault(m parityModel, op scriptOp, right func() bool) string {
	fault := m.spoiled()
	for _, f := range m.faults() {
		switch {
		case !*f.on:
		case isRead(op):
			*f.on = false
			if right() {
				fault = f.name
			}
			*f.on = true
		case fault == "":
			fault = f.name
		}
	}
	return fault
}

func (s *parityScript) side(lane, part int) string {
	if s.kafka(lane, part) {
		return "Kafka"
	}
	return "forebay"
}

// sameLog compares what a part logged.
func (s *parityScript) sameLog(want, got []logRecord, first int) string {
	if c := s.Options.Cache; c > 0 && c < 10_000 {
		return "" // flushed when the cache was full: the answers after the restore tell
	}
	for i := range got {
		if got[i].Offset != int64(first+i) {
			return fmt.Sprintf("record %d has offset %d", first+i, got[i].Offset)
		}
	}
	if s.Options.Cache > 0 && s.Options.segmented() {
		// What comes too late is logged at once by forebay, and by Kafka Streams with the rest.
		byKey := func(a, b logRecord) int { return bytes.Compare(a.K, b.K) }
		want, got = slices.Clone(want), slices.Clone(got)
		slices.SortStableFunc(want, byKey)
		slices.SortStableFunc(got, byKey)
		for i := range got {
			got[i].Offset = int64(first + i)
		}
	}
	for i := range max(len(want), len(got)) {
		var w, g string
		if i < len(want) {
			want[i].Offset = int64(first + i)
			w, _ = marshal(want[i])
		}
		if i < len(got) {
			g, _ = marshal(got[i])
		}
		if w != g {
			return fmt.Sprintf("record %d of %d, %d expected:\n  right:    %s\n  logged:   %s", i, len(got), len(want), w, g)
		}
	}
	return ""
}

// sameDumps compares the directories that a part left, by row and column family.
func (s *parityScript) sameDumps(part int, a, b map[string]dump, right parityModel, models [2]parityModel) (list []difference) {
	if a == nil || b == nil || models[0].spoiled() != "" || models[1].spoiled() != "" {
		return nil // killed, or what the rows must be like was seen by the answers only
	}
	a, b = s.plainDumps(part, a), s.plainDumps(part, b)
	if fault := s.otherSegments(a, b, right); fault != "" {
		list = append(list, difference{fault: fault, part: part, line: -1})
	}
	var out strings.Builder
	n := 0
	differ := func(format string, args ...any) {
		if n++; n <= 8 {
			fmt.Fprintf(&out, "\n  "+format, args...)
		}
	}
	for name := range both(a, b) {
		for family := range both(a[name], b[name]) {
			for key := range both(a[name][family], b[name][family]) {
				x, inA := a[name][family][key]
				y, inB := b[name][family][key]
				if x != y || inA != inB {
					differ("%s %s %s: %q (%t), %q (%t)", name, family, key, x, inA, y, inB)
				}
			}
			if has(a[name], family) != has(b[name], family) {
				differ("%s has family %s: %t, %t", name, family, has(a[name], family), has(b[name], family))
			}
		}
	}
	if n > 0 {
		list = append(list, difference{part: part, line: -1,
			text: fmt.Sprintf("part %d: directories of %s and %s: %s", part, s.side(0, part), s.side(1, part), out.String())})
	}
	return list
}

// otherSegments takes out segments that only one side has. A remove of a session moves
// stream time, but makes no segment and drops none. A cached one of Kafka Streams is
// flushed as a put, which does both; and where a time-ordered store has an index, a read
// that finds a session gone drops them.
func (s *parityScript) otherSegments(a, b map[string]dump, right parityModel) (fault string) {
	o := s.Options
	if o.Store != "session" || o.Cache == 0 && o.Ordered != "index" {
		return ""
	}
	m := right.(*timedParity)
	dead := func(name string) bool {
		start, err := strconv.ParseInt(strings.TrimPrefix(name, storeName+"."), 10, 64)
		return err == nil && start/m.interval < (m.stream-m.retention)/m.interval
	}
	for name := range both(a, b) {
		for _, side := range [][2]map[string]dump{{a, b}, {b, a}} {
			if has(side[1], name) {
				continue
			}
			empty := len(side[0][name][rocks.Default])+len(side[0][name][migration.SessionHeadersFamily]) == 0
			switch {
			case o.Cache > 0 && (empty || dead(name)):
				fault = "session-cache-remove"
			case o.Ordered == "index" && dead(name):
				fault = "session-ordered-cleanup"
			default:
				continue
			}
			delete(side[0], name)
		}
	}
	return fault
}

func both[K comparable, V any](a, b map[K]V) map[K]bool {
	all := map[K]bool{}
	for k := range a {
		all[k] = true
	}
	for k := range b {
		all[k] = true
	}
	return all
}

func hexKey(s string) string { return hex.EncodeToString([]byte(s)) }

// plainDumps leaves out what the two sides store differently on purpose: DESIGN.md.
func (s *parityScript) plainDumps(part int, dumps map[string]dump) map[string]dump {
	o := s.Options
	out := map[string]dump{}
	for name, d := range dumps {
		c := dump{}
		for family, rows := range d {
			c[family] = maps.Clone(rows)
		}
		offsets := c[rocks.Offsets]
		maps.DeleteFunc(offsets, func(key, _ string) bool { return strings.HasPrefix(key, hexKey("forebay.")) })
		delete(offsets, hexKey("status"))
		if o.Store == "versioned" {
			delete(offsets, hexKey("position")) // Kafka never stores it, and logs what it rejects
			maps.DeleteFunc(offsets, isLogOffset)
		}
		if o.Cache > 0 && o.Store != "kv" { // the last row that was not dropped: others, if they are put when they are flushed
			delete(offsets, hexKey("position"))
		}
		if o.Cache > 0 && o.Cache < 10_000 { // flushed when it was full: other numbers of records
			maps.DeleteFunc(offsets, isLogOffset)
		}
		if o.Ordered != "" {
			c.dropStale(o.Store)
		}
		if o.Upgrade != "" && part > 0 {
			c = c.merged(o, o.format(part))
			delete(c[rocks.Offsets], hexKey("position")) // Kafka's reads move rows, and advance it
		}
		out[name] = c
	}
	return out
}

func has[K comparable, V any](m map[K]V, k K) bool {
	_, ok := m[k]
	return ok
}

func isLogOffset(key, _ string) bool { return strings.HasSuffix(key, hexKey("-changelog-0")) }

// merged puts the rows of all families together, in the newest format.
func (d dump) merged(o optionSet, format string) dump {
	var formats []migration.Format
	var err error
	if o.Store == "session" {
		formats, err = migration.SessionFormats(sessionLayout(format))
	} else {
		formats, err = migration.KeyValueFormats(layouts[format])
	}
	if err != nil {
		panic(err)
	}
	target := formats[len(formats)-1].Layout
	rows := map[string]string{}
	for _, f := range formats {
		for k, v := range d[f.Family] {
			b, err := hex.DecodeString(v)
			if err == nil {
				b, err = f.Layout.Convert(nil, target, b)
			}
			if rows[k] = hex.EncodeToString(b); err != nil {
				rows[k] = err.Error()
			}
		}
	}
	return dump{"rows": rows, rocks.Offsets: d[rocks.Offsets]}
}
