#include <numeric>

#include "topomask/config.h"

namespace topomask {
namespace {

/// Levenshtein distance, row by row.
size_t edits(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::string last_part(const std::string& key) {
  return key.substr(key.rfind('.') + 1);
}

}  // namespace

std::string nearest_name(const std::string& name, const std::vector<std::string>& known) {
  std::string best;
  size_t fewest = std::string::npos;
  for (const std::string& candidate : known) {
    // A key in the wrong section (train.width) is near too.
    const size_t distance =
        std::min(edits(name, candidate),
                 last_part(name) == last_part(candidate) ? 1 : edits(last_part(name), last_part(candidate)) + 1);
    if (distance < fewest) {
      fewest = distance;
      best = candidate;
    }
  }
  // Names that share nothing are no help.
  return fewest <= std::max<size_t>(3, last_part(name).size() / 2) ? best : "";
}

}  // namespace topomask
