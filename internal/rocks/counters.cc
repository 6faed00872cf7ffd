// Without the C API's header: CGO_CXXFLAGS need not know where it is.
extern "C" void rocksdb_set_perf_level(int);

// The C API sets the level and does not tell it. The weak symbol is absent in libraries
// that keep their C++ symbols to themselves; their counters are left on.
namespace rocksdb {
enum PerfLevel : unsigned char;
__attribute__((weak)) PerfLevel GetPerfLevel();
}  // namespace rocksdb

constexpr int kDisable = 1, kEnableCount = 2;

extern "C" int fb_counters_off(void) {
  if (&rocksdb::GetPerfLevel == nullptr ||
      rocksdb::GetPerfLevel() != kEnableCount) {
    return 0;
  }
  rocksdb_set_perf_level(kDisable);
  return 1;
}

extern "C" void fb_counters_on(int off) {
  if (off) rocksdb_set_perf_level(kEnableCount);
}
