#include "rocks.h"

#include <stdlib.h>
#include <string.h>

void fb_write(rocksdb_t* db, const rocksdb_writeoptions_t* wo,
              rocksdb_writebatch_t* batch, char** err) {
  int off = fb_counters_off();
  rocksdb_write(db, wo, batch, err);
  fb_counters_on(off);
}

fb_get_result fb_get(rocksdb_t* db, const rocksdb_readoptions_t* ro,
                     rocksdb_column_family_handle_t* cf, const char* key,
                     size_t klen, char* buf, size_t cap) {
  fb_get_result r = {0, 0, NULL};
  unsigned char found = 0;
  int off = fb_counters_off();
  rocksdb_get_into_buffer_cf(db, ro, cf, key, klen, buf, cap, &r.len, &found,
                             &r.err);
  fb_counters_on(off);
  r.found = found;
  return r;
}

// RocksDB keeps pointers to the bounds, so they live as long as the scans that share them.
typedef struct {
  int users;
  rocksdb_readoptions_t* ro;
  char* lower;
  size_t llen;
  char* upper;
} range;

struct fb_scan {
  range* range;
  rocksdb_iterator_t* it;
  int reverse;
};

static char* copy(const char* p, size_t n) {
  char* c = malloc(n ? n : 1);
  memcpy(c, p, n);
  return c;
}

static range* range_open(const char* lower, size_t llen, const char* upper,
                         size_t ulen, int fill) {
  range* r = calloc(1, sizeof *r);
  r->ro = rocksdb_readoptions_create();
  rocksdb_readoptions_set_fill_cache(r->ro, fill);
  if (lower) {
    r->lower = copy(lower, llen);
    r->llen = llen;
    rocksdb_readoptions_set_iterate_lower_bound(r->ro, r->lower, llen);
  }
  if (upper) {
    r->upper = copy(upper, ulen);
    rocksdb_readoptions_set_iterate_upper_bound(r->ro, r->upper, ulen);
  }
  return r;
}

static void range_close(range* r) {
  rocksdb_readoptions_destroy(r->ro);
  free(r->lower);
  free(r->upper);
  free(r);
}

static fb_scan* scan_of(range* r, rocksdb_iterator_t* it, int reverse) {
  fb_scan* s = calloc(1, sizeof *s);
  s->range = r;
  s->it = it;
  s->reverse = reverse;
  r->users++;
  int off = fb_counters_off();
  if (reverse) {
    rocksdb_iter_seek_to_last(it);
  } else if (r->lower) {
    rocksdb_iter_seek(it, r->lower, r->llen);
  } else {
    rocksdb_iter_seek_to_first(it);
  }
  fb_counters_on(off);
  return s;
}

fb_scan* fb_scan_open(rocksdb_t* db, rocksdb_column_family_handle_t* cf,
                      const rocksdb_snapshot_t* snapshot, const char* lower,
                      size_t llen, const char* upper, size_t ulen, int reverse,
                      int fill) {
  range* r = range_open(lower, llen, upper, ulen, fill);
  if (snapshot) rocksdb_readoptions_set_snapshot(r->ro, snapshot);
  return scan_of(r, rocksdb_create_iterator_cf(db, r->ro, cf), reverse);
}

void fb_scan_open_pair(rocksdb_t* db, rocksdb_column_family_handle_t* first,
                       rocksdb_column_family_handle_t* second,
                       const char* lower, size_t llen, const char* upper,
                       size_t ulen, int reverse, int fill, fb_scan** scans,
                       char** err) {
  range* r = range_open(lower, llen, upper, ulen, fill);
  rocksdb_column_family_handle_t* cfs[2] = {first, second};
  rocksdb_iterator_t* its[2] = {NULL, NULL};
  rocksdb_create_iterators(db, r->ro, cfs, its, 2, err);
  if (*err) {
    range_close(r);
    return;
  }
  scans[0] = scan_of(r, its[0], reverse);
  scans[1] = scan_of(r, its[1], reverse);
}

static fb_fill_result fill(fb_scan* s, char* buf, size_t cap, size_t max) {
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

fb_fill_result fb_scan_fill(fb_scan* s, char* buf, size_t cap, size_t max) {
  int off = fb_counters_off();
  fb_fill_result r = fill(s, buf, cap, max);
  fb_counters_on(off);
  return r;
}

void fb_scan_close(fb_scan* s) {
  rocksdb_iter_destroy(s->it);
  if (__atomic_sub_fetch(&s->range->users, 1, __ATOMIC_ACQ_REL) == 0) {
    range_close(s->range);
  }
  free(s);
}

void fb_table_add(rocksdb_sstfilewriter_t* w, const char* buf,
                  const fb_place* places, size_t n, char** err) {
  enum { ahead = 8 };
  int off = fb_counters_off();
  for (size_t i = 0; i < n && !*err; i++) {
    if (i + ahead < n) {
      const char* next = buf + places[i + ahead].at;
      for (int line = 0; line < 4; line++) __builtin_prefetch(next + 64 * line);
    }
    const char* p = buf + places[i].at;
    uint32_t lens[2];
    memcpy(lens, p, sizeof lens);
    const char* key = p + sizeof lens;
    if (lens[1] == UINT32_MAX) {
      rocksdb_sstfilewriter_delete(w, key, lens[0], err);
    } else {
      rocksdb_sstfilewriter_put(w, key, lens[0], key + lens[0], lens[1], err);
    }
  }
  fb_counters_on(off);
}
