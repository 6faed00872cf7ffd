package store_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/forebay-streams/forebay/store"
)

// threeHeaders is a row with a block of about 110 bytes, as tracing leaves it.
func threeHeaders() store.Row {
	return store.Row{Value: []byte("value"), Timestamp: 1700000000000, Headers: store.NewHeaders(
		header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
		header("tracestate", "vendor=t61rcWkg"),
		header("schema", "\x00\x00\x00\x2a"),
	)}
}

func encodedThree(b *testing.B) []byte {
	encoded, err := store.WithHeaders.Encode(threeHeaders())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(encoded)))
	return encoded
}

// BenchmarkUntouched is the read of a row whose headers nobody looks at.
func BenchmarkUntouched(b *testing.B) {
	encoded := encodedThree(b)
	for range b.N {
		if r, err := store.WithHeaders.Decode(encoded); err != nil || r.Value == nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkErr(b *testing.B) {
	encoded := encodedThree(b)
	for range b.N {
		r, err := store.WithHeaders.Decode(encoded)
		if err != nil || r.Headers.Err() != nil {
			b.Fatal("malformed")
		}
	}
}

func BenchmarkLast(b *testing.B) {
	encoded := encodedThree(b)
	for range b.N {
		r, err := store.WithHeaders.Decode(encoded)
		if _, ok := r.Headers.Last("schema"); err != nil || !ok {
			b.Fatal("not found")
		}
	}
}

// BenchmarkEager is the read of a row whose headers are all parsed.
func BenchmarkEager(b *testing.B) {
	encoded := encodedThree(b)
	for range b.N {
		r, err := store.WithHeaders.Decode(encoded)
		if err != nil || len(r.Headers.List()) != 3 {
			b.Fatal("malformed")
		}
	}
}

// BenchmarkEagerOwned parses as a reader does that owns what it keeps: keys and values
// in memory of their own, as Kafka's.
func BenchmarkEagerOwned(b *testing.B) {
	encoded := encodedThree(b)
	for range b.N {
		r, err := store.WithHeaders.Decode(encoded)
		if err != nil {
			b.Fatal(err)
		}
		list := r.Headers.List()
		for i, x := range list {
			list[i] = store.Header{Key: strings.Clone(x.Key), Value: bytes.Clone(x.Value)}
		}
		if len(list) != 3 {
			b.Fatal("malformed")
		}
	}
}

// BenchmarkEagerReuse parses all headers into the same list.
func BenchmarkEagerReuse(b *testing.B) {
	encoded := encodedThree(b)
	var list []store.Header
	for range b.N {
		r, err := store.WithHeaders.Decode(encoded)
		if list = r.Headers.AppendTo(list[:0]); err != nil || len(list) != 3 {
			b.Fatal("malformed")
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	dst, row := encodedThree(b), threeHeaders()
	for range b.N {
		var err error
		if dst, err = store.WithHeaders.Append(dst[:0], row); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPassOn reads a row and writes it again without a look at its headers.
func BenchmarkPassOn(b *testing.B) {
	encoded := encodedThree(b)
	dst := make([]byte, 0, len(encoded))
	for range b.N {
		r, err := store.WithHeaders.Decode(encoded)
		if err != nil {
			b.Fatal(err)
		}
		if dst, err = store.WithHeaders.Append(dst[:0], r); err != nil {
			b.Fatal(err)
		}
	}
}
