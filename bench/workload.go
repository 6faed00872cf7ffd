package main

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/forebay-streams/forebay/store"
)

// The rows: 16-byte keys, 100-byte values, two headers. interop/java/Bench.java has the same.
const (
	round     = 10_000 // puts between commits
	times     = 10     // windows, sessions and versions of a key
	apart     = 20_000 // ms between them
	startTime = 1_700_000_000_000
	rowBytes  = 230 // about, on disk
)

var rowHeaders = store.NewHeaders(
	store.Header{Key: "traceparent", Value: []byte("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")},
	store.Header{Key: "tenant", Value: []byte("acme-eu1")},
)

var values = func() (v [1024][]byte) {
	r := rand.New(rand.NewPCG(1, 1))
	for i := range v {
		v[i] = make([]byte, 100)
		for j := range v[i] {
			v[i][j] = byte(r.Uint32())
		}
	}
	return v
}()

func value(i int) []byte { return values[i&1023] }

// appendKey appends the i-th key: they are spread over the key space.
func appendKey(dst []byte, i int) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(i)*0x9E3779B97F4A7C15)
	return binary.BigEndian.AppendUint64(dst, uint64(i))
}

// timed spreads rows over keys and times; rows of one time lie together, as they arrive.
type timed struct{ keys int }

func timedRows(rows int) timed { return timed{max(rows/times, 1)} }

func (t timed) owner(i int) int  { return i % t.keys }
func (t timed) time(i int) int64 { return startTime + int64(i/t.keys)*apart }

// subject is a store of one of the contenders. i is the number of a row.
type subject interface {
	put(i int) error
	commit() error
	get(i int) (bool, error)
	// rangeFrom reads up to 100 rows from the i-th on, or those of its key. For versions it
	// reads the i-th one as a past one.
	rangeFrom(i int) (rows int, err error)
	// scan reads all rows; 0 if the family has no such scan.
	scan() (rows int, err error)
	close() error
}

// headerReader is a subject that can read a row and look at one of its headers.
type headerReader interface {
	header(i int) (bool, error)
}
