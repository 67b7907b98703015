#include <nlohmann/json.hpp>

#include <algorithm>

#include "data/graphs/readers.h"
#include "data/graphs/splits.h"
#include "io/input_file.h"

namespace topomask {
namespace {

using FoldJson = nlohmann::json;

std::string read_text(const io::Origin& origin) {
  constexpr size_t kLargest = size_t{1} << 26;
  io::ByteSource source(origin);
  std::string text;
  for (size_t done = 0;;) {
    text.resize(done + io::kReadBuffer);
    const size_t got = source.read(text.data() + done, io::kReadBuffer);
    done += got;
    if (done > kLargest) io::fail(origin, "a file of folds must be at most 64 MiB");
    if (got < io::kReadBuffer) {
      text.resize(done);
      return text;
    }
  }
}

FoldJson parse_folds(const io::Origin& origin, const std::string& text) {
  constexpr int kDeepest = 8;  // a value is destroyed by functions that call themselves for each level
  const auto check_depth = [&](int depth, FoldJson::parse_event_t, FoldJson&) {
    if (depth > kDeepest) io::fail(origin, "objects and lists must nest at most ", kDeepest, " deep");
    return true;
  };
  try {
    return FoldJson::parse(text, check_depth);
  } catch (const FoldJson::exception& error) {
    const std::string reason = error.what();  // "[json.exception.parse_error.101] parse error at line 1, column 2: …"
    io::fail(origin, "not JSON: ", reason.substr(reason.find("] ") + 2));
  }
}

const FoldJson& element(const io::Origin& origin, const FoldJson& list, const std::string& what, int64_t index,
                        const char* option) {
  if (!list.is_array()) io::fail(origin, what, " must be a list, got ", list.type_name());
  if (index >= static_cast<int64_t>(list.size())) {
    io::fail(origin, "data.", option, " must be below ", list.size(), ", the length of ", what, ", got ", index);
  }
  return list[static_cast<size_t>(index)];
}

const FoldJson& member(const io::Origin& origin, const FoldJson& object, const std::string& what, const char* key) {
  if (!object.is_object()) io::fail(origin, what, " must be an object, got ", object.type_name());
  const auto found = object.find(key);
  if (found == object.end()) io::fail(origin, what, " has no key \"", key, "\"");
  return *found;
}

/// The graphs of one list, none of which may have been in another.
std::vector<int64_t> read_part(const io::Origin& origin, const FoldJson& list, const std::string& what,
                               std::vector<bool>& seen) {
  if (!list.is_array()) io::fail(origin, what, " must be a list, got ", list.type_name());
  const auto graphs = static_cast<int64_t>(seen.size());
  std::vector<int64_t> part;
  for (const FoldJson& value : list) {
    if (!value.is_number_integer() || value < 0 || value >= graphs) {
      io::fail(origin, what, " must hold graphs from 0 to ", graphs - 1, ", got ",
               value.is_number() ? value.dump() : value.type_name());
    }
    const auto graph = value.get<int64_t>();
    if (seen[static_cast<size_t>(graph)]) io::fail(origin, what, ": graph ", graph, " is named twice in this fold");
    seen[static_cast<size_t>(graph)] = true;
    part.push_back(graph);
  }
  return part;
}

}  // namespace

GraphSplit read_folds(const std::string& path, int64_t graphs, int64_t fold, int64_t inner_split) {
  const io::Origin origin{kOpenGraphs, path};
  refuse_packed(origin);
  const FoldJson folds = parse_folds(origin, read_text(origin));
  const std::string name = c10::str("fold ", fold), inner_name = c10::str(name, ", model_selection ", inner_split);
  const FoldJson& chosen = element(origin, folds, "the file", fold, "fold");
  const FoldJson& inner = element(origin, member(origin, chosen, name, "model_selection"), name + ", model_selection",
                                  inner_split, "inner_split");
  std::vector<bool> seen(static_cast<size_t>(graphs));
  GraphSplit split;
  split.test = read_part(origin, member(origin, chosen, name, "test"), name + ", test", seen);
  split.train = read_part(origin, member(origin, inner, inner_name, "train"), inner_name + ", train", seen);
  split.validation =
      read_part(origin, member(origin, inner, inner_name, "validation"), inner_name + ", validation", seen);
  const auto missing = std::find(seen.begin(), seen.end(), false);
  if (missing != seen.end()) {
    io::fail(origin, name, ": graph ", missing - seen.begin(), " of ", graphs,
             " is in none of train, validation and test");
  }
  return split;
}

}  // namespace topomask
