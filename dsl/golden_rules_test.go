package dsl_test

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/dsl/internal/wire"
	"github.com/forebay-streams/forebay/store"
)

// rule is a difference that forebay makes on purpose. It turns what Kafka answered into what
// forebay must answer, from the inputs and from what Kafka answered elsewhere, so that the
// comparison that follows asserts forebay's own answer.
type rule struct {
	name, reason string
	applies      func(r *run) bool
	expect       func(t *testing.T, r *run)
}

// rules are applied in order.
var rules = []rule{
	{
		name:    "suppress order",
		reason:  "a commit logs the changed keys of a suppress buffer in the order of a Java hash set; any order is right",
		applies: func(r *run) bool { return strings.HasPrefix(r.topology, "suppress-") },
		expect: func(t *testing.T, r *run) {
			for _, answers := range [][]answer{r.want, r.got} {
				for i := range answers {
					byKeyIn(answers[i].Out, suppressLog)
				}
			}
		},
	},
	{
		name:    "old values",
		reason:  "uncached, Kafka sends the initializer's value as the old value of a new row; a new row has none",
		applies: func(r *run) bool { return r.topology == "suppress-close" && r.setting.cache == 0 },
		expect: func(t *testing.T, r *run) {
			for i := range r.want {
				for j, o := range r.want[i].Out {
					if o.Topic == suppressLog && o.V != nil {
						r.want[i].Out[j] = withoutInitial(t, o, r.setting.format == "headers")
					}
				}
			}
		},
	},
	{
		name:    "every window is emitted",
		reason:  "a jump in stream time hides rows from Kafka's scan for closed windows, whose results are lost",
		applies: func(r *run) bool { return strings.HasSuffix(r.topology, "-final") },
		expect:  expectFinals,
	},
	{
		name:    "a cache changes no answer",
		reason:  "through a cache Kafka merges sessions that have expired, and are not found without",
		applies: func(r *run) bool { return r.topology == "session-aggregate" && r.setting.cache > 0 },
		expect:  expectUncached,
	},
}

const suppressLog = "dsl-KTABLE-SUPPRESS-STATE-STORE-0000000003-changelog"

// byKeyIn sorts the records of one topic by their keys.
func byKeyIn(list []record, topic string) {
	slices.SortStableFunc(list, func(a, b record) int {
		if a.Topic != topic || b.Topic != topic {
			return cmp.Compare(a.Topic, b.Topic)
		}
		return cmp.Compare(shown(a.K), shown(b.K))
	})
}

// withoutInitial removes the old and prior values of a buffered count that are 0, which no
// count is.
func withoutInitial(t *testing.T, r record, parts bool) record {
	b, err := wire.DecodeBuffered(store.Record{Headers: headers(t, r.H)}, unhex(t, r.V), nil)
	require.NoError(t, err)
	for _, v := range []*store.Row{&b.Old, &b.Prior} {
		if v.Value != nil && binary.BigEndian.Uint64(v.Value) == 0 {
			*v = store.Row{}
		}
	}
	value, h, err := wire.EncodeBuffered(b, parts)
	require.NoError(t, err)
	r.V, r.H = inHex(value), listed(h)
	return r
}

func unhex(t testing.TB, s *string) []byte {
	if s == nil {
		return nil
	}
	b, err := hex.DecodeString(*s)
	require.NoError(t, err)
	return b
}

// final is a window whose result is emitted when it closes.
type final struct {
	key        string
	start, end int64
	value      *string // text; nil: deleted
	timestamp  int64
}

func (f *final) id() string { return fmt.Sprintf("%s@%d/%d", f.key, f.start, f.end) }

// finals says what closes when in one of the topologies with results on close.
type finals struct {
	inclusive bool  // windows contain their end
	wait      int64 // after which a window is closed
	retention int64
	session   bool
	// scans tells whether a record has the store scanned.
	scans func(in input, streamTime int64) bool
	// read takes a changelog record apart.
	read func(t *testing.T, o record) *final
}

var finalsOf = map[string]finals{
	"tumbling-final": {
		wait: 5000, retention: 15000,
		scans: func(in input, _ int64) bool { return in.K != nil },
		read: func(t *testing.T, o record) *final {
			key, start := windowKey(t, o)
			return &final{key: key, start: start, end: start + 10000, value: counted(t, o.V), timestamp: *o.TS}
		},
	},
	"sliding-final": {
		inclusive: true, wait: 5000, retention: 15000,
		scans: func(in input, streamTime int64) bool {
			return in.K != nil && in.V != nil && in.TS >= 5000 && in.TS+5000 >= streamTime-5000
		},
		read: func(t *testing.T, o record) *final {
			key, start := windowKey(t, o)
			return &final{key: key, start: start, end: start + 5000, value: plainText(t, o.V), timestamp: *o.TS}
		},
	},
	"session-final": {
		inclusive: true, wait: 10000, retention: 10000, session: true,
		scans: func(in input, _ int64) bool { return in.K != nil },
		read: func(t *testing.T, o record) *final {
			key, start, end, err := wire.ParseSessionKey(unhex(t, o.K))
			require.NoError(t, err)
			return &final{key: string(key), start: start, end: end, value: counted(t, o.V), timestamp: end}
		},
	},
}

func windowKey(t *testing.T, o record) (key string, start int64) {
	b := unhex(t, o.K)
	k, start, err := wire.ParseWindowKey(b[:len(b)-4]) // without the sequence number
	require.NoError(t, err)
	return string(k), start
}

func counted(t *testing.T, v *string) *string {
	if v == nil {
		return nil
	}
	return text(strconv.FormatUint(binary.BigEndian.Uint64(unhex(t, v)), 10))
}

func plainText(t *testing.T, v *string) *string {
	if v == nil {
		return nil
	}
	return text(string(unhex(t, v)))
}

// expectFinals puts the results that Kafka lost among those it emitted: of each window the
// last value in the changelog, with the line that closes it, in the order of the scan. What
// Kafka lost must be hidden by what the line itself put.
func expectFinals(t *testing.T, r *run) {
	kind := finalsOf[r.topology]
	open := map[string]*final{}
	streamTime, newest, lost := int64(-1), int64(-1), 0
	for i := range r.want {
		in := r.inputs[i]
		if in.K != nil && (in.V != nil || r.topology != "sliding-final") {
			streamTime = max(streamTime, in.TS)
		}
		var closing []*final
		for id, f := range open {
			if limit := streamTime - kind.wait; (f.end < limit || f.end == limit && !kind.inclusive) && kind.scans(in, streamTime) {
				delete(open, id)
				if f.value != nil {
					closing = append(closing, f)
				}
			}
		}
		var out, emitted []record
		for _, o := range r.want[i].Out {
			if o.Topic == "out" {
				emitted = append(emitted, o)
				continue
			}
			out = append(out, o)
			f := kind.read(t, o)
			open[f.id()] = f
			if newest = max(newest, f.start); kind.session {
				newest = max(newest, f.end)
			}
		}
		slices.SortFunc(closing, func(a, b *final) int {
			if kind.session {
				return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.start, b.start), cmp.Compare(a.key, b.key))
			}
			return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.key, b.key))
		})
		for _, f := range closing {
			own := record{Topic: "out", K: inHex([]byte(f.id())), V: inHex([]byte(*f.value)), TS: &f.timestamp, H: recordedHeaders(in.H)}
			out = append(out, own)
			if len(emitted) > 0 && emitted[0].equal(own) {
				emitted = emitted[1:]
				continue
			}
			lost++
			limit, at := newest-kind.retention, f.start
			if kind.session {
				limit, at = limit/60000, f.end/60000 // Kafka hides sessions by segment
			}
			require.Less(t, at, limit, "line %d: Kafka could have emitted %s", i, f.id())
		}
		require.Empty(t, emitted, "line %d: Kafka emits what has not closed", i)
		r.want[i].Out = out
	}
	t.Logf("%d results that Kafka lost", lost)
}

// recordedHeaders are an input's headers as they come out.
func recordedHeaders(list []header) []header {
	if len(list) == 0 {
		return nil
	}
	return list
}

// expectUncached replaces what Kafka answered through its cache by what it answered without
// one, less what the record itself has overwritten.
func expectUncached(t *testing.T, r *run) {
	plain := lines[answer](t, r.file(setting{r.setting.format, 0}))
	for i := range r.want {
		out := lastOfEach(plain[i].Out)
		if slices.EqualFunc(r.want[i].Out, out, record.same) {
			continue
		}
		for j := range out {
			if out[j].Topic == "out" && r.setting.format == "default" {
				out[j].H = recordedHeaders(r.inputs[i].H) // those of the context
			}
		}
		r.want[i].Out = out
	}
}

// lastOfEach keeps the last record of each topic and key, and no deletions of what never was.
func lastOfEach(list []record) (out []record) {
	for i, o := range list {
		later := slices.ContainsFunc(list[i+1:], func(p record) bool { return p.Topic == o.Topic && same(p.K, o.K) })
		if !later {
			out = append(out, o)
		}
	}
	return out
}

// same compares all but headers.
func (r record) same(o record) bool {
	o.H = r.H
	return r.equal(o)
}
