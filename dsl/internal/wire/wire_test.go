package wire_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/dsl/internal/wire"
	"github.com/forebay-streams/forebay/internal/formatdoc"
	"github.com/forebay-streams/forebay/store"
)

const page = "dsl.md"

func reason(t *testing.T, err error) string {
	t.Helper()
	require.ErrorIs(t, err, store.ErrCorrupt)
	var c *store.CorruptError
	require.ErrorAs(t, err, &c)
	return c.Reason
}

func TestWindowKeys(t *testing.T) {
	for _, row := range formatdoc.Rows(t, page, "window-keys", 5) {
		key, start, end := formatdoc.Hex(t, row[0]), formatdoc.Int(t, row[1]), formatdoc.Int(t, row[2])
		window, session := formatdoc.Hex(t, row[3]), formatdoc.Hex(t, row[4])
		assert.Equal(t, window, wire.AppendWindowKey(nil, key, start))
		assert.Equal(t, session, wire.AppendSessionKey(nil, key, start, end))
		gotKey, gotStart, err := wire.ParseWindowKey(window)
		require.NoError(t, err)
		assert.Equal(t, key, gotKey)
		assert.Equal(t, start, gotStart)
		gotKey, gotStart, gotEnd, err := wire.ParseSessionKey(session)
		require.NoError(t, err)
		assert.Equal(t, key, gotKey)
		assert.Equal(t, [2]int64{start, end}, [2]int64{gotStart, gotEnd})
	}
	_, _, err := wire.ParseWindowKey(make([]byte, 7))
	assert.Equal(t, "window_key", reason(t, err))
	_, _, _, err = wire.ParseSessionKey(make([]byte, 15))
	assert.Equal(t, "session_key", reason(t, err))
}

func TestPartition(t *testing.T) {
	for _, row := range formatdoc.Rows(t, page, "partitions", 2) {
		key, hash := formatdoc.Hex(t, row[0]), formatdoc.Int(t, row[1])
		for _, n := range []int32{1, 2, 3, 1000, math.MaxInt32} {
			assert.EqualValues(t, hash%int64(n), wire.Partition(key, n))
		}
	}
	assert.Equal(t, wire.Partition([]byte{}, 1000), wire.Partition(nil, 1000))
}

func TestChanges(t *testing.T) {
	for _, row := range formatdoc.Rows(t, page, "changes", 3) {
		change := wire.Change{New: formatdoc.Hex(t, row[0]), Old: formatdoc.Hex(t, row[1])}
		b, err := wire.AppendChange([]byte("x"), change)
		require.NoError(t, err)
		assert.Equal(t, formatdoc.Hex(t, row[2]), b[1:])
		back, err := wire.DecodeChange(b[1:])
		require.NoError(t, err)
		assert.Equal(t, change, back)
	}
	for _, row := range formatdoc.Rows(t, page, "changes-read", 3) {
		change, err := wire.DecodeChange(formatdoc.Hex(t, row[0]))
		require.NoError(t, err)
		assert.Equal(t, wire.Change{New: formatdoc.Hex(t, row[1]), Old: formatdoc.Hex(t, row[2])}, change)
	}
	for _, row := range formatdoc.Rows(t, page, "changes-malformed", 2) {
		_, err := wire.DecodeChange(formatdoc.Hex(t, row[0]))
		assert.Equal(t, row[1], reason(t, err), row[0])
	}
	long, err := wire.AppendChange(nil, wire.Change{New: make([]byte, 64), Old: []byte("o")})
	require.NoError(t, err)
	assert.Equal(t, []byte{0x80, 0x01}, long[:2])
	_, err = wire.AppendChange(nil, wire.Change{})
	require.ErrorIs(t, err, store.ErrUnencodable)
}

func hash(t *testing.T, column string) *wire.Hash {
	if b := formatdoc.Hex(t, column); b != nil {
		h := wire.Hash(b)
		return &h
	}
	return nil
}

func TestForeignKeys(t *testing.T) {
	for _, row := range formatdoc.Rows(t, page, "foreign-keys", 3) {
		b, err := wire.AppendForeignKey(nil, formatdoc.Hex(t, row[0]), formatdoc.Hex(t, row[1]))
		require.NoError(t, err)
		assert.Equal(t, formatdoc.Hex(t, row[2]), b)
	}
	for _, row := range formatdoc.Rows(t, page, "hashes", 2) {
		assert.Equal(t, hash(t, row[1]), wire.HashOf(formatdoc.Hex(t, row[0])))
	}
	assert.Nil(t, wire.HashOf(nil))
	var none *wire.Hash
	assert.True(t, none.Equal(nil))
	assert.False(t, none.Equal(&wire.Hash{}))
	assert.False(t, (&wire.Hash{}).Equal(nil))
	assert.True(t, (&wire.Hash{}).Equal(&wire.Hash{}))
	assert.False(t, (&wire.Hash{1}).Equal(&wire.Hash{}))
}

func TestSubscriptions(t *testing.T) {
	for _, row := range formatdoc.Rows(t, page, "subscriptions", 5) {
		s := wire.Subscription{
			Instruction: wire.Instruction(formatdoc.Int(t, row[0])),
			Hash:        hash(t, row[1]),
			PrimaryKey:  formatdoc.Hex(t, row[2]),
			Partition:   int32(formatdoc.Int(t, row[3])),
		}
		b, err := wire.AppendSubscription(nil, s)
		require.NoError(t, err)
		assert.Equal(t, formatdoc.Hex(t, row[4]), b)
		back, err := wire.DecodeSubscription(b)
		require.NoError(t, err)
		assert.Equal(t, s, back)
	}
	for _, row := range formatdoc.Rows(t, page, "subscriptions-malformed", 2) {
		s, err := wire.DecodeSubscription(formatdoc.Hex(t, row[0]))
		assert.Equal(t, row[1], reason(t, err), row[0])
		assert.Zero(t, s)
	}
}

func TestResponses(t *testing.T) {
	for _, row := range formatdoc.Rows(t, page, "responses", 3) {
		a := wire.Response{Hash: hash(t, row[0]), Value: formatdoc.Hex(t, row[1])}
		b, err := wire.AppendResponse(nil, a)
		require.NoError(t, err)
		assert.Equal(t, formatdoc.Hex(t, row[2]), b)
		back, err := wire.DecodeResponse(b)
		require.NoError(t, err)
		assert.Equal(t, a, back)
	}
	for _, row := range formatdoc.Rows(t, page, "responses-malformed", 2) {
		_, err := wire.DecodeResponse(formatdoc.Hex(t, row[0]))
		assert.Equal(t, row[1], reason(t, err), row[0])
	}
	b, err := wire.AppendResponse(nil, wire.Response{Value: []byte{}})
	require.NoError(t, err)
	back, err := wire.DecodeResponse(b)
	require.NoError(t, err)
	assert.Nil(t, back.Value, "an empty value is read as none")
}

func TestUnmatched(t *testing.T) {
	for _, row := range formatdoc.Rows(t, page, "unmatched", 4) {
		u := wire.Unmatched{Time: formatdoc.Int(t, row[0]), Left: row[1] == "1", Key: formatdoc.Hex(t, row[2])}
		b := wire.AppendUnmatched(nil, u)
		assert.Equal(t, formatdoc.Hex(t, row[3]), b)
		back, err := wire.ParseUnmatched(b)
		require.NoError(t, err)
		assert.Equal(t, u, back)
	}
	_, err := wire.ParseUnmatched(make([]byte, 8))
	assert.Equal(t, "unmatched_truncated", reason(t, err))
	_, err = wire.ParseUnmatched([]byte{0, 0, 0, 0, 0, 0, 0, 0, 2})
	assert.Equal(t, "unmatched_side", reason(t, err))
}

func context(t *testing.T, ts, offset, topic, headers string) store.Record {
	return store.Record{
		Topic: string(formatdoc.Hex(t, topic)), Offset: formatdoc.Int(t, offset), Timestamp: formatdoc.Int(t, ts),
		Headers: store.HeadersOf(formatdoc.List(t, headers)),
	}
}

func part(t *testing.T, value, ts, headers string) store.Row {
	return store.Row{Value: formatdoc.Hex(t, value), Timestamp: formatdoc.Int(t, ts), Headers: store.HeadersOf(formatdoc.List(t, headers))}
}

func TestBuffered(t *testing.T) {
	for _, row := range formatdoc.Rows(t, page, "buffered", 16) {
		b := wire.Buffered{
			Context: context(t, row[0], row[1], row[2], row[3]),
			Prior:   part(t, row[4], row[5], row[6]),
			Old:     part(t, row[7], row[8], row[9]),
			New:     formatdoc.Hex(t, row[10]),
			Time:    formatdoc.Int(t, row[11]),
		}
		value, headers, err := wire.EncodeBuffered(b, row[12] == "1")
		require.NoError(t, err)
		assert.Equal(t, formatdoc.Hex(t, row[13]), value)
		want := []store.Header{{Key: "v", Value: []byte{3}}}
		for i, name := range []string{"vh.prior", "vh.old"} {
			if h := formatdoc.Hex(t, row[14+i]); h != nil {
				want = append(want, store.Header{Key: name, Value: h})
			}
		}
		assert.Equal(t, want, headers.List())

		back, err := wire.DecodeBuffered(store.Record{Timestamp: 5, Headers: headers}, value, nil)
		require.NoError(t, err)
		equal(t, b, back)
	}
}

// equal compares what the bytes say; headers may be held in different forms.
func equal(t *testing.T, want, got wire.Buffered) {
	t.Helper()
	for _, rows := range [][2]store.Row{{want.Prior, got.Prior}, {want.Old, got.Old}} {
		assert.Equal(t, rows[0].Value, rows[1].Value)
		assert.Equal(t, rows[0].Timestamp, rows[1].Timestamp)
		assert.Equal(t, rows[0].Headers.List(), rows[1].Headers.List())
	}
	assert.Equal(t, want.New, got.New)
	assert.Equal(t, want.Time, got.Time)
	assert.Equal(t, want.Context.Headers.List(), got.Context.Headers.List())
	want.Context.Headers, got.Context.Headers = store.Headers{}, store.Headers{}
	assert.Equal(t, want.Context, got.Context)
}

func TestBufferedWithoutParts(t *testing.T) {
	b := wire.Buffered{
		Context: store.Record{Timestamp: 9, Topic: "t"},
		Prior:   store.Row{Value: []byte("p"), Timestamp: 1},
		Old:     store.Row{Value: []byte("p"), Timestamp: 2, Headers: store.NewHeaders(store.Header{Key: "h"})},
		New:     []byte("n"),
	}
	value, headers, err := wire.EncodeBuffered(b, true)
	require.NoError(t, err)
	list := headers.List()
	require.Equal(t, "vh.prior", list[1].Key)
	require.Equal(t, "vh.old", list[2].Key)

	plain, err := wire.DecodeBuffered(store.Record{Headers: store.NewHeaders(list[0])}, value, nil)
	require.NoError(t, err)
	assert.Equal(t, store.Row{Value: []byte("p"), Timestamp: 9}, plain.Prior, "the context's timestamp, no headers")
	assert.Equal(t, plain.Prior, plain.Old)

	shared, err := wire.DecodeBuffered(store.Record{Headers: store.NewHeaders(list[0], list[2])}, value, nil)
	require.NoError(t, err)
	assert.EqualValues(t, 2, shared.Old.Timestamp)
	assert.Equal(t, shared.Old, shared.Prior, "a prior value that equals old takes what vh.old says")

	for _, bad := range [][]byte{nil, {}, append([]byte{0}, make([]byte, 9)...)} {
		_, err := wire.DecodeBuffered(store.Record{Headers: store.NewHeaders(list[0], store.Header{Key: "vh.old", Value: bad})}, value, nil)
		require.ErrorIs(t, err, store.ErrCorrupt)
	}
}

func TestBufferedOldVersions(t *testing.T) {
	for _, row := range formatdoc.Rows(t, page, "buffered-old-versions", 9) {
		record := store.Record{Topic: "changelog", Partition: 3, Offset: 8, Timestamp: formatdoc.Int(t, row[1])}
		if v := formatdoc.Hex(t, row[0]); v != nil {
			record.Headers = store.NewHeaders(store.Header{Key: "v", Value: v})
		}
		var previous *wire.Buffered
		if p := formatdoc.Hex(t, row[2]); p != nil {
			previous = &wire.Buffered{Prior: store.Row{Value: p}}
		}
		got, err := wire.DecodeBuffered(record, formatdoc.Hex(t, row[3]), previous)
		require.NoError(t, err, row)
		assert.Equal(t, formatdoc.Int(t, row[4]), got.Context.Timestamp)
		assert.Equal(t, formatdoc.Hex(t, row[5]), got.Prior.Value)
		assert.Equal(t, formatdoc.Hex(t, row[6]), got.Old.Value)
		assert.Equal(t, formatdoc.Hex(t, row[7]), got.New)
		assert.Equal(t, formatdoc.Int(t, row[8]), got.Time)
		if row[0] == "nil" {
			assert.Equal(t, record, got.Context)
		}
	}
	for _, v := range [][]byte{nil, {}, {0}, {4}, {3, 0}} {
		_, err := wire.DecodeBuffered(store.Record{Headers: store.NewHeaders(store.Header{Key: "v", Value: v})}, nil, nil)
		assert.Equal(t, "buffered_version", reason(t, err))
	}
}

func TestBufferedTruncated(t *testing.T) {
	value, headers, err := wire.EncodeBuffered(wire.Buffered{Old: store.Row{Value: []byte("o")}, New: []byte("n")}, false)
	require.NoError(t, err)
	for cut := range value {
		_, err := wire.DecodeBuffered(store.Record{Headers: headers}, value[:cut], nil)
		require.ErrorIs(t, err, store.ErrCorrupt, cut)
	}
}

func TestDelayed(t *testing.T) {
	for _, row := range formatdoc.Rows(t, page, "delayed", 9) {
		key := wire.DelayedKey{Key: formatdoc.Hex(t, row[1]), Start: formatdoc.Int(t, row[0]), Seq: int32(formatdoc.Int(t, row[2]))}
		d := wire.Delayed{Context: context(t, row[0], row[3], row[4], row[5]), Value: formatdoc.Hex(t, row[6])}
		b := wire.AppendDelayedKey(nil, key)
		assert.Equal(t, formatdoc.Hex(t, row[7]), b)
		back, err := wire.ParseDelayedKey(b)
		require.NoError(t, err)
		assert.Equal(t, key, back)
		logged, err := wire.EncodeDelayed(d)
		require.NoError(t, err)
		assert.Equal(t, formatdoc.Hex(t, row[8]), logged)
		for _, value := range [][]byte{logged, logged[:len(logged)-8]} {
			got, err := wire.DecodeDelayed(value)
			require.NoError(t, err)
			assert.Equal(t, d.Value, got.Value)
			assert.Equal(t, d.Context.Headers.List(), got.Context.Headers.List())
			assert.Equal(t, d.Context.Timestamp, got.Context.Timestamp)
		}
		local, err := wire.LocalDelayed(logged)
		require.NoError(t, err)
		assert.Equal(t, logged[:len(logged)-8], local)
		_, err = wire.DecodeDelayed(logged[:len(logged)-9])
		require.ErrorIs(t, err, store.ErrCorrupt)
	}
	_, err := wire.ParseDelayedKey([]byte{1})
	assert.Equal(t, "delayed_key", reason(t, err))
}
