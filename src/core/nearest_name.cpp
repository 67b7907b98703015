#include "core/nearest_name.h"

#include <algorithm>
#include <numeric>

namespace topomask {
namespace {

/// Edits between two words, a swap of neighbours counted as one (optimal string alignment); `enough` or more where
/// there are that many. Words whose lengths differ by so much are not compared: a key of megabytes costs nothing.
size_t edits(std::string_view a, std::string_view b, size_t enough) {
  const size_t least = a.size() < b.size() ? b.size() - a.size() : a.size() - b.size();
  if (least >= enough) return least;
  std::vector<size_t> before(b.size() + 1), row(b.size() + 1), next(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = row[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      next[j] = std::min({replaced, row[j] + 1, next[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) next[j] = std::min(next[j], before[j - 2] + 1);
    }
    std::swap(before, row);
    std::swap(row, next);
  }
  return row.back();
}

std::string_view last_part(std::string_view key) {
  return key.substr(key.rfind('.') + 1);
}

}  // namespace

std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& known) {
  const std::string* best = nullptr;
  // Up to half of the characters may be wrong; a name that differs more is no help.
  size_t fewest = std::max<size_t>(1, last_part(name).size() / 2) + 1;
  for (const std::string& candidate : known) {
    const size_t distance =
        std::min(edits(name, candidate, fewest), edits(last_part(name), last_part(candidate), fewest) + 1);
    if (distance < fewest) {
      fewest = distance;
      best = &candidate;
    }
  }
  return best != nullptr ? std::optional(*best) : std::nullopt;
}

}  // namespace topomask
