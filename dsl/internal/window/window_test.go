package window_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/dsl/internal/window"
	"github.com/forebay-streams/forebay/store"
)

func TestCheck(t *testing.T) {
	for name, bad := range map[string]interface{ Check() error }{
		"size":          window.Time{Size: 0, Advance: 1},
		"advance":       window.Time{Size: 5, Advance: 0},
		"long advance":  window.Time{Size: 5, Advance: 6},
		"grace":         window.Time{Size: 5, Advance: 5, Grace: -1},
		"difference 0":  window.Sliding{},
		"sliding grace": window.Sliding{Difference: 1, Grace: -1},
		"gap":           window.Session{},
		"session grace": window.Session{Gap: 1, Grace: -1},
		"empty join":    window.Join{Before: -5, After: 4},
		"join grace":    window.Join{Grace: -1},
	} {
		require.ErrorIs(t, bad.Check(), store.ErrConfig, name)
	}
	for _, good := range []interface{ Check() error }{
		window.Time{Size: 1, Advance: 1}, window.Sliding{Difference: 1}, window.Session{Gap: 1},
		window.Join{}, window.Join{Before: -5, After: 5}, window.Join{Before: 5, After: -5},
	} {
		require.NoError(t, good.Check())
	}
}

func TestRetention(t *testing.T) {
	assert.EqualValues(t, 15, window.Time{Size: 10, Advance: 3, Grace: 5}.Retention())
	assert.EqualValues(t, 25, window.Sliding{Difference: 10, Grace: 5}.Retention())
	assert.EqualValues(t, 15, window.Session{Gap: 10, Grace: 5}.Retention())
	assert.EqualValues(t, 12, window.Join{Before: 10, After: -3, Grace: 5}.Retention())
	assert.EqualValues(t, math.MaxInt64, window.Time{Size: math.MaxInt64, Advance: 1, Grace: 1}.Retention())
}

func TestTimeExamples(t *testing.T) {
	for _, c := range []struct {
		size, advance, at int64
		want              []window.Span
	}{
		{10, 10, 12, []window.Span{{10, 20}}},
		{10, 5, 12, []window.Span{{5, 15}, {10, 20}}},
		{10, 5, 3, []window.Span{{0, 10}}},
		{10, 3, 12, []window.Span{{3, 13}, {6, 16}, {9, 19}, {12, 22}}},
		{math.MaxInt64, math.MaxInt64, 7, []window.Span{{0, math.MaxInt64}}},
	} {
		assert.Equal(t, c.want, window.Time{Size: c.size, Advance: c.advance}.Append(nil, c.at))
	}
	w := window.Time{Size: 10, Advance: 10, Grace: 5}
	assert.False(t, w.Closed(20, 24))
	assert.True(t, w.Closed(20, 25))
}

// Every window that contains a time, by the definition.
func TestTimeContains(t *testing.T) {
	for size := int64(1); size <= 12; size++ {
		for advance := int64(1); advance <= size; advance++ {
			for at := range int64(40) {
				var want []window.Span
				for start := int64(0); start <= at; start += advance {
					if at < start+size {
						want = append(want, window.Span{Start: start, End: start + size})
					}
				}
				assert.Equal(t, want, window.Time{Size: size, Advance: advance}.Append(nil, at), "%d/%d at %d", size, advance, at)
			}
		}
	}
}

// emissions drives Emit with growing close times, and returns every scan.
func emissions(emit func(last, closeTime int64) (window.Scan, bool), times []int64) (scans []window.Scan) {
	last := window.Never
	for _, closeTime := range times {
		if s, ok := emit(last, closeTime); ok {
			scans = append(scans, s)
			last = closeTime
		}
	}
	return scans
}

func covered(scans []window.Scan, at int64) (times int) {
	for _, s := range scans {
		if s.From <= at && at <= s.To {
			times++
		}
	}
	return times
}

func closeTimes(r *rand.Rand) (times []int64) {
	for at := int64(r.IntN(20)) - 10; len(times) < 15; at += int64(r.IntN(12)) {
		times = append(times, at)
	}
	return times
}

// However stream time jumps, each window that has closed lies in exactly one scan.
func TestEmitOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		times := closeTimes(r)
		end := times[len(times)-1]
		size := 1 + r.Int64N(12)
		w := window.Time{Size: size, Advance: 1 + r.Int64N(size)}
		scans := emissions(w.Emit, times)
		for start := int64(0); start < 200; start += w.Advance {
			want := 0
			if start+size <= end {
				want = 1
			}
			require.Equal(t, want, covered(scans, start), "%+v %v: window %d", w, times, start)
		}
		sliding := window.Sliding{Difference: size}
		scans = emissions(sliding.Emit, times)
		for start := range int64(200) {
			want := 0
			if start+size < end { // the end belongs to the window
				want = 1
			}
			require.Equal(t, want, covered(scans, start), "%+v %v: window %d", sliding, times, start)
		}
		scans = emissions(window.Session{Gap: size}.Emit, times)
		for sessionEnd := range int64(200) {
			want := 0
			if sessionEnd < end {
				want = 1
			}
			require.Equal(t, want, covered(scans, sessionEnd), "%v: session until %d", times, sessionEnd)
		}
	}
}

func TestEmitBounds(t *testing.T) {
	type result struct {
		window.Scan
		ok bool
	}
	at := func(s window.Scan, ok bool) result { return result{s, ok} }
	tumbling := window.Time{Size: 10, Advance: 10}
	assert.Equal(t, result{}, at(tumbling.Emit(window.Never, 9)), "no window is closed")
	assert.Equal(t, result{window.Scan{From: 0, To: 0}, true}, at(tumbling.Emit(window.Never, 10)))
	assert.Equal(t, result{}, at(tumbling.Emit(10, 10)), "no later than the last")
	assert.Equal(t, result{window.Scan{From: 1, To: 10}, true}, at(tumbling.Emit(10, 20)))
	assert.Equal(t, result{window.Scan{From: 3, To: 10}, true}, at(tumbling.Emit(12, 20)))
	assert.Equal(t, result{}, at(tumbling.Emit(12, 19)), "the same windows at both ends")
	hopping := window.Time{Size: 10, Advance: 5}
	assert.Equal(t, result{}, at(hopping.Emit(10, 14)))
	assert.Equal(t, result{window.Scan{From: 1, To: 5}, true}, at(hopping.Emit(10, 15)))
	uneven := window.Time{Size: 10, Advance: 4}
	assert.Equal(t, result{window.Scan{From: 9, To: 10}, true}, at(uneven.Emit(18, 20)), "a window ends between: the mark moves")
	sliding := window.Sliding{Difference: 10}
	assert.Equal(t, result{}, at(sliding.Emit(window.Never, 10)))
	assert.Equal(t, result{window.Scan{From: 0, To: 0}, true}, at(sliding.Emit(window.Never, 11)))
	assert.Equal(t, result{window.Scan{From: 1, To: 9}, true}, at(sliding.Emit(11, 20)))
	assert.Equal(t, result{window.Scan{From: 0, To: 1}, true}, at(sliding.Emit(5, 12)))
	session := window.Session{Gap: 10}
	assert.Equal(t, result{}, at(session.Emit(window.Never, 0)))
	assert.Equal(t, result{window.Scan{From: 0, To: 0}, true}, at(session.Emit(window.Never, 1)))
	assert.Equal(t, result{window.Scan{From: 5, To: 8}, true}, at(session.Emit(5, 9)))
	assert.Equal(t, result{}, at(session.Emit(5, 5)))
}

// aggregates applies plans to a model: the records of each window.
type aggregates map[int64]*aggregate

type aggregate struct {
	records []int64
	newest  int64
}

func (a aggregates) found(s window.Scan) (found []window.Found) {
	for start, row := range a {
		if s.From <= start && start <= s.To {
			found = append(found, window.Found{Start: start, Newest: row.newest})
		}
	}
	slices.SortFunc(found, func(x, y window.Found) int { return int(x.Start - y.Start) })
	return found
}

func (a aggregates) apply(found []window.Found, steps []window.Step, t int64) {
	before := map[int]aggregate{window.Initial: {newest: window.Never}}
	for i, f := range found {
		before[i] = *a[f.Start]
	}
	for _, s := range steps {
		row := aggregate{slices.Clone(before[s.From].records), before[s.From].newest}
		if s.Action != window.Copy {
			row.records, row.newest = append(row.records, t), max(row.newest, t)
		}
		a[s.Span.Start] = &row
	}
}

// By the definition: a window for every record that it ends with, and one behind every
// record if there are others in it; the earliest records share the window from 0.
func slidingModel(records []int64, d int64) map[int64][]int64 {
	windows := map[int64][]int64{}
	add := func(start int64) {
		var inside []int64
		for _, t := range records {
			if start <= t && t <= start+d {
				inside = append(inside, t)
			}
		}
		if inside != nil {
			windows[start] = inside
		}
	}
	for _, t := range records {
		add(max(0, t-d))
		add(t + 1)
	}
	return windows
}

func TestSlidingIsTheDefinition(t *testing.T) {
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 3))
		w := window.Sliding{Difference: 1 + r.Int64N(10)}
		rows, records := aggregates{}, []int64{}
		for range 1 + r.IntN(8) {
			at := r.Int64N(30)
			found := rows.found(w.Search(at))
			rows.apply(found, w.Plan(found, at, 0), at)
			records = append(records, at)
		}
		want := slidingModel(records, w.Difference)
		got := map[int64][]int64{}
		for start, row := range rows {
			got[start] = row.records
			slices.Sort(got[start])
		}
		for start := range want {
			slices.Sort(want[start])
		}
		require.Equal(t, want, got, "seed %d, difference %d, records %v", seed, w.Difference, records)
	}
}

func TestSlidingPlans(t *testing.T) {
	const initial = window.Initial
	span := func(start int64) window.Span { return window.Span{Start: start, End: start + 10} }
	w := window.Sliding{Difference: 10}
	for _, c := range []struct {
		name      string
		found     []window.Found
		at, until int64
		want      []window.Step
	}{
		{"first", nil, 15, 15, []window.Step{{window.Create, span(5), initial}}},
		{"second", []window.Found{{5, 15}}, 20, 20, []window.Step{
			{window.Create, span(16), initial}, {window.Create, span(10), 0},
		}},
		{"out of order", []window.Found{{5, 15}, {10, 20}, {16, 20}}, 18, 18, []window.Step{
			{window.Update, span(16), 2}, {window.Update, span(10), 1}, {window.Create, span(8), 0}, {window.Copy, span(19), 2},
		}},
		{"same time again", []window.Found{{5, 15}}, 15, 15, []window.Step{{window.Update, span(5), 0}}},
		{"the previous right window is the left one, and is written twice", []window.Found{{0, 4}}, 15, 15, []window.Step{
			{window.Create, span(5), initial}, {window.Create, span(5), initial},
		}},
		{"previous too old for the left window", []window.Found{{0, 3}}, 15, 15, []window.Step{{window.Create, span(5), initial}}},
		{"early, first", nil, 3, 3, []window.Step{{window.Create, span(0), initial}}},
		{"early, second", []window.Found{{0, 3}}, 5, 5, []window.Step{{window.Create, span(4), initial}, {window.Update, span(0), 0}}},
		{"early, out of order", []window.Found{{0, 5}}, 2, 5, []window.Step{{window.Copy, span(3), 0}, {window.Update, span(0), 0}}},
		{"early, between", []window.Found{{0, 7}, {3, 7}}, 5, 7, []window.Step{
			{window.Update, span(3), 1}, {window.Copy, span(6), 1}, {window.Update, span(0), 0},
		}},
	} {
		assert.Equal(t, c.want, w.Plan(c.found, c.at, c.until), c.name)
	}
}

func TestSlidingClosed(t *testing.T) {
	w := window.Sliding{Difference: 10, Grace: 5}
	assert.False(t, w.Late(20, 35), "its newest window ends at the close time")
	assert.True(t, w.Late(20, 36))
	steps := w.Plan([]window.Found{{Start: 14, Newest: 24}, {Start: 18, Newest: 24}}, 20, 33)
	assert.Equal(t, []window.Step{{window.Update, window.Span{Start: 18, End: 28}, 1}, {window.Copy, window.Span{Start: 21, End: 31}, 1}}, steps,
		"windows that end before 28 are closed")
}

func TestSession(t *testing.T) {
	w := window.Session{Gap: 5, Grace: 3}
	assert.False(t, w.Late(12, 20))
	assert.True(t, w.Late(11, 20))
	earliest, latest := w.Search(15, 15)
	assert.Equal(t, [2]int64{10, 20}, [2]int64{earliest, latest})
	earliest, _ = w.Search(15, 20)
	assert.EqualValues(t, 12, earliest, "a session that ends at the close time still takes records")
	earliest, latest = w.Search(2, 2)
	assert.Equal(t, [2]int64{0, 7}, [2]int64{earliest, latest})
}

func TestJoin(t *testing.T) {
	w := window.Join{Before: 5, After: 3, Grace: 2}
	assert.Equal(t, window.Scan{From: 15, To: 23}, w.Match(20))
	assert.Equal(t, window.Scan{From: 17, To: 25}, w.Other().Match(20))
	assert.Equal(t, window.Scan{From: 0, To: 5}, w.Match(2))
	assert.Equal(t, window.Scan{From: 24, To: 25}, window.Join{Before: -4, After: 5}.Match(20))
	assert.Equal(t, window.Scan{From: 15, To: 16}, window.Join{Before: 5, After: -4}.Match(20))
	assert.Equal(t, window.Scan{From: 0, To: 0}, window.Join{Before: 5, After: -4}.Match(2))
	assert.True(t, w.Waits(20, 23))
	assert.False(t, w.Waits(20, 24))
	assert.False(t, w.Expired(20, 25))
	assert.True(t, w.Expired(20, 26))
	assert.True(t, w.Other().Waits(20, 25), "the other side waits as long as this one looks back")
	assert.EqualValues(t, 86_400_000-20, window.LegacyGrace(10))
	assert.Zero(t, window.LegacyGrace(86_400_000))
	far := window.Join{Before: 5, After: math.MaxInt64 - 5}
	assert.EqualValues(t, math.MaxInt64, far.Match(20).To)
	assert.False(t, far.Expired(20, math.MaxInt64-1))
}

// Both sides see the same pairs.
func TestJoinIsSymmetric(t *testing.T) {
	for before := int64(-4); before <= 4; before++ {
		for after := -before; after <= 4; after++ {
			w := window.Join{Before: before, After: after}
			for l := range int64(12) {
				for r := range int64(12) {
					left, right := w.Match(l), w.Other().Match(r)
					sawRight := left.From <= r && r <= left.To && (r != 0 || l+after >= 0)
					sawLeft := right.From <= l && l <= right.To && (l != 0 || r+before >= 0)
					assert.Equal(t, sawRight, sawLeft, "%+v %d %d", w, l, r)
				}
			}
		}
	}
}
