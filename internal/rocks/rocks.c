#include "rocks.h"

#include <stdlib.h>
#include <string.h>

fb_get_result fb_get(rocksdb_t* db, const rocksdb_readoptions_t* ro,
                     rocksdb_column_family_handle_t* cf, const char* key,
                     size_t klen, char* buf, size_t cap) {
  fb_get_result r = {0, 0, NULL};
  unsigned char found = 0;
  rocksdb_get_into_buffer_cf(db, ro, cf, key, klen, buf, cap, &r.len, &found,
                             &r.err);
  r.found = found;
  return r;
}

// RocksDB keeps pointers to the bounds, so they live as long as the scan.
struct fb_scan {
  rocksdb_readoptions_t* ro;
  rocksdb_iterator_t* it;
  char* lower;
  char* upper;
  int reverse;
};

static char* copy(const char* p, size_t n) {
  char* c = malloc(n ? n : 1);
  memcpy(c, p, n);
  return c;
}

fb_scan* fb_scan_open(rocksdb_t* db, rocksdb_column_family_handle_t* cf,
                      const rocksdb_snapshot_t* snapshot, const char* lower,
                      size_t llen, const char* upper, size_t ulen,
                      int reverse) {
  fb_scan* s = calloc(1, sizeof *s);
  s->reverse = reverse;
  s->ro = rocksdb_readoptions_create();
  if (snapshot) rocksdb_readoptions_set_snapshot(s->ro, snapshot);
  if (lower) {
    s->lower = copy(lower, llen);
    rocksdb_readoptions_set_iterate_lower_bound(s->ro, s->lower, llen);
  }
  if (upper) {
    s->upper = copy(upper, ulen);
    rocksdb_readoptions_set_iterate_upper_bound(s->ro, s->upper, ulen);
  }
  s->it = rocksdb_create_iterator_cf(db, s->ro, cf);
  if (reverse) {
    rocksdb_iter_seek_to_last(s->it);
  } else if (lower) {
    rocksdb_iter_seek(s->it, s->lower, llen);
  } else {
    rocksdb_iter_seek_to_first(s->it);
  }
  return s;
}

fb_fill_result fb_scan_fill(fb_scan* s, char* buf, size_t cap, size_t max) {
  fb_fill_result r = {0, 0, 0, 0, NULL};
  while (r.rows < max) {
    if (!rocksdb_iter_valid(s->it)) {
      r.done = 1;
      rocksdb_iter_get_error(s->it, &r.err);
      return r;
    }
    size_t klen, vlen;
    const char* k = rocksdb_iter_key(s->it, &klen);
    const char* v = rocksdb_iter_value(s->it, &vlen);
    size_t size = 8 + klen + vlen;
    if (size > cap - r.used) {
      if (r.rows == 0) r.need = size;
      return r;
    }
    uint32_t lens[2] = {(uint32_t)klen, (uint32_t)vlen};
    char* p = buf + r.used;
    memcpy(p, lens, 8);
    memcpy(p + 8, k, klen);
    memcpy(p + 8 + klen, v, vlen);
    r.used += size;
    r.rows++;
    if (s->reverse) {
      rocksdb_iter_prev(s->it);
    } else {
      rocksdb_iter_next(s->it);
    }
  }
  return r;
}

void fb_scan_close(fb_scan* s) {
  rocksdb_iter_destroy(s->it);
  rocksdb_readoptions_destroy(s->ro);
  free(s->lower);
  free(s->upper);
  free(s);
}

void fb_batch_append(rocksdb_writebatch_t* batch,
                     rocksdb_column_family_handle_t** cfs, const char* ops,
                     size_t len) {
  for (const char* end = ops + len; ops < end;) {
    int put = ops[0];
    rocksdb_column_family_handle_t* cf = cfs[(unsigned char)ops[1]];
    uint32_t lens[2];
    memcpy(lens, ops + 2, 8);
    const char* key = ops + 10;
    const char* value = key + lens[0];
    if (put) {
      rocksdb_writebatch_put_cf(batch, cf, key, lens[0], value, lens[1]);
    } else {
      rocksdb_writebatch_delete_cf(batch, cf, key, lens[0]);
    }
    ops = value + lens[1];
  }
}
