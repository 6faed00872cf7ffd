package wire

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-streams/forebay/internal/windowkey"
)

// AppendWindowKey appends the key under which a window travels over topics: its end is
// not in it.
func AppendWindowKey(dst, key []byte, start int64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, key...), uint64(start))
}

// ParseWindowKey takes a window's topic key apart. The error is [store.ErrCorrupt]:
// window_key.
func ParseWindowKey(b []byte) (key []byte, start int64, err error) {
	n := len(b) - timeSize
	if n < 0 {
		return nil, 0, corrupt("window_key", len(b))
	}
	return b[:n:n], int64(binary.BigEndian.Uint64(b[n:])), nil
}

// AppendSessionKey appends the key of a session, on topics and in stores.
func AppendSessionKey(dst, key []byte, start, end int64) []byte {
	return windowkey.Session.Append(dst, windowkey.SessionRow{Key: key, Start: start, End: end})
}

// ParseSessionKey takes a session's key apart. The error is [store.ErrCorrupt]:
// session_key.
func ParseSessionKey(b []byte) (key []byte, start, end int64, err error) {
	row, ok := windowkey.Session.Parse(b)
	if !ok {
		return nil, 0, 0, corrupt("session_key", len(b))
	}
	return row.Key, row.Start, row.End, nil
}

// murmur2 chooses partitions as Kafka's producers do. It only reads.
var murmur2 = kgo.StickyKeyPartitioner(nil).ForTopic("")

// Partition is the partition of a serialized key among n. Of a windowed key only the
// inner key counts. A nil key has no partition of its own: the producer chooses.
func Partition(key []byte, n int32) int32 {
	if key == nil {
		key = []byte{} // kgo would choose at random
	}
	return int32(murmur2.Partition(&kgo.Record{Key: key}, int(n)))
}
