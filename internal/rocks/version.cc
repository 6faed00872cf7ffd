#include <string.h>

#include <string>

// The C API does not tell the version. The weak symbol is absent in libraries too old
// to have the function, which is then an answer as well.
namespace rocksdb {
__attribute__((weak)) std::string GetRocksVersionAsString(bool with_patch);
}

extern "C" void fb_version(char* buf, size_t cap) {
  buf[0] = 0;
  if (&rocksdb::GetRocksVersionAsString == nullptr) return;
  strncpy(buf, rocksdb::GetRocksVersionAsString(true).c_str(), cap - 1);
  buf[cap - 1] = 0;
}
