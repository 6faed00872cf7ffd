package wire_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/dsl/internal/wire"
	"github.com/forebay-streams/forebay/internal/formatdoc"
	"github.com/forebay-streams/forebay/store"
)

func FuzzChange(f *testing.F) {
	for _, row := range formatdoc.Rows(f, page, "changes", 3) {
		f.Add(formatdoc.Hex(f, row[2]))
	}
	for _, row := range formatdoc.Rows(f, page, "changes-malformed", 2) {
		f.Add(formatdoc.Hex(f, row[0]))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := wire.DecodeChange(b)
		if err != nil {
			require.ErrorIs(t, err, store.ErrCorrupt)
			require.Zero(t, c)
			return
		}
		again, err := wire.AppendChange(nil, c)
		require.NoError(t, err)
		back, err := wire.DecodeChange(again)
		require.NoError(t, err)
		require.Equal(t, c, back)
	})
}

func FuzzForeignKeyJoin(f *testing.F) {
	for _, row := range formatdoc.Rows(f, page, "subscriptions", 5) {
		f.Add(formatdoc.Hex(f, row[4]))
	}
	for _, row := range formatdoc.Rows(f, page, "subscriptions-malformed", 2) {
		f.Add(formatdoc.Hex(f, row[0]))
	}
	for _, row := range formatdoc.Rows(f, page, "responses", 3) {
		f.Add(formatdoc.Hex(f, row[2]))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := wire.DecodeSubscription(b); err == nil {
			again, err := wire.AppendSubscription(nil, s)
			require.NoError(t, err)
			require.Equal(t, b, again)
		} else {
			require.ErrorIs(t, err, store.ErrCorrupt)
		}
		if a, err := wire.DecodeResponse(b); err == nil {
			again, err := wire.AppendResponse(nil, a)
			require.NoError(t, err)
			require.Equal(t, b, again)
		} else {
			require.ErrorIs(t, err, store.ErrCorrupt)
		}
	})
}

func FuzzBuffered(f *testing.F) {
	for _, row := range formatdoc.Rows(f, page, "buffered", 16) {
		f.Add([]byte{3}, formatdoc.Hex(f, row[15]), formatdoc.Hex(f, row[13]))
	}
	for _, row := range formatdoc.Rows(f, page, "buffered-old-versions", 9) {
		f.Add(formatdoc.Hex(f, row[0]), []byte(nil), formatdoc.Hex(f, row[3]))
	}
	f.Fuzz(func(t *testing.T, version, part, value []byte) {
		var list []store.Header
		if len(version) > 0 {
			list = append(list, store.Header{Key: "v", Value: version})
		}
		if len(part) > 0 {
			list = append(list, store.Header{Key: "vh.old", Value: part})
		}
		b, err := wire.DecodeBuffered(store.Record{Headers: store.HeadersOf(list)}, value, nil)
		if err != nil {
			require.ErrorIs(t, err, store.ErrCorrupt)
			return
		}
		again, headers, err := wire.EncodeBuffered(b, true)
		if err != nil {
			require.ErrorIs(t, err, store.ErrCorrupt, "a header block inside may be malformed")
			return
		}
		back, err := wire.DecodeBuffered(store.Record{Headers: headers}, again, nil)
		require.NoError(t, err)
		equal(t, b, back)
		if _, err := wire.DecodeDelayed(value); err != nil {
			require.ErrorIs(t, err, store.ErrCorrupt)
		}
	})
}
