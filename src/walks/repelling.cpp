#include "walks/repelling.h"

#include <algorithm>
#include <numeric>

#include "core/walk_step.h"

namespace topomask {

RepellingHop::RepellingHop(const WalkPlan& plan, const WalkSteps& steps) : key_(plan.key), ensemble_(plan.group) {
  const int64_t* offsets = steps.offsets.const_data_ptr<int64_t>();
  int64_t most = 0;
  for (int64_t i = 0; i + 1 < steps.offsets.size(0); ++i) most = std::max(most, offsets[i + 1] - offsets[i]);
  neighbour_.resize(static_cast<size_t>(most));
  swapped_.resize(static_cast<size_t>(most));
  std::iota(neighbour_.begin(), neighbour_.end(), 0u);
}

void RepellingHop::leave(int64_t row, int64_t degree, uint32_t start, int64_t hop, int64_t begin, int64_t end) {
  for (int64_t block = begin; block < end; block += degree) {
    const int64_t members = std::min(degree, end - block);
    PhiloxWords words{};
    for (int64_t j = 0; j < members; ++j) {
      const auto draw = static_cast<uint32_t>(j);
      if (draw % 4 == 0) {
        words = repelling_words(start, by_node_[block].number, static_cast<uint32_t>(hop), draw, key_);
      }
      swapped_[j] = draw + random_below(repelling_word(words, draw), static_cast<uint32_t>(degree - j));
      std::swap(neighbour_[j], neighbour_[swapped_[j]]);
      entry_[by_node_[block + j].place] = row + neighbour_[j];
    }
    // Back to 0, 1, …: the cost of a block is its members, whatever the degree.
    for (int64_t j = members; j-- > 0;) std::swap(neighbour_[j], neighbour_[swapped_[j]]);
  }
}

template <class T>
int64_t RepellingHop::operator()(const WalkHopArgs<T>& args, int64_t hop, int64_t first) {
  const Walkers<T> from = args.from, to = args.to;
  entry_.resize(std::max(entry_.size(), static_cast<size_t>(args.count)));
  const auto same_ensemble = [&](uint32_t a, uint32_t b) {
    return from.start[a] == from.start[b] &&
           (from.number[a] - first) / ensemble_ == (from.number[b] - first) / ensemble_;
  };
  for (int64_t begin = 0, end = 0; begin < args.count; begin = end) {
    by_node_.clear();
    for (; end < args.count && same_ensemble(args.survivor[begin], args.survivor[end]); ++end) {
      const uint32_t j = args.survivor[end];
      by_node_.push_back({from.position[j], from.number[j], end});
    }
    std::sort(by_node_.begin(), by_node_.end(), [](const Walker& a, const Walker& b) {
      return a.node != b.node ? a.node < b.node : a.number < b.number;
    });
    const auto size = static_cast<int64_t>(by_node_.size());
    for (int64_t here = 0, next = 0; here < size; here = next) {
      const uint32_t node = by_node_[here].node;
      while (next < size && by_node_[next].node == node) ++next;
      const int64_t row = args.offsets[node], degree = args.offsets[node + 1] - row;
      if (degree > 0) {
        leave(row, degree, from.start[args.survivor[begin]], hop, here, next);
      } else {
        for (int64_t k = here; k < next; ++k) entry_[by_node_[k].place] = -1;
      }
    }
  }
  int64_t arrived = 0;
  for (int64_t k = 0; k < args.count; ++k) {
    if (entry_[k] < 0) continue;
    const uint32_t j = args.survivor[k], node = from.position[j];
    const auto degree = static_cast<uint32_t>(args.offsets[node + 1] - args.offsets[node]);
    to.start[arrived] = from.start[j];
    to.number[arrived] = from.number[j];
    to.position[arrived] = static_cast<uint32_t>(args.columns[entry_[k]]);
    to.load[arrived] = step_load(from.load[j], args.factors[entry_[k]], args.scale, degree, true);
    args.to_origin[arrived] = args.origin[j];
    ++arrived;
  }
  return arrived;
}

template int64_t RepellingHop::operator()(const WalkHopArgs<float>&, int64_t, int64_t);
template int64_t RepellingHop::operator()(const WalkHopArgs<double>&, int64_t, int64_t);

}  // namespace topomask
