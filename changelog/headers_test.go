package changelog

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-streams/forebay/store"
)

func TestHeadersOfARecord(t *testing.T) {
	value := []byte("x")
	r := &kgo.Record{Headers: []kgo.RecordHeader{{Key: "a", Value: value}, {Key: "", Value: nil}, {Key: "a", Value: []byte{}}}}
	h := Headers(r)
	require.Equal(t, []store.Header{{Key: "a", Value: value}, {}, {Key: "a", Value: []byte{}}}, h.List())
	require.Same(t, &value[0], &h.List()[0].Value[0], "values are shared")

	// The list is not.
	r.Headers[0].Key = "changed"
	require.Equal(t, "a", h.List()[0].Key)

	require.True(t, Headers(&kgo.Record{}).Empty())
}

func TestRecordHeaders(t *testing.T) {
	value := []byte("x")
	list, err := RecordHeaders(store.NewHeaders(store.Header{Key: "a", Value: value}, store.Header{Key: "n"}))
	require.NoError(t, err)
	require.Equal(t, []kgo.RecordHeader{{Key: "a", Value: value}, {Key: "n"}}, list)
	require.Same(t, &value[0], &list[0].Value[0])

	// From a stored block: count 2, "k" = "v", "" = null.
	list, err = RecordHeaders(store.HeadersFromBlock([]byte{4, 2, 'k', 2, 'v', 0, 1}))
	require.NoError(t, err)
	require.Equal(t, []kgo.RecordHeader{{Key: "k", Value: []byte("v")}, {Key: ""}}, list)

	list, err = RecordHeaders(store.Headers{})
	require.NoError(t, err)
	require.Nil(t, list)

	_, err = RecordHeaders(store.HeadersFromBlock([]byte{4, 2}))
	require.ErrorIs(t, err, store.ErrCorrupt)
}

func TestRecordOf(t *testing.T) {
	r := &kgo.Record{
		Topic: "in", Partition: 3, Offset: 42, Timestamp: time.UnixMilli(1700000000123),
		Headers: []kgo.RecordHeader{{Key: "trace", Value: []byte("1")}},
	}
	got := RecordOf(r)
	require.Equal(t, "in", got.Topic)
	require.EqualValues(t, 3, got.Partition)
	require.EqualValues(t, 42, got.Offset)
	require.EqualValues(t, 1700000000123, got.Timestamp)
	require.Equal(t, []store.Header{{Key: "trace", Value: []byte("1")}}, got.Headers.List())

	require.Equal(t, store.NoTimestamp, RecordOf(&kgo.Record{}).Timestamp, "format without timestamps")
	require.EqualValues(t, 0, RecordOf(&kgo.Record{Timestamp: time.UnixMilli(0)}).Timestamp)
}

func TestCutPosition(t *testing.T) {
	var p store.Position
	p.Advance("orders", 0, 41)
	v := kgo.RecordHeader{Key: "v", Value: []byte{0}}
	c := kgo.RecordHeader{Key: "c", Value: p.Bytes()}
	user := kgo.RecordHeader{Key: "user", Value: []byte("u")}
	for name, tc := range map[string]struct {
		in   []kgo.RecordHeader
		left int
	}{
		"none":             {nil, 0},
		"one":              {[]kgo.RecordHeader{c}, 1},
		"only the pair":    {[]kgo.RecordHeader{v, c}, 0},
		"behind others":    {[]kgo.RecordHeader{user, v, c}, 1},
		"one pair of two":  {[]kgo.RecordHeader{v, c, v, c}, 2},
		"not last":         {[]kgo.RecordHeader{v, c, user}, 3},
		"wrong order":      {[]kgo.RecordHeader{c, v}, 2},
		"v alone":          {[]kgo.RecordHeader{user, v}, 2},
		"other version":    {[]kgo.RecordHeader{{Key: "v", Value: []byte{1}}, c}, 2},
		"null v":           {[]kgo.RecordHeader{{Key: "v"}, c}, 2},
		"long v":           {[]kgo.RecordHeader{{Key: "v", Value: []byte{0, 0}}, c}, 2},
		"c not a position": {[]kgo.RecordHeader{v, {Key: "c", Value: []byte("abc")}}, 2},
		"null c":           {[]kgo.RecordHeader{v, {Key: "c"}}, 2},
	} {
		list, position, ok := cutPosition(tc.in)
		require.Equal(t, tc.left, len(list), name)
		require.Equal(t, len(tc.in) != len(list), ok, name)
		if ok {
			require.True(t, p.Equal(position), name)
		}
	}
}
