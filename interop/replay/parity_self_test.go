package main

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/rocks"
)

// randomScript is one of a family's first option set.
func randomScript(family string, seed uint64) *parityScript {
	o := optionSets[family][0].prepared(family)
	return newScript(o, rand.New(rand.NewPCG(seed, 0)), 100)
}

// forebayOutcomes are those of both lanes, as if Kafka Streams had answered as forebay does.
func forebayOutcomes(t *testing.T, s *parityScript) (all [2][]outcome) {
	for n := range all {
		l := &lane{app: "app", state: t.TempDir()}
		for i := range s.Parts {
			var o outcome
			var err error
			o.answers, o.logged, err = l.forebay(s, i, false)
			require.NoError(t, err)
			l.log = append(l.log, o.logged...)
			l.offset += int64(len(s.Parts[i].Ops))
			o.dumps, err = l.dumps(s.Options.Store)
			require.NoError(t, err)
			all[n] = append(all[n], o)
		}
	}
	return all
}

// Whatever is changed of what a run left is seen.
func TestJudge(t *testing.T) {
	for _, family := range parityFamilies {
		t.Run(family, func(t *testing.T) {
			s := randomScript(family, 1)
			s.Swap = false
			for i := range s.Parts {
				s.Parts[i].Wipe, s.Parts[i].Kill = false, ""
			}
			all := forebayOutcomes(t, s)
			forebays := func() (n int) { // differences of the lane that is forebay's
				for _, d := range judge(s, all) {
					if d.lane == 1 && d.line >= 0 {
						n++
					}
				}
				return n
			}
			require.Zero(t, forebays())
			before := len(judge(s, all)) // Kafka's, of which the model expects its faults

			last := &all[1][len(s.Parts)-1]
			i := slices.IndexFunc(last.answers, func(a json.RawMessage) bool { return string(a) != "null" })
			kept := last.answers[i]
			last.answers[i] = json.RawMessage("null")
			require.Equal(t, 1, forebays())
			last.answers[i] = kept

			require.NotEmpty(t, last.logged)
			last.logged[0].TS++
			require.Len(t, judge(s, all), before+1)
			last.logged[0].TS--

			for name, d := range last.dumps {
				d["other"] = map[string]string{}
				require.Len(t, judge(s, all), before+1, "a column family of %s", name)
				delete(d, "other")
				d[rocks.Default]["00000000000000000000"] = "00"
				require.Len(t, judge(s, all), before+1, "a row of %s", name)
				delete(d[rocks.Default], "00000000000000000000")
			}
			require.Len(t, judge(s, all), before)
		})
	}
}

// A script is brought down to the two operations that matter.
func TestReduce(t *testing.T) {
	s := randomScript("kv", 3)
	operation := func(s *parityScript, want string) int {
		return slices.IndexFunc(s.Parts[0].Ops, func(op scriptOp) bool {
			o := op.(modelOp)
			return o.Op == want && string(o.K) == "b"
		})
	}
	shows := func(s *parityScript) bool {
		put, get := operation(s, "put"), operation(s, "get")
		return put >= 0 && get > put
	}
	for seed := uint64(3); !shows(s); seed++ {
		s = randomScript("kv", seed)
	}
	s = reduce(s, time.Now().Add(time.Minute), shows)
	require.True(t, shows(s))
	require.Equal(t, 2, s.operations(), s.text())
	require.Len(t, s.Parts, 1)
	require.Empty(t, s.Parts[0].Ops[0].(modelOp).H)
	require.Empty(t, s.Parts[0].Ops[0].common().RH)

	short := reduce(s, time.Now(), shows) // no time left
	require.Equal(t, s.text(), short.text())
}

// What is printed can be run again.
func TestScriptText(t *testing.T) {
	for _, family := range parityFamilies {
		for seed := range uint64(5) {
			s := randomScript(family, seed)
			var again parityScript
			require.NoError(t, json.Unmarshal([]byte(s.text()), &again))
			require.Equal(t, s.text(), again.text())
		}
	}
}

// A seed always gives the same scripts.
func TestScriptsRepeat(t *testing.T) {
	for _, family := range parityFamilies {
		require.Equal(t, randomScript(family, 9).text(), randomScript(family, 9).text())
		require.NotEqual(t, randomScript(family, 9).text(), randomScript(family, 10).text())
	}
}
