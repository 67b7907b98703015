#include <map>

#include "data/graphs/readers.h"
#include "fuzz/graph_set.h"

namespace {

/// The input is several files: a line "[A]" starts what follows as NAME_A.txt.
std::map<std::string, std::string> files_in(std::string_view text) {
  std::map<std::string, std::string> files;
  std::string* file = nullptr;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, std::min(text.find('\n'), text.size() - 1) + 1);
    text.remove_prefix(line.size());
    if (line.size() > 2 && line.starts_with('[') && line.ends_with("]\n")) {
      file = &files[std::string(line.substr(1, line.size() - 3))];
    } else if (file) {
      *file += line;
    }
  }
  return files;
}

}  // namespace

FUZZ_TARGET(tu) {
  using namespace topomask;
  const auto files = files_in(fuzz::text_of(data, size));
  const TuParts parts = [&](const std::string& part) -> std::unique_ptr<io::LineReader> {
    const auto file = files.find(part);
    return file == files.end() ? nullptr : fuzz::lines_in("set_" + part, file->second);
  };
  fuzz::run("fuzz: set", [&] { fuzz::check_set(read_tu({"fuzz", "set"}, parts, {})); });
}
