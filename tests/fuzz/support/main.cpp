#include <c10/util/Logging.h>

#include <filesystem>
#include <map>

#include "fuzz/harness.h"

// One program for all targets, which is built in a third of the time that one for each takes. The name that it is
// called by, a link to it, is that of the target.

namespace topomask::fuzz {
namespace {

std::map<std::string, Target>& targets() {
  static std::map<std::string, Target> map;
  return map;
}

Target chosen = nullptr;

}  // namespace

Registration::Registration(const char* name, Target target) {
  require(targets().emplace(name, target).second, "two targets of one name");
}

}  // namespace topomask::fuzz

extern "C" int LLVMFuzzerInitialize(int*, char*** arguments) {
  using namespace topomask::fuzz;
  const std::string name = std::filesystem::path(**arguments).filename().string();
  const auto found = targets().find(name);
  if (found == targets().end()) {
    std::fprintf(stderr, "%s: no target of this name; call the program by a link to it:", name.c_str());
    for (const auto& [known, target] : targets()) std::fprintf(stderr, " %s", known.c_str());
    std::fprintf(stderr, "\n");
    std::exit(2);
  }
  chosen = found->second;
  // The stack of an error is not looked at, and walking it takes longer than a reader does.
  c10::SetStackTraceFetcher([] { return std::string(); });
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  topomask::fuzz::chosen(data, size);
  return 0;
}

/// A small quarantine: the memory of a run should be the reader's.
extern "C" const char* __asan_default_options() {
  return "quarantine_size_mb=4:malloc_context_size=6:allocator_release_to_os_interval_ms=500";
}
