#pragma once

#include <c10/util/Exception.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "topomask/graph.h"

// What fuzzers share. A reader may return or throw a c10::Error that names its file; anything else is a finding.

namespace topomask::fuzz {

using Target = void (*)(const uint8_t* data, size_t size);

/// Adds a target to the program, which runs the one that it is called by (support/main.cpp).
struct Registration {
  Registration(const char* name, Target target);
};

/// Ends the program where a promise is broken, so that libFuzzer keeps the input.
inline void require(bool promise, const char* what) {
  if (promise) return;
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

/// A file in memory with a path, written again for each input.
class MemoryFile {
 public:
  explicit MemoryFile(const char* name) : descriptor_(::memfd_create(name, 0)) {
    require(descriptor_ >= 0, "memfd_create failed");
    path_ = "/proc/self/fd/" + std::to_string(descriptor_);
  }

  const std::string& put(std::string_view bytes) {
    require(::pwrite(descriptor_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()) &&
                ::ftruncate(descriptor_, static_cast<off_t>(bytes.size())) == 0,
            "a file in memory cannot be written");
    return path_;
  }

 private:
  int descriptor_;
  std::string path_;
};

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Runs a reader; its error must contain `name`, the path or the operation that it is to be found by.
template <class Read>
void run(const std::string& name, const Read& read) {
  try {
    read();
  } catch (const c10::Error& error) {
    require(std::string_view(error.what_without_backtrace()).find(name) != std::string_view::npos,
            "an error does not name what was read");
  }
}

/// Arrays of a graph that was read, which all code after a reader relies on.
inline void check_graph(const Graph& graph) {
  const int64_t nodes = graph.num_nodes();
  const int64_t* offset = graph.offsets().const_data_ptr<int64_t>();
  const int32_t* column = graph.columns().const_data_ptr<int32_t>();
  require(offset[0] == 0 && offset[nodes] == graph.columns().size(0), "offsets do not span the columns");
  for (int64_t i = 0; i < nodes; ++i) {
    require(offset[i] <= offset[i + 1], "offsets decrease");
    for (int64_t e = offset[i]; e < offset[i + 1]; ++e) {
      require(column[e] >= 0 && column[e] < nodes, "a column is out of range");
      require(e == offset[i] || column[e - 1] < column[e], "columns do not ascend");
    }
  }
}

}  // namespace topomask::fuzz

/// What is done with an input, `data` and `size`: FUZZ_TARGET(npz) { … }. The name is that of the file.
#define FUZZ_TARGET(name)                                                     \
  static void fuzz_##name(const uint8_t* data, size_t size);                  \
  static const topomask::fuzz::Registration kFuzz_##name(#name, fuzz_##name); \
  static void fuzz_##name(const uint8_t* data, size_t size)
