package store_test

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forebay-streams/forebay/store"
)

// random returns a generator whose seed a failed test prints.
func random(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

var (
	someKeys   = []string{"", "k", "K", "key", "traceparent", "é", "a\x00b"}
	someValues = [][]byte{nil, {}, {0}, []byte("value"), make([]byte, 63), make([]byte, 64), make([]byte, 9000)}
)

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func randomHeader(r *rand.Rand) store.Header {
	return store.Header{Key: pick(r, someKeys), Value: pick(r, someValues)}
}

func randomRow(r *rand.Rand) store.Row {
	row := store.Row{Value: make([]byte, r.IntN(20)), Timestamp: int64(r.Uint64())}
	for range r.IntN(4) {
		x := randomHeader(r)
		if err := row.Headers.Add(x.Key, x.Value); err != nil {
			panic(err)
		}
	}
	return row
}

// TestHeadersModel drives several handles and plain lists through the same operations;
// every handle must keep equal to its own list whatever happens to the others.
func TestHeadersModel(t *testing.T) {
	r := random(t)
	type pair struct {
		headers store.Headers
		model   []store.Header
	}
	pairs := make([]pair, 4)
	for range 20000 {
		p := &pairs[r.IntN(len(pairs))]
		switch r.IntN(8) {
		case 0, 1, 2:
			x := randomHeader(r)
			require.NoError(t, p.headers.Add(x.Key, x.Value))
			p.model = append(slices.Clone(p.model), x)
		case 3:
			key := pick(r, someKeys)
			require.NoError(t, p.headers.Remove(key))
			p.model = slices.DeleteFunc(slices.Clone(p.model), func(x store.Header) bool { return x.Key == key })
		case 4:
			pairs[r.IntN(len(pairs))] = pair{p.headers.Copy(), p.model}
		case 5:
			block, err := p.headers.AppendBlock(nil)
			require.NoError(t, err)
			p.headers = store.HeadersFromBlock(block)
		case 6:
			b, err := store.Aggregation.Encode(store.Row{Value: []byte{1}, Headers: p.headers})
			require.NoError(t, err)
			row, err := decodeBorrowed(store.Aggregation, b)
			require.NoError(t, err)
			p.headers = row.Headers.Clone()
			clear(b)
		case 7:
			n := len(p.model)
			p.headers = store.NewHeaders(p.headers.List()...)
			require.Equal(t, n, p.headers.Len())
		}
		if len(p.model) > 40 {
			*p = pair{}
		}
		other := pairs[r.IntN(len(pairs))]
		require.Equal(t, len(p.model) == 0, p.headers.Empty())
		require.Equal(t, len(p.model), p.headers.Len())
		require.Equal(t, slices.EqualFunc(p.model, other.model, sameHeader), p.headers.Equal(other.headers))
		require.True(t, slices.EqualFunc(other.model, other.headers.List(), sameHeader))
		require.True(t, slices.EqualFunc(p.model, p.headers.List(), sameHeader))
		key := pick(r, someKeys)
		var all []store.Header
		for _, x := range p.model {
			if x.Key == key {
				all = append(all, x)
			}
		}
		require.True(t, slices.EqualFunc(all, p.headers.ForKey(key), sameHeader))
		last, ok := p.headers.Last(key)
		require.Equal(t, len(all) > 0, ok)
		if ok {
			require.True(t, sameHeader(all[len(all)-1], last))
		}
	}
}

func sameHeader(a, b store.Header) bool {
	return a.Key == b.Key && string(a.Value) == string(b.Value) && (a.Value == nil) == (b.Value == nil)
}

// TestConvertIsDecodeAndAppend checks the short way of bytes against the long one.
func TestConvertIsDecodeAndAppend(t *testing.T) {
	r := random(t)
	for range 2000 {
		row := randomRow(r)
		for _, from := range layouts {
			b, err := from.Encode(row)
			require.NoError(t, err)
			for _, to := range layouts {
				decoded, err := from.Decode(b)
				require.NoError(t, err)
				want, err := to.Append([]byte("x"), decoded)
				require.NoError(t, err)
				got, err := from.Convert([]byte("x"), to, b)
				require.NoError(t, err)
				require.Equal(t, want, got, "%v to %v", from, to)

				back, err := to.Decode(got[1:])
				require.NoError(t, err)
				require.Equal(t, row.Value, back.Value)
				require.Equal(t, from.HasTimestamp() && to.HasTimestamp() || row.Timestamp == store.NoTimestamp,
					back.Timestamp == row.Timestamp)
				require.Equal(t, from.HasHeaders() && to.HasHeaders() || row.Headers.Empty(),
					back.Headers.Equal(row.Headers))
			}
			prefix, err := from.Prefix(b)
			require.NoError(t, err)
			require.Equal(t, b, append(slices.Clone(prefix), row.Value...))
		}
	}
}

func TestInterchangeProperty(t *testing.T) {
	r := random(t)
	for range 2000 {
		h := randomRow(r).Headers
		order := pick(r, []byteOrder{binary.BigEndian, binary.LittleEndian})
		b, err := store.AppendInterchange(nil, h, order, store.NullAsEmpty)
		require.NoError(t, err)
		back, err := store.ParseInterchange(b, order)
		require.NoError(t, err)
		list := h.List()
		for i := range list {
			if list[i].Value == nil {
				list[i].Value = []byte{}
			}
		}
		require.True(t, slices.EqualFunc(list, back.List(), sameHeader))
	}
}
