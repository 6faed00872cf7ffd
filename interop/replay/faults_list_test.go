package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fault is an answer of Kafka Streams that is not the right one, or something in its
// changelog or directory that is not what it should be. Nothing else is explained.
type fault struct {
	name  string
	store string
	// release is that of Kafka Streams which alone has it, "" for all: "4.3" or "4.4".
	release string
	// what Kafka does, and where the project says what is right.
	what, section string
	// explains tells whether an answer shows it. nil: the model or the judge follows it.
	explains func(*evidence) bool
	// left: the directory shows it afterwards, to forebay too.
	left bool
	// avoided: random scripts stay clear of it, since what it leaves is not for a model.
	avoided bool
	// The options of a script that shows it: the name of a set, or a set of its own.
	options string
	own     *optionSet
	// parts of the script: operations. The first is killed if so, and handed over; the last
	// comes after stale rows were planted.
	parts         [][]string
	killed, stale bool
}

// set gives the options of the script.
func (f *fault) set() optionSet {
	if f.own != nil {
		return f.own.prepared(f.store)
	}
	sets := optionSets[f.store]
	return sets[slices.IndexFunc(sets, func(o optionSet) bool { return o.Name == f.options })].prepared(f.store)
}

func (f *fault) shows(t *testing.T) *parityScript {
	s := &parityScript{Options: f.set(), Swap: f.killed}
	for i, lines := range f.parts {
		var p parityPart
		if f.killed && i == 0 {
			p.Kill = killBoth
		}
		p.Stale = f.stale && i == len(f.parts)-1
		for _, line := range lines {
			op, err := parseOp(f.store, []byte(line))
			require.NoError(t, err, line)
			p.Ops = append(p.Ops, op)
		}
		s.Parts = append(s.Parts, p)
	}
	return s
}

// faults are in the order of the table in docs/interop.md.
var faults = []fault{
	{
		name: "kv-cache-reverse", store: "kv", explains: kvCacheReverse,
		what:    "A reverse scan over a deleted key that the cache holds fails, or shows the key.",
		section: "DESIGN.md, difference 7",
		options: "headers, cached",
		parts: [][]string{{
			`{"op":"put","k":"61","v":"01"}`, `{"op":"commit"}`, `{"op":"delete","k":"62"}`, `{"op":"reverseAll"}`,
		}},
	},
	{
		name: "kv-prefix-ff", store: "kv", explains: kvPrefixFF,
		what:    "In memory and with a cache, a prefix scan fails if the prefix is empty or all ff.",
		section: "DESIGN.md, difference 7",
		options: "plain, memory",
		parts:   [][]string{{`{"op":"prefix","p":"ff"}`}},
	},
	{
		name: "kv-transactional-bounds", store: "kv", release: "4.4", explains: kvTransactionalBounds,
		what:    "In a transactional store, a scan with one open end does not stop at the other.",
		section: "DESIGN.md, difference 7",
		options: "headers, transactional",
		parts:   [][]string{{`{"op":"put","k":"62","v":"01"}`, `{"op":"commit"}`, `{"op":"range","to":"61"}`}},
	},
	{
		name: "kv-stale-twice", store: "kv", release: "4.3", avoided: true,
		what:    "A scan of a store that is being upgraded shows a key twice if a crash has left its old row beside the new one.",
		section: "docs/migration.md, After a crash",
		options: "plain to headers", stale: true,
		parts: [][]string{{}, {`{"op":"put","k":"61","v":"01"}`, `{"op":"put","k":"62","v":"01"}`}, {`{"op":"put","k":"62","v":"02"}`, `{"op":"all"}`}},
	},
	{
		name: "window-range", store: "window", explains: timedCacheRange,
		what:    "A range of keys misses a key if its upper bound is the key and low bytes.",
		section: "DESIGN.md, difference 12; docs/format/windowed.md, Bounds of a query",
		options: "headers",
		parts: [][]string{{
			`{"op":"put","k":"61","v":"01","start":60000}`, `{"op":"fetchKeys","k1":"61","k2":"6100","to":60000}`,
		}},
	},
	{
		name: "window-cache-expired", store: "window", explains: timedCacheExpired,
		what:    "Rows in the cache stay visible when they have expired.",
		section: "DESIGN.md, difference 13",
		options: "headers, cached",
		parts: [][]string{{
			`{"op":"put","k":"61","v":"01","start":0}`, `{"op":"put","k":"61","v":"02","start":180000}`, `{"op":"all"}`,
		}},
	},
	{
		name: "window-cache-backward", store: "window", explains: timedCacheBackward,
		what:    "A backward scan shows rows that are deleted in the cache.",
		section: "DESIGN.md, difference 7",
		options: "headers, cached",
		parts: [][]string{{
			`{"op":"put","k":"61","v":"01","start":0}`, `{"op":"commit"}`, `{"op":"put","k":"61","start":60000}`, `{"op":"all","back":true}`,
		}},
	},
	{
		name: "window-cache-repeats", store: "window", explains: windowCacheRepeats,
		what:    "A range of keys with an open end shows rows in the cache once for each segment.",
		section: "DESIGN.md, difference 7",
		options: "headers, cached",
		parts: [][]string{{
			`{"op":"put","k":"61","v":"01","start":60000}`, `{"op":"fetchKeys","k1":"61","to":120000}`,
		}},
	},
	{
		name: "window-cache-memory", store: "window", explains: timedCacheMemory,
		what:    "With a cache over memory, rows come in the order of either, and can come twice, with the old value too.",
		section: "DESIGN.md, difference 7",
		options: "plain, memory, cached",
		parts: [][]string{{
			`{"op":"put","k":"62","v":"01","start":60000}`, `{"op":"put","k":"6200","v":"02","start":60000}`, `{"op":"all"}`,
		}},
	},
	{
		name: "window-offsets", store: "window", avoided: true,
		what: "After a crash that left segments at different changelog offsets, Kafka Streams restores from that of the newest segment" +
			" that has one, and lacks what the others had not written.",
		section: "docs/migration.md, After a crash",
		options: "headers, lasting", killed: true,
		parts: [][]string{
			{
				`{"op":"put","k":"61","v":"01","start":60000000}`, `{"op":"commit"}`,
				`{"op":"put","k":"61","v":"02","start":0}`, `{"op":"commit"}`,
			},
			{`{"op":"all"}`},
		},
	},
	{
		name: "session-cache-expired", store: "session", explains: timedCacheExpired,
		what:    "Rows in the cache stay visible when they have expired.",
		section: "DESIGN.md, difference 13",
		options: "headers, cached",
		parts: [][]string{{
			`{"op":"put","k":"61","v":"01","start":0,"end":0}`, `{"op":"put","k":"61","v":"02","start":180000,"end":180000}`, `{"op":"fetchKeys"}`,
		}},
	},
	{
		name: "session-cache-backward", store: "session", explains: timedCacheBackward,
		what:    "A backward scan shows rows that are deleted in the cache.",
		section: "DESIGN.md, difference 7",
		options: "headers, cached",
		parts: [][]string{{
			`{"op":"put","k":"61","v":"01","start":0,"end":0}`, `{"op":"commit"}`,
			`{"op":"remove","k":"61","start":60000,"end":60000}`, `{"op":"fetchKeys","back":true}`,
		}},
	},
	{
		name: "session-cache-find", store: "session", explains: sessionCacheFind,
		what:    "With a cache, a backward search by key fails if the cache has no session of it, and else can miss some.",
		section: "DESIGN.md, difference 7",
		options: "headers, cached",
		parts:   [][]string{{`{"op":"find","k":"61","end":0,"start":100000,"back":true}`}},
	},
	{
		name: "session-cache-memory", store: "session", explains: timedCacheMemory,
		what:    "As window-cache-memory.",
		section: "DESIGN.md, difference 7",
		options: "headers, memory, cached",
		parts: [][]string{{
			`{"op":"put","k":"61","v":"01","start":60000,"end":60000}`, `{"op":"put","k":"61","v":"02","start":0,"end":60000}`, `{"op":"fetchKeys"}`,
		}},
	},
	{
		name: "session-cache-times", store: "session", explains: sessionCacheTimes,
		what:    "With a cache, sessions cannot be searched by end.",
		section: "DESIGN.md, difference 7",
		options: "headers, memory, cached",
		parts:   [][]string{{`{"op":"findTime","end":0,"latest":1}`}},
	},
	{
		name: "session-cache-remove", store: "session", explains: sessionCacheRemove,
		what:    "With a cache, a remove is flushed as a put: it makes a segment, drops those that have expired, and in memory moves stream time.",
		section: "docs/format/session.md, Stream time",
		options: "headers, cached",
		parts:   [][]string{{`{"op":"remove","k":"61","start":0,"end":0}`}},
	},
	{
		name: "session-memory-inverted", store: "session", explains: sessionMemoryInverted,
		what:    "In memory, a range of keys fails if it ends before it begins.",
		section: "DESIGN.md, difference 13",
		options: "plain, memory",
		parts: [][]string{{
			`{"op":"put","k":"61","v":"01","start":0,"end":0}`, `{"op":"fetchKeys","k1":"62","k2":"61"}`,
		}},
	},
	{
		name: "session-times-inverted", store: "session", explains: sessionTimesInverted,
		what:    "A range of times fails if it ends before it begins, in memory and across segments.",
		section: "DESIGN.md, difference 13",
		options: "plain, time-ordered",
		parts: [][]string{{
			`{"op":"put","k":"61","v":"01","start":0,"end":0}`, `{"op":"findTime","end":100000,"latest":0}`,
		}},
	},
	{
		name: "session-ordered-headers", store: "session",
		what:    "A time-ordered store with headers keeps them in the changelog only.",
		section: "DESIGN.md, difference 14",
		options: "headers, time-ordered",
		parts: [][]string{{
			`{"op":"put","k":"61","v":"01","h":[["tenant","00"]]}`, `{"op":"fetchSession","k":"61"}`,
		}},
	},
	{
		name: "session-ordered-upgrade", store: "session", avoided: true,
		what:    "A time-ordered store with headers that goes on from one without reads the old rows with a byte 00 before the value.",
		section: "DESIGN.md, difference 14",
		own:     &optionSet{Name: "plain to headers, time-ordered", Format: "plain", Upgrade: "headers", Ordered: "index"},
		parts:   [][]string{{`{"op":"put","k":"61","v":"01"}`}, {`{"op":"fetchSession","k":"61"}`}},
	},
	{
		name: "session-ordered-cleanup", store: "session", explains: sessionOrderedCleanup, left: true,
		what:    "In a time-ordered store, a read by key that finds a session gone drops segments that have expired.",
		section: "docs/format/session.md, Stream time",
		options: "plain, time-ordered",
		parts: [][]string{{
			`{"op":"put","k":"61","v":"01","start":0,"end":0}`, `{"op":"put","k":"62","start":120000,"end":120000}`,
			`{"op":"remove","k":"63","start":180000,"end":180000}`, `{"op":"fetchKeys"}`,
		}},
	},
	{
		name: "versioned-valid-to", store: "versioned",
		what:    "get and delete do not tell when a version ended.",
		section: "DESIGN.md, difference 16",
		options: "plain",
		parts: [][]string{{
			`{"op":"put","k":"61","v":"01","ts":10}`, `{"op":"put","k":"61","v":"02","ts":20}`, `{"op":"getAsOf","k":"61","asOf":10}`,
		}},
	},
	{
		name: "versioned-tombstone", store: "versioned",
		what:    "A tombstone at the time of a key's latest version is forgotten.",
		section: "DESIGN.md, difference 15",
		options: "plain",
		parts: [][]string{{
			`{"op":"put","k":"61","v":"01","ts":10}`, `{"op":"put","k":"61","ts":10}`, `{"op":"put","k":"61","v":"02","ts":5}`,
		}},
	},
	{
		name: "versioned-history", store: "versioned",
		what:    "A history up to some time misses versions that ended in a later segment.",
		section: "DESIGN.md, difference 16",
		options: "plain, short segments",
		parts: [][]string{{
			`{"op":"put","k":"61","v":"01","ts":0}`, `{"op":"put","k":"61","v":"02","ts":10000}`,
			`{"op":"history","k":"61","from":0,"to":5000,"order":"asc"}`,
		}},
	},
	{
		name: "versioned-rejected", store: "versioned",
		what:    "What comes too late is rejected, but logged.",
		section: "DESIGN.md, difference 19",
		options: "plain, short",
		parts:   [][]string{{`{"op":"put","k":"61","v":"01","ts":500000}`, `{"op":"put","k":"61","v":"02","ts":0}`}},
	},
	{
		name: "versioned-reopen", store: "versioned", avoided: true,
		what:    "After a restart, segments and stream time are not known: older versions are not found, and late ones are taken.",
		section: "DESIGN.md, difference 17",
		options: "plain",
		parts: [][]string{
			{`{"op":"put","k":"61","v":"01","ts":10}`, `{"op":"put","k":"61","v":"02","ts":20}`},
			{`{"op":"history","k":"61","from":0,"to":100,"order":"asc"}`},
		},
	},
}

// TestFaults runs the script of each fault: Kafka Streams must show it, and forebay not.
func TestFaults(t *testing.T) {
	p := newParity(t)
	for i := range faults {
		f := &faults[i]
		t.Run(f.name, func(t *testing.T) {
			s := f.shows(t)
			list := p.differences(s)
			if !strings.HasPrefix(kafkaRelease(), f.release) {
				require.Empty(t, list)
				return
			}
			require.NotEmpty(t, list, "Kafka Streams %s does not show it", kafkaRelease())
			seen := false
			for _, d := range list {
				require.GreaterOrEqual(t, d.part, 0, d.text)
				switch {
				case d.fault == f.name:
					seen = true
				case f.avoided && d.line >= 0 && unexplained(d):
					require.True(t, s.kafka(d.lane, d.part), d.text)
					seen = true
				case f.avoided && d.line < 0: // what it leaves on the disk
				default:
					require.NotEmpty(t, d.fault, d.text)
				}
			}
			require.True(t, seen)
		})
	}
}

// TestFaultTable: the page has the list.
func TestFaultTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("| Name | What Kafka Streams does | What is right |\n|---|---|---|\n")
	for _, f := range faults {
		name := "`" + f.name + "`"
		if f.release != "" {
			name += ", " + f.release + " only"
		}
		if f.avoided {
			name += ", avoided"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, f.what, f.section)
	}
	page, err := os.ReadFile("../../docs/interop.md")
	require.NoError(t, err)
	require.Contains(t, string(page), b.String(), "put this table there")
}
