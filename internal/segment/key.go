package segment

import (
	"encoding/binary"

	"github.com/forebay-streams/forebay/internal/base"
)

// Prefix makes a segment's number sortable as unsigned bytes.
func Prefix(id int64) uint64 { return uint64(id) ^ 1<<63 }

func idOf(prefix uint64) int64 { return int64(prefix ^ 1<<63) }

// Key appends the prefix of a segment to dst; the store's own key follows.
func Key(dst []byte, id int64) []byte { return binary.BigEndian.AppendUint64(dst, Prefix(id)) }

// Split takes a key of the flat keyspace apart.
func Split(key []byte) (id int64, own []byte) {
	return idOf(binary.BigEndian.Uint64(key)), key[base.PrefixSize:]
}
