package rocks

// #include "rocks.h"
import "C"

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"unsafe"

	"github.com/linxGnu/grocksdb"

	"github.com/forebay-streams/forebay/store"
)

// wantVersion is the RocksDB release line that the pinned wrapper is made for.
const wantVersion = "11.1."

// Version is the version of the loaded RocksDB library, or "unknown".
func Version() string {
	buf := make([]byte, 64)
	C.fb_version((*C.char)(unsafe.Pointer(&buf[0])), C.size_t(len(buf)))
	if s, _, _ := strings.Cut(string(buf), "\x00"); s != "" {
		return s
	}
	return "unknown"
}

// checkLibrary runs once before the first database is opened: calls into a library of
// another release fail in unreadable ways.
var checkLibrary = sync.OnceValue(func() error { return checkVersion(Version()) })

func checkVersion(version string) error {
	if strings.HasPrefix(version, wantVersion) {
		return nil
	}
	return fmt.Errorf("%w: RocksDB %s is loaded, the wrapper grocksdb v1.11.1 needs %sx; link the release library that `make deps` fetches, or build %sx",
		store.ErrLibrary, version, wantVersion, wantVersion)
}

// handle returns the C object of a wrapper object. The wrapper keeps it in a field c
// that it does not export; a wrapper without one does not fit.
func handle(wrapper any) unsafe.Pointer {
	f := reflect.ValueOf(wrapper).Elem().FieldByName("c")
	if !f.IsValid() || f.Kind() != reflect.Pointer {
		panic(fmt.Sprintf("%T has no C handle: not the grocksdb release that go.mod pins", wrapper))
	}
	return f.UnsafePointer()
}

// The crossings need these; a wrapper that keeps them otherwise is found at once.
var _ = func() bool {
	for _, w := range []any{grocksdb.DB{}, grocksdb.ColumnFamilyHandle{}, grocksdb.ReadOptions{}, grocksdb.Snapshot{}, grocksdb.WriteBatch{}, grocksdb.WriteOptions{}} {
		if f, ok := reflect.TypeOf(w).FieldByName("c"); !ok || f.Type.Kind() != reflect.Pointer {
			panic(fmt.Sprintf("%T has no C handle: not the grocksdb release that go.mod pins", w))
		}
	}
	return true
}()
