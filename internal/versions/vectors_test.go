package versions

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/formatdoc"
	"github.com/forebay-streams/forebay/store"
)

const page = "versioned.md"

// physical is a store of rows in a map, driven as the real one is.
type physical struct {
	times  Times
	editor Editor
	rows   map[string][]byte
}

func newPhysical(retention, interval int64) *physical {
	p := &physical{times: Times{Retention: retention, Interval: interval, Stream: NoStream}, rows: map[string][]byte{}}
	p.editor.Damaged = func() {}
	return p
}

func (p *physical) Get(key []byte, _ *[]byte) (store.Row, bool, error) {
	b, ok := p.rows[string(key)]
	return store.Row{Value: b}, ok, nil
}

// put answers as the vectors do.
func (p *physical) put(t testing.TB, key, value []byte, at int64) string {
	if p.times.Late(at) {
		return "too old"
	}
	p.times.Advance(at)
	changes, placed, err := p.editor.Put(p, &p.times, key, value, at)
	require.NoError(t, err)
	for _, c := range changes {
		if c.Tombstone() {
			delete(p.rows, string(c.Key))
		} else {
			p.rows[string(c.Key)] = c.Value
		}
	}
	for k := range p.rows {
		if id, _, _ := SplitKey([]byte(k), p.times.Interval); id != Latest && id < p.times.FirstLive() {
			delete(p.rows, k)
		}
	}
	if placed == PutLatest {
		return "latest"
	}
	return fmt.Sprint(placed)
}

// value reads a value of a vector.
func value(t testing.TB, s string) []byte {
	if s == "~" {
		return nil
	}
	return formatdoc.Hex(t, s)
}

func show(b []byte) string {
	switch {
	case b == nil:
		return "~"
	case len(b) == 0:
		return "-"
	}
	return hex.EncodeToString(b)
}

func (p *physical) puts(t testing.TB, column string) (answers []string) {
	for put := range strings.SplitSeq(column, ",") {
		key, rest, _ := strings.Cut(put, "@")
		at, v, _ := strings.Cut(rest, "=")
		answers = append(answers, p.put(t, formatdoc.Hex(t, key), value(t, v), formatdoc.Int(t, at)))
	}
	return answers
}

func (p *physical) dump() string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(p.rows)) {
		list = append(list, hex.EncodeToString([]byte(k))+"="+hex.EncodeToString(p.rows[k]))
	}
	return strings.Join(list, " ")
}

func TestPutVectors(t *testing.T) {
	for _, row := range formatdoc.Rows(t, page, "puts", 5) {
		p := newPhysical(formatdoc.Int(t, row[0]), formatdoc.Int(t, row[1]))
		require.Equal(t, row[3], strings.Join(p.puts(t, row[2]), ","), row[2])
		require.Equal(t, row[4], p.dump(), row[2])
	}
}

func (p *physical) read(t testing.TB, key []byte, at string) string {
	answer := func(v Version) string {
		to := fmt.Sprint(v.To)
		if v.To == Forever {
			to = "latest"
		}
		return fmt.Sprintf("%s:%d:%s", show(v.Value), v.From, to)
	}
	if first, last, ranged := strings.Cut(at, "-"); ranged {
		var list []string
		for _, ascending := range []bool{false, true} {
			w := Walk{From: formatdoc.Int(t, first), To: formatdoc.Int(t, last), Ascending: ascending, Damaged: func() { t.Error("damaged") }}
			require.NoError(t, w.Read(p, &p.times, key))
			var found []string
			for w.Next() {
				found = append(found, answer(w.Version()))
			}
			require.NoError(t, w.Err())
			if ascending {
				slices.Reverse(found)
				require.Equal(t, list, found)
			}
			list = found
		}
		if list == nil {
			return "none"
		}
		return strings.Join(list, "|")
	}
	var l Lookup
	v, ok, err := l.AsOf(p, &p.times, key, formatdoc.Int(t, at))
	require.NoError(t, err)
	if !ok {
		return "none"
	}
	return answer(v)
}

func TestReadVectors(t *testing.T) {
	for _, row := range formatdoc.Rows(t, page, "reads", 4) {
		p := newPhysical(formatdoc.Int(t, row[0]), formatdoc.Int(t, row[1]))
		p.puts(t, row[2])
		for want := range strings.SplitSeq(row[3], ",") {
			at, answer, _ := strings.Cut(want, "=")
			require.Equal(t, answer, p.read(t, []byte("k"), at), want)
		}
	}
}

func TestConversionVectors(t *testing.T) {
	for _, row := range formatdoc.Rows(t, page, "conversions", 3) {
		key, plain, headers := formatdoc.Hex(t, row[0]), formatdoc.Hex(t, row[1]), formatdoc.Hex(t, row[2])
		got, err := Convert([]byte("x"), store.Plain, store.Aggregation, key, plain)
		require.NoError(t, err)
		require.Equal(t, "x"+string(headers), string(got))
		got, err = Convert(nil, store.Aggregation, store.Plain, key, headers)
		require.NoError(t, err)
		require.Equal(t, plain, got)
		got, err = Convert(nil, store.Plain, store.Plain, key, plain)
		require.NoError(t, err)
		require.Equal(t, plain, got)
		has, err := Check(store.Aggregation, key, headers)
		require.NoError(t, err)
		require.False(t, has)
	}
	with, err := EncodeLatest(1, formatdoc.Hex(t, "0a020268023161"))
	require.NoError(t, err)
	has, err := Check(store.Aggregation, AppendKey(nil, Latest, nil), with)
	require.NoError(t, err)
	require.True(t, has)
	_, err = Check(store.Aggregation, AppendKey(nil, Latest, nil), with[:12])
	require.ErrorIs(t, err, store.ErrCorrupt)
}

func TestDamagedVectors(t *testing.T) {
	for _, row := range formatdoc.Rows(t, page, "damaged", 3) {
		b := formatdoc.Hex(t, row[0])
		r, damaged, err := Decode(b, nil)
		require.NoError(t, err)
		require.True(t, damaged)
		var list []string
		for _, e := range r.Entries {
			list = append(list, fmt.Sprintf("%d=%s", e.From, show(e.Value)))
		}
		require.Equal(t, row[1], strings.Join(list, ","))
		again, err := r.Encode()
		require.NoError(t, err)
		require.Equal(t, row[2], hex.EncodeToString(again))

		// Each version is found at its time, and repairs are counted.
		warned := 0
		l := Lookup{Damaged: func() { warned++ }}
		for i, e := range r.Entries {
			v, older, err := l.find(b, e.From)
			require.NoError(t, err)
			require.False(t, older)
			_, to := r.find(e.From)
			require.Equal(t, Version{e.From, to, e.Value}, v, i)
		}
		_, older, err := l.find(b, r.Min()-1)
		require.NoError(t, err)
		require.True(t, older)
		v, older, err := l.find(b, r.Next)
		require.NoError(t, err)
		require.False(t, older)
		require.Nil(t, v.Value)
		require.Equal(t, len(r.Entries)+2, warned)
	}
}

func TestMalformedVectors(t *testing.T) {
	for _, row := range formatdoc.Rows(t, page, "malformed", 3) {
		b := formatdoc.Hex(t, row[1])
		key := AppendKey(nil, 3, []byte("k"))
		_, _, err := Decode(b, nil)
		if row[0] == "latest" {
			key = AppendKey(nil, Latest, []byte("k"))
			_, err = DecodeLatest(b)
		}
		var c *store.CorruptError
		require.ErrorAs(t, err, &c, row[1])
		require.Equal(t, row[2], c.Reason, row[1])
		_, err = Convert(nil, store.Plain, store.Aggregation, key, b)
		require.ErrorIs(t, err, store.ErrCorrupt)
		_, err = Check(store.Plain, key, b)
		require.ErrorIs(t, err, store.ErrCorrupt)

		// Every reader and writer says which row it is.
		p := newPhysical(100, 10)
		p.rows[string(key)] = b
		p.times.Add(3)
		var l Lookup
		_, _, err = l.AsOf(p, &p.times, []byte("k"), 30)
		require.ErrorAs(t, err, &c)
		require.Equal(t, key, c.Key)
		w := Walk{To: 100}
		require.NoError(t, w.Read(p, &p.times, []byte("k")))
		require.False(t, w.Next())
		require.ErrorAs(t, w.Err(), &c)
		require.Equal(t, key, c.Key)
		_, _, err = p.editor.Put(p, &p.times, []byte("k"), []byte{}, 31)
		require.ErrorAs(t, err, &c)
		require.Equal(t, key, c.Key)
	}
}

func TestIntervalVectors(t *testing.T) {
	for _, row := range formatdoc.Rows(t, page, "intervals", 2) {
		require.Equal(t, row[1], strconv.FormatInt(DefaultInterval(formatdoc.Int(t, row[0])), 10), row[0])
	}
}
