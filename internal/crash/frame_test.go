package crash

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"github.com/forebay-streams/forebay/store"
)

// kind says what a frame is.
type kind byte

const (
	record     kind = 'r' // a row
	commit     kind = 'c' // the end of a transaction; n is the input offset
	abort      kind = 'a' // the end of an aborted one
	checkpoint kind = 'p' // of the journal; n is the changelog offset, change.Value the position
)

// frame is an entry of the harness's files: a changelog (its offsets count frames, as
// Kafka's count markers), a journal, a set of rows.
type frame struct {
	kind   kind
	n      int64
	change store.Change
}

const frameHead = 8

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendFrame appends size · checksum · kind · n · timestamp · key · value · headers.
func appendFrame(dst []byte, f frame) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, frameHead)...)
	dst = append(dst, byte(f.kind))
	dst = binary.AppendVarint(dst, f.n)
	dst = binary.AppendVarint(dst, f.change.Timestamp)
	dst = appendNullable(dst, f.change.Key)
	dst = appendNullable(dst, f.change.Value)
	dst = binary.AppendUvarint(dst, uint64(f.change.Headers.Len()))
	for h := range f.change.Headers.All() {
		dst = appendNullable(dst, []byte(h.Key))
		dst = appendNullable(dst, h.Value)
	}
	body := dst[start+frameHead:]
	binary.BigEndian.PutUint32(dst[start:], uint32(len(body)))
	binary.BigEndian.PutUint32(dst[start+4:], crc32.Checksum(body, castagnoli))
	return dst
}

func appendNullable(dst, b []byte) []byte {
	if b == nil {
		return binary.AppendUvarint(dst, 0)
	}
	return append(binary.AppendUvarint(dst, uint64(len(b))+1), b...)
}

// parseFrames returns the whole frames and how many bytes they take: behind them is what
// a killed writer left.
func parseFrames(b []byte) (frames []frame, valid int) {
	for {
		rest := b[valid:]
		if len(rest) < frameHead {
			return frames, valid
		}
		size := int(binary.BigEndian.Uint32(rest))
		if size == 0 || size > len(rest)-frameHead {
			return frames, valid
		}
		body := rest[frameHead : frameHead+size]
		if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(rest[4:]) {
			return frames, valid
		}
		frames = append(frames, parseBody(body))
		valid += frameHead + size
	}
}

// parseBody panics at a malformed body: its checksum was right.
func parseBody(b []byte) (f frame) {
	f.kind, b = kind(b[0]), b[1:]
	varint := func() int64 {
		n, size := binary.Varint(b)
		b = b[size:]
		return n
	}
	nullable := func() []byte {
		n, size := binary.Uvarint(b)
		b = b[size:]
		if n == 0 {
			return nil
		}
		out := bytes.Clone(b[: n-1 : n-1])
		b = b[n-1:]
		return out
	}
	f.n = varint()
	f.change.Timestamp = varint()
	f.change.Key, f.change.Value = nullable(), nullable()
	n, size := binary.Uvarint(b)
	b = b[size:]
	var headers []store.Header
	for range n {
		headers = append(headers, store.Header{Key: string(nullable()), Value: nullable()})
	}
	f.change.Headers = store.HeadersOf(headers)
	return f
}
