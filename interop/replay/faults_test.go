package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
)

// evidence is what there is to explain an answer of Kafka Streams with that is not right.
type evidence struct {
	options              optionSet
	op                   scriptOp
	right, expected, got string // expected: with the faults that the model follows
	touched              map[string]bool
	removed              int64       // the latest end of a session that was removed in this part
	model                parityModel // the right one
	handed               bool        // forebay answered, from what Kafka left
}

// explain names the fault that an answer shows, "" for none.
func explain(e *evidence) string {
	for i := range faults {
		f := &faults[i]
		if f.explains == nil || f.store != e.options.Store || e.handed && !f.left {
			continue
		}
		if f.explains(e) {
			return f.name
		}
	}
	return ""
}

func (e *evidence) cached() bool { return e.options.Cache > 0 }

func (e *evidence) failed(with string) bool {
	var f failure
	return json.Unmarshal([]byte(e.got), &f) == nil && strings.Contains(f.Error, with)
}

// parsed is a list of rows as an answer has it; the last of each is the value.
func parsed(answer string) (rows [][]json.RawMessage, ok bool) {
	err := json.Unmarshal([]byte(answer), &rows)
	return rows, err == nil && rows != nil
}

func unparsed(rows [][]json.RawMessage) string {
	if rows == nil {
		rows = [][]json.RawMessage{}
	}
	text, _ := marshal(rows)
	return text
}

func isNull(v json.RawMessage) bool { return string(v) == "null" }

// kvKey is the key of a row of a key-value store.
func kvKey(row []json.RawMessage) string {
	var text string
	if json.Unmarshal(row[0], &text) != nil {
		return ""
	}
	b, _ := hex.DecodeString(text)
	return string(b)
}

// without removes rows from an answer of Kafka's, and tells whether the right ones are left.
func (e *evidence) without(drop func(row []json.RawMessage) bool) bool {
	rows, ok := parsed(e.got)
	if !ok {
		return false
	}
	rows = slices.DeleteFunc(rows, drop)
	if left := unparsed(rows); left == e.right || left == e.expected {
		return true
	}
	if !e.cached() {
		return false
	}
	// A cache looks at its rows segment by segment, each with an upper bound of its own: of
	// the rows that the bound misses, it may miss some.
	right, okRight := parsed(e.right)
	least, okLeast := parsed(e.expected)
	return okRight && okLeast && within(least, rows) && within(rows, right)
}

// within: all rows of one list are in the other, in the same order.
func within(list, in [][]json.RawMessage) bool {
	for _, row := range in {
		if len(list) > 0 && unparsed([][]json.RawMessage{row}) == unparsed(list[:1]) {
			list = list[1:]
		}
	}
	return len(list) == 0
}

// deletedKeys are keys whose tombstones a cache may hold.
func (e *evidence) deletedKeys() map[string]bool {
	out := map[string]bool{}
	m := e.model.(*kvParity)
	for k := range e.touched {
		if !has(m.rows, k) {
			out[k] = true
		}
	}
	return out
}

func kvCacheReverse(e *evidence) bool {
	if op := e.op.common().Op; !e.cached() || op != "reverseRange" && op != "reverseAll" {
		return false
	}
	deleted := e.deletedKeys()
	return len(deleted) > 0 && (e.failed("NullPointerException") ||
		e.without(func(row []json.RawMessage) bool { return isNull(row[1]) || deleted[kvKey(row)] }))
}

func kvPrefixFF(e *evidence) bool {
	op := e.op.(modelOp)
	return (e.cached() || e.options.Memory) && op.Op == "prefix" && len(bytes.Trim(op.P, "\xff")) == 0 &&
		e.failed("IndexOutOfBoundsException")
}

func kvTransactionalBounds(e *evidence) bool {
	op := e.op.(modelOp)
	if !e.options.Transactional || (op.Op != "range" && op.Op != "reverseRange") || (op.From == nil) == (op.To == nil) {
		return false
	}
	return e.without(func(row []json.RawMessage) bool {
		k := []byte(kvKey(row))
		return op.From != nil && bytes.Compare(k, op.From) < 0 || op.To != nil && bytes.Compare(k, op.To) > 0
	})
}

// timedKey is the row of an answer of a window or session store, without its value.
func (e *evidence) timedKey(row []json.RawMessage) (r timedRow, ok bool) {
	op := e.op.(timedOp)
	if len(row) == 2 {
		r.key = op.K
		return r, json.Unmarshal(row[0], &r.start) == nil
	}
	return r, len(row) == 4 && json.Unmarshal(row[0], &r.key) == nil && json.Unmarshal(row[1], &r.start) == nil && json.Unmarshal(row[2], &r.end) == nil
}

// timedExtra is a row of Kafka's that is not right, and why.
func (e *evidence) timedExtra(row []json.RawMessage) string {
	m := e.model.(*timedParity)
	r, ok := e.timedKey(row)
	if !ok {
		return ""
	}
	k := string(m.logKey(r))
	switch {
	case m.time(r) < m.lower():
		return "expired"
	case e.touched[k] && !has(m.rows, k):
		return "deleted"
	}
	return ""
}

func timedCacheExpired(e *evidence) bool {
	if !e.cached() {
		return false
	}
	m, op := e.model.(*timedParity), e.op.(timedOp)
	switch op.Op {
	case "fetch", "fetchSession":
		return m.time(timedRow{start: op.Start, end: op.End}) < m.lower() && e.right == "null"
	}
	return e.without(func(row []json.RawMessage) bool { return e.timedExtra(row) == "expired" })
}

func timedCacheBackward(e *evidence) bool {
	return e.cached() && e.op.(timedOp).Back && e.without(func(row []json.RawMessage) bool {
		return e.timedExtra(row) != ""
	})
}

// timedCacheRange: see without.
func timedCacheRange(e *evidence) bool {
	op := e.op.(timedOp)
	return e.cached() && op.K2 != nil && strings.HasSuffix(op.Op, "Keys") && e.right != e.expected &&
		e.without(func([]json.RawMessage) bool { return false })
}

// windowCacheRepeats: and rows that have expired.
func windowCacheRepeats(e *evidence) bool {
	op := e.op.(timedOp)
	if !e.cached() || op.Op != "fetchKeys" || op.K1 != nil && op.K2 != nil {
		return false
	}
	seen := map[string]bool{}
	return e.without(func(row []json.RawMessage) bool {
		text := unparsed([][]json.RawMessage{row})
		again := seen[text]
		seen[text] = true
		return again || e.timedExtra(row) == "expired" || op.Back && e.timedExtra(row) == "deleted"
	})
}

func sessionCacheFind(e *evidence) bool {
	op := e.op.(timedOp)
	if !e.cached() || !op.Back || op.Op != "find" && op.Op != "fetchKey" {
		return false
	}
	m := e.model.(*timedParity)
	return e.failed("Window startMs time cannot be negative") || e.failed("segment interval has changed") ||
		e.lacks(func(r timedRow) bool { return e.touched[string(m.logKey(r))] })
}

// lacks tells whether an answer is the right one but for rows that it may lack, and for
// extra ones that a cache may show.
func (e *evidence) lacks(may func(timedRow) bool) bool {
	got, ok := parsed(e.got)
	right, okRight := parsed(e.right)
	if !ok || !okRight {
		return false
	}
	got = slices.DeleteFunc(got, func(row []json.RawMessage) bool { return e.cached() && e.timedExtra(row) != "" })
	for _, row := range right {
		if len(got) > 0 && unparsed(got[:1]) == unparsed([][]json.RawMessage{row}) {
			got = got[1:]
			continue
		}
		if r, ok := e.timedKey(row); !ok || !may(r) {
			return false
		}
	}
	return len(got) == 0
}

// sessionCacheRemove: in memory, where a remove moves no stream time, sessions expire.
func sessionCacheRemove(e *evidence) bool {
	if !e.cached() || !e.options.Memory {
		return false
	}
	may := func(r timedRow) bool { return r.end <= e.removed-e.options.Retention }
	if op := e.op.(timedOp); op.Op == "fetchSession" {
		return e.got == "null" && may(timedRow{end: op.End})
	}
	return e.lacks(may)
}

func sessionOrderedCleanup(e *evidence) bool {
	if e.options.Ordered != "index" || e.op.common().Op != "findTime" {
		return false
	}
	m := e.model.(*timedParity)
	return e.lacks(func(r timedRow) bool { return m.id(r) < (m.stream-m.retention)/m.interval })
}

func sessionCacheTimes(e *evidence) bool {
	return e.cached() && e.op.common().Op == "findTime" && e.failed("UnsupportedOperationException")
}

// timedCacheMemory: the right rows, in another order, and perhaps again with the value that
// the store below the cache has.
func timedCacheMemory(e *evidence) bool {
	got, ok := parsed(e.got)
	right, okRight := parsed(e.right)
	if !e.cached() || !e.options.Memory || !ok || !okRight {
		return false
	}
	id := func(row []json.RawMessage) string { return unparsed([][]json.RawMessage{row[:len(row)-1]}) }
	all, seen := map[string]string{}, map[string]bool{}
	for _, row := range right {
		all[id(row)] = unparsed([][]json.RawMessage{row})
	}
	for _, row := range got {
		text, known := all[id(row)]
		switch {
		case known && text == unparsed([][]json.RawMessage{row}):
			seen[text] = true
		case !known && e.timedExtra(row) == "":
			return false
		}
	}
	return len(seen) == len(all)
}

func sessionMemoryInverted(e *evidence) bool {
	op := e.op.(timedOp)
	return e.options.Memory && op.Op == "fetchKeys" && bytes.Compare(op.K1, op.K2) > 0 && e.failed("inconsistent range")
}

func sessionTimesInverted(e *evidence) bool {
	op := e.op.(timedOp)
	return op.Op == "findTime" && op.End > op.Latest && e.failed("")
}
