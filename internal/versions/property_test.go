package versions

import (
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/store"
)

func random(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// drive makes random puts. before is called with each one that is in time.
func drive(t *testing.T, r *rand.Rand, puts int, before func(p *physical, key, value []byte, at int64)) *physical {
	p := newPhysical(r.Int64N(101), 1+r.Int64N(40))
	now := int64(0)
	for range puts {
		now += r.Int64N(3) * r.Int64N(4)
		at := max(0, now-r.Int64N(60)*r.Int64N(2))
		if p.times.Late(at) {
			continue
		}
		var v []byte
		if r.IntN(3) > 0 {
			v = make([]byte, r.IntN(5))
			for i := range v {
				v[i] = byte(r.Uint32())
			}
		}
		key := []byte{"kK"[r.IntN(2)]}
		before(p, key, v, at)
		p.put(t, key, v, at)
	}
	return p
}

// Every row is sound after every put.
func TestRowsStaySound(t *testing.T) {
	r := random(t)
	check := func(p *physical, _, _ []byte, _ int64) {
		versions := map[string]map[int64]bool{}
		for k, b := range p.rows {
			id, key, ok := SplitKey([]byte(k), p.times.Interval)
			require.True(t, ok)
			seen := versions[string(key)]
			if seen == nil {
				seen = map[int64]bool{}
				versions[string(key)] = seen
			}
			if id == Latest {
				e, err := DecodeLatest(b)
				require.NoError(t, err)
				require.False(t, seen[e.From])
				seen[e.From] = true
				continue
			}
			require.Contains(t, p.times.Segments, id)
			row, damaged, err := Decode(b, nil)
			require.NoError(t, err)
			require.False(t, damaged)
			again, err := row.Encode()
			require.NoError(t, err)
			require.Equal(t, b, again)
			require.True(t, row.placeholder() || row.Next > row.Entries[0].From)
			end := row.Next
			for _, e := range row.Entries {
				require.Equal(t, id, p.times.Segment(end), "versions are filed by their end")
				if e.Value != nil {
					require.False(t, seen[e.From], "a version is in one row only")
					seen[e.From] = true
				}
				end = e.From
			}
		}
	}
	for range 200 {
		drive(t, r, 60, check)
	}
}

// A put of Kafka Streams that was cut after its first write is made good when it is run
// again.
func TestPutCutInTwo(t *testing.T) {
	r := random(t)
	cut := 0
	for range 400 {
		drive(t, r, 40, func(p *physical, key, value []byte, at int64) {
			half := &physical{times: p.times, rows: maps.Clone(p.rows)}
			half.editor.Damaged = func() {}
			whole := &physical{times: p.times, rows: maps.Clone(p.rows)}
			whole.editor.Damaged = func() {}
			whole.put(t, key, value, at)

			half.times.Advance(at)
			changes, _, err := half.editor.Put(half, &half.times, key, value, at)
			require.NoError(t, err)
			if len(changes) < 2 {
				return
			}
			latest, has := half.rows[string(AppendKey(nil, Latest, key))]
			if has && value == nil && long(latest, 0) == at {
				return // Kafka writes no marker, so its put is one write
			}
			cut++
			half.rows[string(changes[0].Key)] = changes[0].Value
			half.put(t, key, value, at)
			require.Equal(t, whole.dump(), half.dump())
		})
	}
	require.Greater(t, cut, 1000)
}

// The rows of a headers store that was fed the same puts with empty headers are the
// converted rows of a plain one.
func TestConvertedRowsAreThoseOfTheSamePuts(t *testing.T) {
	r := random(t)
	for range 100 {
		var headers *physical
		plain := drive(t, r, 80, func(p *physical, key, value []byte, at int64) {
			if headers == nil {
				headers = newPhysical(p.times.Retention, p.times.Interval)
			}
			if value != nil {
				value = append([]byte{0}, value...)
			}
			headers.put(t, key, value, at)
		})
		for k, b := range plain.rows {
			got, err := Convert(nil, store.Plain, store.Aggregation, []byte(k), b)
			require.NoError(t, err)
			plain.rows[k] = got
		}
		require.Equal(t, headers.dump(), plain.dump())
	}
}

// FuzzRow: no bytes make a decoder panic, or take memory beyond what they are; what it
// reads it writes again, and all readers agree.
func FuzzRow(f *testing.F) {
	r := Row{Next: 30, Entries: []Entry{{20, []byte("b")}, {15, nil}, {10, []byte{}}}}
	b, _ := r.Encode()
	f.Add(b, int64(16))
	f.Add(b[:minRow], int64(0))
	f.Fuzz(func(t *testing.T, b []byte, at int64) {
		row, damaged, err := Decode(b, nil)
		l := Lookup{Damaged: func() {}}
		v, older, findErr := l.find(b, at)
		require.Equal(t, err == nil, findErr == nil)
		_, convertErr := Convert(nil, store.Plain, store.Aggregation, AppendKey(nil, 1, nil), b)
		require.Equal(t, err == nil, convertErr == nil)
		if err != nil {
			require.ErrorIs(t, err, store.ErrCorrupt)
			return
		}
		require.LessOrEqual(t, len(row.Entries), len(b)/entrySize)
		require.LessOrEqual(t, cap(row.Entries), 2*len(b)/entrySize+4)
		again, err := row.Encode()
		require.NoError(t, err)
		back, stillDamaged, err := Decode(again, nil)
		require.NoError(t, err)
		require.False(t, stillDamaged)
		require.Equal(t, row, back)
		if !damaged {
			require.Equal(t, len(b), len(again))
		}
		switch {
		case row.Next <= at:
			require.False(t, older)
			require.Nil(t, v.Value)
		case row.Min() > at:
			require.True(t, older)
		default:
			i, to := row.find(at)
			require.Equal(t, Version{row.Entries[i].From, to, row.Entries[i].Value}, v)
		}
	})
}
