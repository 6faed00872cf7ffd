package dsl_test

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/dsl/internal/wire"
	"github.com/forebay-streams/forebay/internal/joinlist"
)

func init() { rules = append(rules, joinRules...) }

var joinRules = []rule{
	{
		name:    "join windows keep no nulls",
		reason:  "Kafka logs a tombstone for a record without value, which joins nothing, and counts it",
		applies: func(r *run) bool { return strings.HasPrefix(r.topology, "stream-stream-") },
		expect:  expectNoNulls,
	},
	{
		name:    "unmatched rows come in time",
		reason:  "Kafka remembers the last row it scanned as the oldest, and leaves rows that nothing can match to a later record",
		applies: func(r *run) bool { return r.topology == "stream-stream-left" || r.topology == "stream-stream-outer" },
		expect:  expectUnmatchedInTime,
	},
}

// isJoinWindow tells whether a topic is the changelog of one side's records.
func isJoinWindow(topic string) bool {
	return strings.HasSuffix(topic, "-this-join-store-changelog") || strings.HasSuffix(topic, "-other-join-store-changelog")
}

// expectNoNulls takes the tombstones out of the changelogs of join windows. The sequence
// numbers that follow are smaller by the number of those before.
func expectNoNulls(t *testing.T, r *run) {
	nulls := map[string]uint32{}
	for i := range r.want {
		var out []record
		for _, o := range r.want[i].Out {
			if !isJoinWindow(o.Topic) {
				out = append(out, o)
				continue
			}
			if o.V == nil {
				require.Nil(t, r.inputs[i].V, "line %d: only a null value leaves a tombstone", i)
				nulls[o.Topic]++
				continue
			}
			key := unhex(t, o.K)
			seq := key[len(key)-4:]
			binary.BigEndian.PutUint32(seq, binary.BigEndian.Uint32(seq)-nulls[o.Topic])
			o.K = inHex(key)
			out = append(out, o)
		}
		r.want[i].Out = out
	}
}

// waiting are the rows of a join's shared buffer, under their hex keys.
type waiting map[string][]joinlist.Element

// expired takes the rows out that nothing can match at a stream time, in the buffer's order.
func (w waiting) expired(t *testing.T, streamTime int64) (keys []string, rows []wire.Unmatched) {
	for _, key := range slices.Sorted(maps.Keys(w)) {
		u, err := wire.ParseUnmatched(unhex(t, &key))
		require.NoError(t, err)
		if u.Time+5000+2000 < streamTime {
			keys, rows = append(keys, key), append(rows, u)
		}
	}
	return keys, rows
}

// expectUnmatchedInTime moves unmatched rows to the first record that can have them emitted:
// the first with a new stream time that lies past their window and grace. It follows the
// rows that wait through Kafka's changelog of the shared buffer. A row that Kafka kept for
// too long, and a late record then matched, comes out alone as well.
func expectUnmatchedInTime(t *testing.T, r *run) {
	rows, early := waiting{}, map[string]bool{}
	streamTime, moved, saved := int64(-1), 0, 0
	for i := range r.want {
		in := r.inputs[i]
		streamTime = max(streamTime, in.TS)
		scans := in.K != nil && in.V != nil && in.TS == streamTime
		var out []record
		topic := "dsl-w-left-shared-join-store-changelog"
		if r.topology == "stream-stream-outer" {
			topic = "dsl-w-outer-shared-join-store-changelog"
		}
		emitted := map[string]bool{}
		if scans {
			keys, expired := rows.expired(t, streamTime)
			for n, key := range keys {
				u := expired[n]
				for _, e := range rows[key] {
					value := text(string(e.Value))
					if u.Left {
						value = join(value, nil)
					} else {
						value = join(nil, value)
					}
					out = append(out, record{Topic: "out", K: inHex(u.Key), V: inHex([]byte(*value)), TS: &u.Time, H: recordedHeaders(in.H)})
				}
				out = append(out, record{Topic: topic, K: &key, TS: &in.TS})
				emitted[key], early[key] = true, true
				delete(rows, key)
			}
		}
		for _, o := range r.want[i].Out {
			switch {
			case o.Topic == "out" && *o.TS < in.TS: // an unmatched row: pairs are no older than the record
				require.True(t, scans, "line %d", i)
			case o.Topic == topic && o.V != nil:
				list, err := joinlist.Decode(unhex(t, o.V))
				require.NoError(t, err)
				rows[*o.K] = list
				out = append(out, o)
			case o.Topic == topic && rows[*o.K] != nil: // matched
				delete(rows, *o.K)
				out = append(out, o)
			case o.Topic == topic:
				require.True(t, early[*o.K], "line %d: Kafka removes a row that never waited", i)
				if delete(early, *o.K); !emitted[*o.K] {
					moved++
				}
				if in.TS < streamTime {
					saved++
				}
			default:
				out = append(out, o)
			}
		}
		slices.SortStableFunc(out, byTopic)
		r.want[i].Out = out
	}
	t.Logf("%d rows come earlier than Kafka's, %d of them were matched too late", moved, saved)
}
