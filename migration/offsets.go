package migration

import (
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/forebay-streams/forebay/internal/base"
	"github.com/forebay-streams/forebay/internal/checkpointfile"
	"github.com/forebay-streams/forebay/internal/rocks"
	"github.com/forebay-streams/forebay/store"
)

// readOffsets reads the whole offsets family: changelog offsets, position, and the
// status (-1 when there is none). Keys of another form are skipped.
func readOffsets(db *rocks.DB, storeName string) (offsets []checkpointfile.Entry, position store.Position, status int64, err error) {
	status = -1
	family := db.Family(rocks.Offsets)
	if family == nil {
		return nil, position, status, nil
	}
	scan := db.Scan(family, base.Span{})
	defer scan.Close()
	for scan.Next() {
		key, value := string(scan.Key()), scan.Value()
		if key == positionKey {
			if position, err = store.DecodePosition(value); err != nil {
				return nil, position, status, store.Locate(err, storeName, rocks.Offsets, scan.Key())
			}
			continue
		}
		if len(value) != 8 {
			continue
		}
		n := int64(binary.BigEndian.Uint64(value))
		if key == statusKey {
			status = n
			continue
		}
		at := strings.LastIndexByte(key, '-')
		if at < 0 {
			continue
		}
		partition, err := strconv.ParseInt(key[at+1:], 10, 32)
		if err != nil {
			continue
		}
		offsets = append(offsets, checkpointfile.Entry{Topic: key[:at], Partition: int32(partition), Offset: n})
	}
	return offsets, position, status, scan.Err()
}
