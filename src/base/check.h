#pragma once
// CHECK(condition): always on. What it names cannot happen; if it does, the process ends with a
// core dump rather than going on with a state that nobody has thought about.

#include <cstdio>
#include <cstdlib>

namespace waybill {

[[noreturn]] inline void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: cannot happen, but did: %s\n", file, line, condition);
  std::abort();
}

}  // namespace waybill

#define CHECK(condition)                                                       \
  do {                                                                         \
    if (!(condition)) ::waybill::check_failed(#condition, __FILE__, __LINE__); \
  } while (false)
