package store_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/internal/formatdoc"
	"github.com/forebay-streams/forebay/store"
)

var layouts = map[string]store.Layout{
	"plain": store.Plain, "timestamped": store.Timestamped,
	"headers": store.WithHeaders, "aggregation": store.Aggregation,
}

func TestLayoutNames(t *testing.T) {
	for name, l := range layouts {
		assert.Equal(t, name, l.String())
		assert.Equal(t, l == store.Timestamped || l == store.WithHeaders, l.HasTimestamp())
		assert.Equal(t, l == store.Aggregation || l == store.WithHeaders, l.HasHeaders())
	}
	assert.Equal(t, "layout(9)", store.Layout(9).String())
}

// testStored checks one row in both directions; what the layout cannot hold is dropped.
func testStored(t *testing.T, l store.Layout, r store.Row, stored []byte) {
	t.Helper()
	got, err := l.Encode(r)
	require.NoError(t, err)
	require.Equal(t, stored, got)
	for _, decode := range []func([]byte) (store.Row, error){l.Decode, func(b []byte) (store.Row, error) { return decodeBorrowed(l, b) }} {
		back, err := decode(stored)
		require.NoError(t, err)
		require.Equal(t, r.Value, back.Value)
		require.Equal(t, r.Tombstone(), back.Tombstone())
		require.Equal(t, len(r.Value), cap(back.Value), "appending to a value must not reach past it")
		kept := store.Row{Timestamp: store.NoTimestamp}
		if !r.Tombstone() && l.HasTimestamp() {
			kept.Timestamp = r.Timestamp
		}
		if !r.Tombstone() && l.HasHeaders() {
			kept.Headers = r.Headers
		}
		require.Equal(t, kept.Timestamp, back.Timestamp)
		require.Equal(t, kept.Headers.List(), back.Headers.List())
		require.NoError(t, back.Headers.Err())
		if stored != nil {
			again, err := l.Append([]byte("x"), back)
			require.NoError(t, err)
			require.Equal(t, append([]byte("x"), stored...), again)
		}
	}
}

func TestValueVectors(t *testing.T) {
	for _, row := range formatdoc.Rows(t, "values.md", "values", 5) {
		r := store.Row{Value: formatdoc.Hex(t, row[3]), Headers: store.NewHeaders(formatdoc.List(t, row[1])...)}
		if row[2] != "" {
			r.Timestamp = formatdoc.Int(t, row[2])
		}
		testStored(t, layouts[row[0]], r, formatdoc.Hex(t, row[4]))
	}
}

func TestRestoreVectors(t *testing.T) {
	for _, row := range formatdoc.Rows(t, "values.md", "restore", 5) {
		testStored(t, layouts[row[0]], store.Row{
			Value:     formatdoc.Hex(t, row[1]),
			Timestamp: formatdoc.Int(t, row[2]),
			Headers:   store.NewHeaders(formatdoc.List(t, row[3])...),
		}, formatdoc.Hex(t, row[4]))
	}
}

// conversions names what the pages call a conversion.
var conversions = map[string]struct{ from, to store.Layout }{
	"lift":              {store.Timestamped, store.WithHeaders},
	"lift_plain":        {store.Plain, store.WithHeaders},
	"add_timestamp":     {store.Plain, store.Timestamped},
	"drop_timestamp":    {store.Timestamped, store.Plain},
	"to_timestamped":    {store.WithHeaders, store.Timestamped},
	"to_plain":          {store.WithHeaders, store.Plain},
	"strip_aggregation": {store.Aggregation, store.Plain},
}

func TestConversionVectors(t *testing.T) {
	for _, row := range formatdoc.Rows(t, "values.md", "conversions", 3) {
		name, in := row[0], formatdoc.Hex(t, row[1])
		switch name {
		case "prefix":
			got, err := store.WithHeaders.Prefix(in)
			require.NoError(t, err)
			assert.Equal(t, formatdoc.Hex(t, row[2]), got)
			continue
		case "timestamp_of":
			got, err := store.WithHeaders.Decode(in)
			require.NoError(t, err)
			assert.Equal(t, formatdoc.Int(t, row[2]), got.Timestamp)
			continue
		}
		c := conversions[name]
		if name == "lift" && len(in) == 0 {
			c.from, c.to = store.Plain, store.Aggregation
		}
		want := formatdoc.Hex(t, row[2])
		if in == nil {
			// A conversion has no null: it passes through as a tombstone.
			r, err := c.from.Decode(in)
			require.NoError(t, err)
			got, err := c.to.Encode(r)
			require.NoError(t, err)
			assert.Equal(t, want, got)
			continue
		}
		got, err := c.from.Convert([]byte("x"), c.to, in)
		require.NoError(t, err)
		assert.Equal(t, append([]byte("x"), want...), got, "%s %s", name, row[1])
	}
}

func TestMalformedValueVectors(t *testing.T) {
	for _, row := range formatdoc.Rows(t, "values.md", "malformed", 4) {
		l, b := layouts[row[0]], formatdoc.Hex(t, row[1])
		r, err := l.Decode(b)
		if err != nil {
			requireReason(t, err, row[3])
			assert.True(t, r.Headers.Empty())
			assert.Nil(t, r.Value)
			_, err = decodeBorrowed(l, b)
			requireReason(t, err, row[3])
			got, err := l.Convert([]byte("x"), store.Plain, b)
			requireReason(t, err, row[3])
			assert.Equal(t, []byte("x"), got)
			_, err = l.Prefix(b)
			requireReason(t, err, row[3])
			continue
		}
		requireReason(t, r.Headers.Err(), row[3])
		requireUnreadable(t, r.Headers)
		for _, to := range layouts {
			_, err := l.Convert(nil, to, b)
			require.NoError(t, err, "conversions do not look into the block")
		}
		again, err := l.Encode(r)
		require.NoError(t, err)
		assert.Equal(t, b, again, "nor does passing on a row")

		require.NoError(t, r.Headers.Add("k", nil))
		_, err = l.Encode(r)
		requireReason(t, err, row[3])
	}
}

func TestMalformedConversionVectors(t *testing.T) {
	for _, row := range formatdoc.Rows(t, "values.md", "malformed-conversions", 4) {
		b := formatdoc.Hex(t, row[1])
		var err error
		switch row[0] {
		case "prefix":
			_, err = store.WithHeaders.Prefix(b)
		case "timestamp_of":
			_, err = store.WithHeaders.Decode(b)
		default:
			c := conversions[row[0]]
			_, err = c.from.Convert(nil, c.to, b)
		}
		requireReason(t, err, row[3])
	}
}

// The length of the size changes at 64, 8,192 and 1,048,576 bytes. The row is one that was used
// before: all of it is set.
func TestDecodeAtEveryLengthOfTheSize(t *testing.T) {
	for _, size := range []int{0, 1, 62, 63, 64, 65, 127, 128, 8190, 8191, 8192, 8193, 1<<20 - 1, 1 << 20} {
		block := bytes.Repeat([]byte{7}, size)
		head := binary.AppendVarint(nil, int64(size))
		stored := append(slices.Concat(head, block), 0, 0, 0, 0, 0, 0, 1, 2, 'v')
		for _, borrowed := range []bool{false, true} {
			decode := store.WithHeaders.Decode
			if borrowed {
				decode = func(b []byte) (store.Row, error) {
					r := threeHeaders()
					err := store.WithHeaders.DecodeBorrowed(b, &r)
					return r, err
				}
			}
			r, err := decode(stored)
			require.NoError(t, err)
			require.Equal(t, "v", string(r.Value))
			require.EqualValues(t, 258, r.Timestamp)
			require.Equal(t, size == 0, r.Headers.Empty())
			again, err := store.WithHeaders.Encode(r)
			require.NoError(t, err)
			require.Equal(t, stored, again)

			r, err = decode(stored[: len(stored)-1 : len(stored)-1])
			require.NoError(t, err)
			require.Empty(t, r.Value)
			require.NotNil(t, r.Value, "an empty value is no tombstone")
			for _, n := range []int{0, 1, len(head), len(head) + size/2, len(head) + size, len(head) + size + 7} {
				_, err := decode(stored[:n:n])
				require.ErrorIs(t, err, store.ErrCorrupt, "%d of %d bytes", n, len(stored))
			}
		}
	}
}

func TestNothingNamesTheLayout(t *testing.T) {
	b := formatdoc.Hex(t, "0000018bcfe568006869")
	r, err := store.WithHeaders.Decode(b)
	require.NoError(t, err)
	assert.Equal(t, int64(435200000000104), r.Timestamp)
	assert.Equal(t, "i", string(r.Value))
	r, err = store.Timestamped.Decode(b)
	require.NoError(t, err)
	assert.Equal(t, int64(1700000000000), r.Timestamp)
	assert.Equal(t, "hi", string(r.Value))
}

func TestTombstones(t *testing.T) {
	for _, l := range layouts {
		got, err := l.Encode(store.Row{})
		require.NoError(t, err)
		assert.Nil(t, got)
		r, err := l.Decode(nil)
		require.NoError(t, err)
		assert.True(t, r.Tombstone())
		assert.Equal(t, store.NoTimestamp, r.Timestamp)
		prefix, err := l.Prefix(nil)
		require.NoError(t, err)
		assert.Nil(t, prefix)
		broken := store.Row{Headers: store.HeadersFromBlock([]byte{0})}
		require.NoError(t, broken.Headers.Add("k", nil))
		got, err = l.Encode(broken)
		require.NoError(t, err, "a tombstone's headers are not stored")
		assert.Nil(t, got)
	}
	b, err := store.Plain.Encode(store.Row{Value: []byte{}})
	require.NoError(t, err)
	assert.NotNil(t, b, "an empty value is a value")
}

func TestRowClone(t *testing.T) {
	b, err := store.WithHeaders.Encode(threeHeaders())
	require.NoError(t, err)
	buffer := slices.Clone(b)
	r, err := decodeBorrowed(store.WithHeaders, buffer)
	require.NoError(t, err)
	c := r.Clone()
	clear(buffer)
	again, err := store.WithHeaders.Encode(c)
	require.NoError(t, err)
	assert.Equal(t, b, again)
	assert.True(t, store.Row{}.Clone().Tombstone())
	assert.False(t, store.Row{Value: []byte{}}.Clone().Tombstone())
}

func TestRowSizeCountsHeaders(t *testing.T) {
	list := threeHeaders()
	b, err := list.Headers.AppendBlock(nil)
	require.NoError(t, err)
	stored := store.Row{Value: list.Value, Headers: store.HeadersFromBlock(b)}
	assert.Equal(t, len(b)+len("value"), stored.Size())
	assert.Equal(t, stored.Size()-1, list.Size(), "a list has no count yet")
}

func decodeBorrowed(l store.Layout, b []byte) (r store.Row, err error) {
	err = l.DecodeBorrowed(b, &r)
	return r, err
}
