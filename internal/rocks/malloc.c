// How many heaps the C library may make for its threads.
//
// glibc has up to eight "arenas" for each processor and gives every thread one. The Go runtime
// moves goroutines from thread to thread, so a block that one read puts into the block cache
// is freed by another thread into another arena: memory lies about in all of them, which on
// two processors made a random read a quarter slower and the process almost twice as large.
#include <stdlib.h>

#ifdef __GLIBC__
#include <malloc.h>
#include <string.h>
#include <unistd.h>

// glibc fixes the number when the second thread asks for memory, which is before any Go
// code runs.
__attribute__((constructor)) static void limit_arenas(void) {
  const char* tunables = getenv("GLIBC_TUNABLES");
  if (getenv("MALLOC_ARENA_MAX") || (tunables && strstr(tunables, "arena_max"))) return;
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  mallopt(M_ARENA_MAX, processors < 8 ? 1 : (int)(processors / 4));
}
#endif
