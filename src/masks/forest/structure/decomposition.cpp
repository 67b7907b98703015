#include "masks/forest/structure/decomposition.h"

#include <ATen/Parallel.h>

#include <algorithm>

namespace topomask {
namespace {

/// Below, all pairs cost less than three more levels of centroids.
constexpr int64_t kBlockNodes = 8;

/// Divides one component after the other. A component is a range of `list_`, which holds its places in preorder:
/// parents before children, and every subtree in one piece.
class Divider {
 public:
  Divider(const RootedOrder& rooted, const double* weights) : rooted_(rooted) {
    const auto nodes = rooted.preorder.size();
    list_.resize(nodes);
    size_.resize(nodes);
    distance_.resize(nodes);
    length_.resize(nodes);
    for (size_t p = 0; p < nodes; ++p) {
      list_[p] = static_cast<int32_t>(p);
      length_[p] = rooted.preorder_parent[p] < 0 ? 0.0 : weights[rooted.preorder[p]];
    }
  }

  Decomposition run() {
    for (size_t root = 0; root < list_.size(); root += rooted_.subtree[root]) {
      divide_all(static_cast<int32_t>(root), rooted_.subtree[root]);
    }
    by_position();
    return std::move(result_);
  }

 private:
  struct Range {
    int32_t first;
    int32_t size;
    int32_t level;
    int32_t component = -1;  // set: all inside that component is done
  };

  void divide_all(int32_t first, int32_t size) {
    std::vector<Range> stack{{first, size, 0}};
    while (!stack.empty()) {
      const Range range = stack.back();
      stack.pop_back();
      if (range.component >= 0) {
        result_.components[range.component].end = static_cast<int32_t>(result_.components.size());
      } else if (range.size <= kBlockNodes) {
        add_block(range.first, range.size);
      } else {
        add_component(range, stack);
      }
    }
  }

  void add_component(const Range& range, std::vector<Range>& stack) {
    const auto index = static_cast<int32_t>(result_.components.size());
    Component component{.first = range.first,
                        .size = range.size,
                        .level = range.level,
                        .end = 0,
                        .entry = static_cast<int64_t>(places_.size()),
                        .groups_begin = static_cast<int64_t>(result_.groups.size()),
                        .groups = 0};
    const int32_t centroid = find_centroid(range);
    measure(range, centroid);

    stack.push_back({0, 0, 0, index});
    const auto first_range = stack.size();
    bring_forward(range, centroid);
    add_block(range.first, 1);
    result_.groups.push_back(range.first);
    // The subtrees below the centroid, then what is above it.
    const int32_t below = range.first + size_[list_[range.first]], end = range.first + range.size;
    for (int32_t at = range.first + 1; at < end;) {
      const int32_t size = at < below ? size_[list_[at]] : end - at;
      result_.groups.push_back(at);
      stack.push_back({at, size, range.level + 1});
      at += size;
    }
    component.groups = static_cast<int32_t>(static_cast<int64_t>(result_.groups.size()) - component.groups_begin);
    result_.groups.push_back(end);
    result_.components.push_back(component);
    std::reverse(stack.begin() + static_cast<int64_t>(first_range), stack.end());
  }

  /// Where in list_ the deepest node stands whose subtree holds half of the component.
  int32_t find_centroid(const Range& range) {
    const int32_t end = range.first + range.size;
    for (int32_t i = range.first; i < end; ++i) size_[list_[i]] = 1;
    int32_t centroid = -1;
    for (int32_t i = end; i-- > range.first;) {
      const int32_t place = list_[i];
      if (centroid < 0 && 2 * static_cast<int64_t>(size_[place]) >= range.size) centroid = i;
      if (i > range.first) size_[rooted_.preorder_parent[place]] += size_[place];
    }
    return centroid;
  }

  /// Distances from the centroid: up to the top first, then from parents to children.
  void measure(const Range& range, int32_t centroid) {
    constexpr double kUnknown = -1;
    const int32_t end = range.first + range.size;
    for (int32_t i = range.first; i < end; ++i) distance_[list_[i]] = kUnknown;
    const int32_t top = list_[range.first];
    distance_[list_[centroid]] = 0;
    for (int32_t place = list_[centroid]; place != top;) {
      const int32_t parent = rooted_.preorder_parent[place];
      distance_[parent] = distance_[place] + length_[place];
      place = parent;
    }
    for (int32_t i = range.first; i < end; ++i) {
      const int32_t place = list_[i];
      if (distance_[place] == kUnknown) {
        distance_[place] = distance_[rooted_.preorder_parent[place]] + length_[place];
      }
      places_.push_back(place);
      result_.depth.push_back(distance_[place]);
    }
  }

  /// Moves the subtree of the centroid to the front of the range and the rest after it, each in its order.
  void bring_forward(const Range& range, int32_t centroid) {
    const auto begin = list_.begin() + range.first, at = list_.begin() + centroid;
    std::rotate(begin, at, at + size_[*at]);
  }

  void add_block(int32_t first, int32_t size) {
    const auto entry = static_cast<int64_t>(result_.near.size());
    result_.blocks.push_back({first, size, entry});
    result_.near.resize(entry + int64_t{size} * size, 0.0);
    double* near = result_.near.data() + entry;
    for (int32_t i = 1; i < size; ++i) {
      const int32_t place = list_[first + i];
      const auto begin = list_.begin() + first;
      const auto parent = std::find(begin, begin + i, rooted_.preorder_parent[place]) - begin;
      for (int32_t j = 0; j < i; ++j)
        near[i * size + j] = near[j * size + i] = near[parent * size + j] + length_[place];
    }
  }

  /// From the order in which a component was measured to positions, which later divisions moved.
  void by_position() {
    std::vector<int32_t> position(list_.size());
    result_.order.resize(list_.size());
    for (size_t i = 0; i < list_.size(); ++i) {
      position[list_[i]] = static_cast<int32_t>(i);
      result_.order[i] = rooted_.preorder[list_[i]];
    }
    at::parallel_for(0, static_cast<int64_t>(result_.components.size()), 256, [&](int64_t begin, int64_t end) {
      std::vector<double> measured;
      for (int64_t k = begin; k < end; ++k) {
        const Component& c = result_.components[k];
        double* depth = result_.depth.data() + c.entry;
        measured.assign(depth, depth + c.size);
        for (int32_t i = 0; i < c.size; ++i) depth[position[places_[c.entry + i]] - c.first] = measured[i];
      }
    });
  }

  const RootedOrder& rooted_;
  std::vector<int32_t> list_;
  std::vector<int32_t> size_;  // subtrees inside the component, by place
  std::vector<double> distance_;
  std::vector<double> length_;
  std::vector<int32_t> places_;  // parallel to result_.depth
  Decomposition result_;
};

}  // namespace

Decomposition decompose(const RootedOrder& rooted, const double* weights) {
  return Divider(rooted, weights).run();
}

Schedule make_schedule(const Decomposition& decomposition, int64_t largest, const std::vector<bool>& forced) {
  const auto& components = decomposition.components;
  const auto count = static_cast<int32_t>(components.size());
  // A component that holds a forced one is scheduled before it.
  std::vector<bool> large(count);
  for (int32_t i = 0; i < count; ++i) large[i] = components[i].size > largest || (!forced.empty() && forced[i]);
  std::vector<int32_t> open;
  for (int32_t i = 0; i < count; ++i) {
    while (!open.empty() && components[open.back()].end <= i) open.pop_back();
    for (auto outer = open.rbegin(); large[i] && outer != open.rend() && !large[*outer]; ++outer) large[*outer] = true;
    open.push_back(i);
  }

  Schedule schedule;
  std::vector<Schedule::Task> tasks;
  for (int32_t i = 0; i < count;) {
    const Component& c = components[i];
    if (large[i]) {
      if (static_cast<int32_t>(schedule.steps.size()) <= c.level) schedule.steps.resize(c.level + 1);
      schedule.steps[c.level].push_back({i, i + 1, c.size});
      ++i;
      continue;
    }
    if (tasks.empty() || tasks.back().end != i || tasks.back().nodes + c.size > largest) tasks.push_back({i, i, 0});
    tasks.back().nodes += c.size;
    tasks.back().end = i = c.end;
  }
  schedule.steps.push_back(std::move(tasks));
  return schedule;
}

}  // namespace topomask
