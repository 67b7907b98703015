#include "graph/io/symmetric_pairs.h"

#include <algorithm>
#include <numeric>

namespace topomask::io {

void SymmetricPairs::add(int64_t row, int64_t column, int64_t line) {
  const std::pair<int64_t, int64_t> pair = std::minmax(row, column);
  by_lower_ &= last_ < pair;
  by_higher_ &= std::pair(last_.second, last_.first) < std::pair(pair.second, pair.first);
  last_ = pair;
  if (line != last_line_ + 1 || starts_.empty()) starts_.emplace_back(entries_, line);
  last_line_ = line;
  ++entries_;
}

int64_t SymmetricPairs::line_of(int64_t entry) const {
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), entry,
                                      [](int64_t e, const auto& start) { return e < start.first; });
  const auto& [first, line] = *(after - 1);
  return line + (entry - first);
}

void SymmetricPairs::check_values(const Origin& origin, const EdgeList& edges, Duplicates duplicates) const {
  if (by_lower_ || by_higher_ || edges.weights.empty()) return;
  const auto key = [&](int64_t e) { return std::minmax({edges.source[e], edges.target[e]}); };
  std::vector<int64_t> order(edges.source.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::sort(order.begin(), order.end(),
            [&](int64_t a, int64_t b) { return std::pair(key(a), a) < std::pair(key(b), b); });
  for (size_t i = 1, first = 0; i < order.size(); ++i) {
    const int64_t e = order[i], before = order[first];
    if (key(e) != key(before)) {
      first = i;
      continue;
    }
    const bool same_triangle = edges.source[e] == edges.source[before];
    if (edges.weights[e] == edges.weights[before] || (same_triangle && duplicates == Duplicates::sum)) continue;
    fail({origin.op, c10::str(origin.path, ":", line_of(e))}, "the value of (", edges.source[e] + 1, ", ",
         edges.target[e] + 1, ") is ", edges.weights[e], ", but ", edges.weights[before], " for (",
         edges.source[before] + 1, ", ", edges.target[before] + 1, ") on line ", line_of(before),
         "; a symmetric file has one value for a pair");
  }
}

}  // namespace topomask::io
