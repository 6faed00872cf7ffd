// The crossings of the hot paths: one call for what would take many through the
// wrapper. Handles come from the wrapper, which owns them.
#ifndef FOREBAY_ROCKS_H
#define FOREBAY_ROCKS_H

#include <stddef.h>
#include <stdint.h>
#include "rocksdb/c.h"

// Writes a batch. err is malloc'ed.
void fb_write(rocksdb_t* db, const rocksdb_writeoptions_t* wo,
              rocksdb_writebatch_t* batch, char** err);

// Result of a read: found, and the value's length. A length above the buffer's size
// means that nothing was copied. err is malloc'ed.
typedef struct {
  size_t len;
  int found;
  char* err;
} fb_get_result;

fb_get_result fb_get(rocksdb_t* db, const rocksdb_readoptions_t* ro,
                     rocksdb_column_family_handle_t* cf, const char* key,
                     size_t klen, char* buf, size_t cap);

typedef struct fb_scan fb_scan;

// Opens a scan of [lower, upper), each open when NULL, and moves to its first row. fill
// tells whether the blocks it reads go into the cache.
fb_scan* fb_scan_open(rocksdb_t* db, rocksdb_column_family_handle_t* cf,
                      const rocksdb_snapshot_t* snapshot, const char* lower,
                      size_t llen, const char* upper, size_t ulen, int reverse,
                      int fill);

// Opens scans of the same range over two families as they are at one moment, without a
// snapshot: releasing one makes RocksDB rewrite settled files.
void fb_scan_open_pair(rocksdb_t* db, rocksdb_column_family_handle_t* first,
                       rocksdb_column_family_handle_t* second,
                       const char* lower, size_t llen, const char* upper,
                       size_t ulen, int reverse, int fill, fb_scan** scans,
                       char** err);

// What a fill left in the buffer. need is the size of a first row that did not fit.
typedef struct {
  size_t rows, used, need;
  int done;
  char* err;
} fb_fill_result;

// Copies up to max rows into buf, each as u32 key length, u32 value length, key, value
// in host byte order.
fb_fill_result fb_scan_fill(fb_scan* s, char* buf, size_t cap, size_t max);
void fb_scan_close(fb_scan* s);

// Where a row lies in a buffer, with the first bytes of its key.
typedef struct {
  uint64_t prefix;
  uint32_t at;
} fb_place;

// Adds rows to an open table writer in the order of their places. A row is u32 key length,
// u32 value length, key, value; a value length of UINT32_MAX removes the key.
void fb_table_add(rocksdb_sstfilewriter_t* w, const char* buf,
                  const fb_place* places, size_t n, char** err);

// Version of the loaded library into buf, empty when it does not say.
void fb_version(char* buf, size_t cap);

// Turn RocksDB's perf context of this thread off, if it counts as it does by default, and on
// again. Its counters are thread-local variables of a shared library, which costs a function
// call each: 9 % of a scan, one for each key that a put compares. Nobody can read them from
// Go, where a goroutine does not stay on a thread, unless he locks it to one; he asks for
// more than the default, and is left alone.
int fb_counters_off(void);
void fb_counters_on(int off);

#endif
