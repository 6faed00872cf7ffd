package migration

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/base/basetest"
	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/store"
)

// segmentOf is a segment to build: the name of its directory and its column families.
type segmentOf struct {
	name     string
	families []family
}

// buildStore makes the directory of a store with segments.
func buildStore(t *testing.T, segments ...segmentOf) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "app", "0_0", "store")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for _, s := range segments {
		require.NoError(t, os.Rename(build(t, s.families...), filepath.Join(dir, s.name)))
	}
	return dir
}

func long(n int64) string {
	return string([]byte{byte(n >> 56), byte(n >> 48), byte(n >> 40), byte(n >> 32), byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

// offsetsOf is an offsets family; a negative offset is left out.
func offsetsOf(offset int64, input ...int64) family {
	f := family{rocks.Offsets, map[string]string{}}
	if offset >= 0 {
		f.rows["app-store-changelog-0"] = long(offset)
	}
	var position store.Position
	for partition, n := range input {
		position.Advance("in", int32(partition), n)
	}
	f.rows["position"] = string(position.Bytes())
	return f
}

// Keys of a session of a@1000 and of a window, as time-ordered stores have them.
const (
	end                      = stamp
	start                    = "\x00\x00\x00\x00\x00\x00\x00\x07"
	sessionBase, sessionTail = "\x00" + end + start + "a", "\x01a" + end + start
	windowBase, windowTail   = "\x00" + stamp + "a\x00\x00\x00\x00", "\x01a" + stamp + "\x00\x00\x00\x00"
)

func TestDowngradeOfEachFamily(t *testing.T) {
	for _, c := range []struct {
		name   string
		family family
		to     store.Layout
		want   map[string]string
		rows   int64
	}{
		{"sessions", family{SessionHeadersFamily, map[string]string{"a" + end + start: header + "1", "b" + end + start: "\x00"}}, store.Plain,
			map[string]string{"a" + end + start: "1", "b" + end + start: ""}, 2},
		{"time-ordered sessions", family{SessionHeadersFamily, map[string]string{sessionBase: "1", sessionTail: header}}, store.Plain,
			map[string]string{sessionBase: "1", sessionTail: ""}, 2},
		{"an index row without a session", family{SessionHeadersFamily, map[string]string{sessionTail: ""}}, store.Plain,
			map[string]string{sessionTail: ""}, 1},
		{"time-ordered windows", family{WindowHeadersFamily, map[string]string{windowBase: header + stamp + "1", windowTail: "ignored"}}, store.Timestamped,
			map[string]string{windowBase: stamp + "1", windowTail: ""}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			options := []DowngradeOption{DiscardHeaders()}
			if c.family.rows[sessionTail] != "" || c.rows == 1 {
				options = append(options, TimeOrdered())
			}
			own := offsetsOf(5)
			dir := buildStore(t, segmentOf{"store.0", []family{{name: rocks.Default}, c.family, own}})
			result, err := Downgrade(dir, c.to, options...)
			require.NoError(t, err)
			segment := filepath.Join(dir, "store.0")
			require.Equal(t, DowngradeResult{Dir: dir, Rows: c.rows, Dropped: []string{c.family.name}, Segments: []DowngradeResult{
				{Dir: segment, Rows: c.rows, Dropped: []string{c.family.name}},
			}}, result)
			require.Equal(t, map[string]map[string]string{rocks.Default: c.want, rocks.Offsets: own.rows}, contents(t, segment))
			result, err = Downgrade(dir, c.to, options...)
			require.NoError(t, err)
			require.Zero(t, result.Rows)
			require.Empty(t, result.Dropped)
		})
	}
}

// What stands in the way in the last segment leaves the first as it was.
func TestDowngradeRefusesBeforeTheFirstChange(t *testing.T) {
	for _, c := range []struct {
		name    string
		last    family
		to      store.Layout
		options []DowngradeOption
		err     error
		text    string
	}{
		{"headers", family{HeadersFamily, map[string]string{"b": header + stamp + "2"}}, store.Timestamped, nil, ErrLossy, "DiscardHeaders"},
		{"timestamps", family{HeadersFamily, map[string]string{"b": bare + "2"}}, store.Plain, nil, ErrLossy, "DiscardTimestamps"},
		{"a row cut short", family{HeadersFamily, map[string]string{"b": "\x00\x00"}}, store.Plain,
			[]DowngradeOption{DiscardHeaders(), DiscardTimestamps()}, store.ErrCorrupt, "segment store.60000"},
		{"a strange family", family{name: "strange"}, store.Plain, nil, store.ErrIncompatible, "strange"},
		{"headers as a target", family{name: HeadersFamily}, store.WithHeaders, nil, store.ErrConfig, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := buildStore(t,
				segmentOf{"store.0", []family{{name: rocks.Default}, {HeadersFamily, map[string]string{"a": "\x00" + absent + "1"}}, offsetsOf(5)}},
				segmentOf{"store.60000", []family{{name: rocks.Default}, c.last, offsetsOf(5)}})
			before := basetest.Files(t, filepath.Dir(dir))
			_, err := Downgrade(dir, c.to, append(c.options, ForKafka42())...)
			require.ErrorIs(t, err, c.err)
			require.ErrorContains(t, err, c.text)
			require.Equal(t, before, basetest.Files(t, filepath.Dir(dir)))
		})
	}
	for name, to := range map[string]store.Layout{WindowHeadersFamily: store.Plain, SessionHeadersFamily: store.Timestamped} {
		_, err := Downgrade(buildStore(t, segmentOf{"store.0", []family{{name: rocks.Default}, {name: name}}}), to)
		require.ErrorIs(t, err, store.ErrConfig)
		require.ErrorContains(t, err, fmt.Sprintf("%s has no %s format", name, to))
	}
	_, err := Downgrade(buildStore(t, segmentOf{"store.0", []family{{name: rocks.Default}, {WindowHeadersFamily, map[string]string{"\x00a": bare}}}}), store.Timestamped)
	require.ErrorIs(t, err, store.ErrIncompatible, "no key of a window")
}

// A downgrade that was interrupted between segments goes on with those that are left.
func TestDowngradeGoesOnBetweenSegments(t *testing.T) {
	rows := family{WindowHeadersFamily, map[string]string{windowBase: bare + "1", windowTail: ""}}
	down := []family{{rocks.Default, map[string]string{windowBase: stamp + "1", windowTail: ""}}, offsetsOf(5)}
	dir := buildStore(t, segmentOf{"store.0", down}, segmentOf{"store.60000", []family{{name: rocks.Default}, rows, offsetsOf(5)}})
	report, err := Inspect(dir, CheckRows())
	require.NoError(t, err)
	require.Equal(t, store.WithHeaders, report.Format)
	require.Equal(t, store.Timestamped, report.Legacy)
	require.Equal(t, store.Timestamped, report.Segments[0].Format)
	result, err := Downgrade(dir, store.Timestamped)
	require.NoError(t, err)
	require.Equal(t, []int64{0, 2}, []int64{result.Segments[0].Rows, result.Segments[1].Rows})
	require.Equal(t, contents(t, filepath.Join(dir, "store.0")), contents(t, filepath.Join(dir, "store.60000")))
}

func TestInspectSumsUpSegments(t *testing.T) {
	open := offsetsOf(9, 3, 8)
	open.rows["status"] = long(1)
	dir := buildStore(t,
		segmentOf{"store.60000", []family{{name: rocks.Default}, {HeadersFamily, map[string]string{"c": bare + "1"}}, open}},
		segmentOf{"store.9000000", []family{{name: rocks.Default}, {name: HeadersFamily}, offsetsOf(7)}},
		segmentOf{"store:0", []family{{name: rocks.Default}, {TimestampedFamily, map[string]string{"a": stamp, "b": stamp}}, {HeadersFamily, map[string]string{"a": bare}}, offsetsOf(7, 4)}},
		segmentOf{"store-197001010002", []family{{name: rocks.Default}, {name: HeadersFamily}, offsetsOf(8)}},
		segmentOf{"store.-60000", []family{{name: rocks.Default}}},
		segmentOf{"store.x", []family{{name: rocks.Default}}},
		segmentOf{"other.0", []family{{name: rocks.Default}}})
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "store.120000"), 0o755), "a crash left no database")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "store.180000"), nil, 0o644))
	before := basetest.Files(t, dir)
	r, err := Inspect(dir, CheckRows())
	require.NoError(t, err)
	require.Equal(t, before, basetest.Files(t, dir))
	var names []string
	for _, s := range r.Segments {
		names = append(names, filepath.Base(s.Dir))
	}
	require.Equal(t, []string{"store:0", "store.60000", "store-197001010002", "store.9000000"}, names)
	require.Equal(t, store.WithHeaders, r.Format)
	require.Equal(t, store.Timestamped, r.Legacy)
	require.Equal(t, map[string]int64{"app-store-changelog-0": 7}, r.Offsets)
	require.Equal(t, "{in-0:4 in-1:8}", r.Position.String())
	require.EqualValues(t, 1, r.Status)
	sums := map[string]int64{}
	for _, f := range r.Families {
		sums[f.Name] = f.Exact
		require.Equal(t, f.Exact, f.Estimate)
	}
	require.Equal(t, map[string]int64{rocks.Default: 0, TimestampedFamily: 2, HeadersFamily: 2, rocks.Offsets: 9}, sums)

	r, err = Inspect(buildStore(t, segmentOf{"store.0", []family{{name: rocks.Default}, offsetsOf(9)}}, segmentOf{"store.60000", []family{{name: rocks.Default}, offsetsOf(-1)}}))
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"app-store-changelog-0": store.UnknownOffset}, r.Offsets)
	require.EqualValues(t, -1, r.Families[0].Exact)
	r, err = Inspect(filepath.Dir(dir))
	require.NoError(t, err)
	require.Empty(t, r.Segments, "a task is no store")
}

func TestInspectChecksTheRowsOfEverySegment(t *testing.T) {
	good := map[string]string{sessionBase: "1", sessionTail: header}
	for _, c := range []struct {
		name   string
		family family
		option []InspectOption
		err    error
		text   string
	}{
		{"windows", family{HeadersFamily, map[string]string{"c": "\x04\x00\x00" + stamp + "3"}}, nil, store.ErrCorrupt, "block_empty"},
		{"sessions", family{SessionHeadersFamily, map[string]string{"c": "\x04\x00\x00" + "3"}}, nil, store.ErrCorrupt, "block_empty"},
		{"time-ordered windows", family{WindowHeadersFamily, map[string]string{windowBase: bare[:3]}}, nil, store.ErrCorrupt, "store.60000"},
		{"headers in an index row", family{SessionHeadersFamily, map[string]string{sessionBase: "1", sessionTail: "\x04\x00\x00"}}, []InspectOption{TimeOrdered()}, store.ErrCorrupt, "block_empty"},
		{"no index row", family{SessionHeadersFamily, map[string]string{sessionBase: "1"}}, []InspectOption{TimeOrdered()}, store.ErrIncompatible, "none of a time-ordered store"},
		{"time-ordered sessions, not said", family{SessionHeadersFamily, good}, nil, store.ErrIncompatible, "TimeOrdered"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := buildStore(t, segmentOf{"store.0", []family{{name: rocks.Default}, {name: c.family.name}, offsetsOf(5)}},
				segmentOf{"store.60000", []family{{name: rocks.Default}, c.family, offsetsOf(5)}})
			_, err := Inspect(dir, append(c.option, CountRows())...)
			require.NoError(t, err)
			_, err = Inspect(dir, append(c.option, CheckRows())...)
			require.ErrorIs(t, err, c.err)
			require.ErrorContains(t, err, c.text)
			require.ErrorContains(t, err, "segment store.60000: ")
		})
	}
	r, err := Inspect(buildStore(t, segmentOf{"store.0", []family{{name: rocks.Default}, {SessionHeadersFamily, good}}}), CheckRows(), TimeOrdered())
	require.NoError(t, err)
	require.Equal(t, store.Aggregation, r.Format)
	require.Equal(t, store.Plain, r.Families[1].Layout, "base rows are plain")
	_, err = Inspect(build(t, family{name: rocks.Default}, family{name: HeadersFamily}), TimeOrdered())
	require.ErrorIs(t, err, store.ErrIncompatible)
}

// For Kafka Streams up to 4.2 one line stands for all segments.
func TestDowngradeOfSegmentsForKafka42(t *testing.T) {
	windows := []family{{name: rocks.Default}, {HeadersFamily, map[string]string{"a": bare + "1"}}}
	with := func(offsets ...family) []family { return append(windows[:2:2], offsets...) }
	read := func(dir, name string) string {
		b, err := os.ReadFile(filepath.Join(filepath.Dir(dir), name))
		require.NoError(t, err)
		return string(b)
	}
	for name, c := range map[string]struct {
		first, second []family
		want          string
	}{
		"the least":  {with(offsetsOf(9, 3, 8)), with(offsetsOf(5, 4)), "5"},
		"no offset":  {with(offsetsOf(9, 3, 8)), with(offsetsOf(-1, 4)), "-4"},
		"no offsets": {with(offsetsOf(9, 4, 8)), windows, "-4"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := buildStore(t, segmentOf{"store.0", c.first}, segmentOf{"store.60000", c.second})
			require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(dir), ".checkpoint"), []byte("0\n1\napp-other-changelog 0 3\n"), 0o644))
			result, err := Downgrade(dir, store.Timestamped, ForKafka42())
			require.NoError(t, err)
			require.Equal(t, []string{HeadersFamily, rocks.Offsets}, result.Dropped)
			for _, segment := range []string{"store.0", "store.60000"} {
				require.Equal(t, map[string]map[string]string{rocks.Default: {}, TimestampedFamily: {"a": stamp + "1"}}, contents(t, filepath.Join(dir, segment)))
			}
			require.Equal(t, "0\n2\napp-other-changelog 0 3\napp-store-changelog 0 "+c.want+"\n", read(dir, ".checkpoint"))
			require.Equal(t, "0\n2\nin 0 4\nin 1 8\n", read(dir, "store.position"))
		})
	}

	// Interrupted when the first segment had given its offsets to the files.
	dir := buildStore(t, segmentOf{"store.0", []family{{name: rocks.Default}}}, segmentOf{"store.60000", []family{{name: rocks.Default}, offsetsOf(9, 3)}})
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(dir), ".checkpoint"), []byte("0\n1\napp-store-changelog 0 5\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(dir), "store.position"), []byte("0\n1\nin 0 4\n"), 0o644))
	result, err := Downgrade(dir, store.Timestamped, ForKafka42())
	require.NoError(t, err)
	require.Equal(t, []string{rocks.Offsets}, result.Segments[1].Dropped)
	require.Equal(t, map[string]map[string]string{rocks.Default: {}}, contents(t, filepath.Join(dir, "store.60000")))
	require.Equal(t, "0\n1\napp-store-changelog 0 5\n", read(dir, ".checkpoint"))
	require.Equal(t, "0\n1\nin 0 4\n", read(dir, "store.position"))
	result, err = Downgrade(dir, store.Timestamped, ForKafka42())
	require.NoError(t, err)
	require.Empty(t, result.Dropped)

	_, err = Downgrade(filepath.Join(dir, "store.0"), store.Timestamped, ForKafka42())
	require.ErrorIs(t, err, store.ErrConfig)
	require.ErrorContains(t, err, "the directory with all segments")
}
