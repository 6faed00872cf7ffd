package store

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Errors to test for with [errors.Is]. Details come with [errors.As]: [CorruptError]
// for stored bytes, [Error] for a store's operation.
var (
	// ErrCorrupt: stored bytes that no writer of this format can have made.
	ErrCorrupt = errors.New("corrupt bytes")
	// ErrTooLarge: a row or header block above 2,147,483,647 bytes, or a field above its limit.
	ErrTooLarge = errors.New("too large")
	// ErrReadOnly: a write to something read-only.
	ErrReadOnly = errors.New("read-only")
	// ErrClosed: the store, view or scan is closed.
	ErrClosed = errors.New("closed")
	// ErrNilKey: a nil key, or a key serializer that answered nil.
	ErrNilKey = errors.New("nil key")
	// ErrNegativeTimestamp: a changelog record cannot carry a negative timestamp.
	ErrNegativeTimestamp = errors.New("negative timestamp")
	// ErrUnencodable: a value that the asked format cannot express.
	ErrUnencodable = errors.New("cannot be expressed in this format")
	// ErrIncompatible: a state directory that the asked format cannot open.
	ErrIncompatible = errors.New("incompatible state directory")
	// ErrTaskCorrupted: a directory that may hold uncommitted rows; wipe it and restore.
	ErrTaskCorrupted = errors.New("task corrupted")
	// ErrConfig: an option that is wrong or does not go with another.
	ErrConfig = errors.New("bad configuration")
	// ErrLibrary: the RocksDB library does not fit the Go wrapper.
	ErrLibrary = errors.New("RocksDB library does not fit")
	// ErrFailed: an earlier write failed; close the store and open it again.
	ErrFailed = errors.New("store failed")
)

// Error says which store failed in which operation, and what to do about it.
type Error struct {
	Store  string
	Op     string
	Err    error
	Remedy string // what the user can do; empty if Err says it all
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "store %q: %s: %v", e.Store, e.Op, e.Err)
	if e.Remedy != "" {
		b.WriteString("; " + e.Remedy)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// CorruptError is the detail of [ErrCorrupt].
type CorruptError struct {
	// Reason is one word of the format pages, such as size_too_large.
	Reason string
	// Offset of the first bad byte, counted from the start of what was decoded.
	Offset int
	// Store, Family and Key are added by the store that read the bytes.
	Store, Family string
	Key           []byte
}

// maxKeyShown bounds what an error prints of a key.
const maxKeyShown = 32

func (e *CorruptError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "corrupt bytes: %s at byte %d", e.Reason, e.Offset)
	if e.Store != "" {
		fmt.Fprintf(&b, ", store %q", e.Store)
	}
	if e.Family != "" {
		fmt.Fprintf(&b, ", column family %q", e.Family)
	}
	if e.Key != nil {
		key, cut := e.Key, ""
		if len(key) > maxKeyShown {
			key, cut = key[:maxKeyShown], "…"
		}
		fmt.Fprintf(&b, ", key %s%s", hex.EncodeToString(key), cut)
	}
	return b.String()
}

// Is makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

func corrupt(reason string, offset int) error {
	return &CorruptError{Reason: reason, Offset: offset}
}

// Locate adds where corrupt bytes were read from to a [CorruptError]; any other error
// is returned as it is.
func Locate(err error, store, family string, key []byte) error {
	var c *CorruptError
	if !errors.As(err, &c) {
		return err
	}
	located := *c
	located.Store, located.Family, located.Key = store, family, bytes.Clone(key)
	return &located
}
