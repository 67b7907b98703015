#pragma once

#include <malloc.h>

#include <cstdint>
#include <fstream>
#include <string>

namespace topomask::testing {

/// A number of /proc/self/status, in bytes; 0 where it is not there.
inline int64_t process_memory(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name + ":")) return std::stoll(line.substr(name.size() + 1)) * 1024;
  }
  return 0;
}

/// By how much the resident memory of the process rose at most while f ran; −1 where the system does not say, and under
/// the address sanitizer, which keeps freed memory, and the thread sanitizer, which keeps notes of all memory.
template <class F>
int64_t peak_growth(const F& f) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  f();
  return -1;
#endif
  ::malloc_trim(0);
  {
    std::ofstream reset("/proc/self/clear_refs");
    if (!(reset << "5" << std::flush)) return -1;  // forgets the peak so far
  }
  const int64_t before = process_memory("VmRSS");
  f();
  const int64_t peak = process_memory("VmHWM");
  return peak > 0 ? peak - before : -1;
}

}  // namespace topomask::testing
