#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>

#include "core/simd.h"
#include "masks/forest/structure/decomposition.h"

namespace topomask {

/// Some columns of one slice of a tensor [slices, N, C].
struct ColumnPart {
  int64_t slice;
  int64_t first;
  int64_t width;
  /// Scalars of a row in a buffer: whole vectors at every level of the processor.
  int64_t pitch() const { return (width + kWidthUnit - 1) / kWidthUnit * kWidthUnit; }
};

/// Slices and their columns, at most `width` at a time.
class ColumnParts {
 public:
  ColumnParts(int64_t slices, int64_t columns, int64_t width) : slices_(slices), columns_(columns), width_(width) {}
  int64_t count() const { return slices_ * per_slice(); }
  ColumnPart operator[](int64_t i) const {
    const int64_t first = i % per_slice() * width_;
    return {i / per_slice(), first, std::min(width_, columns_ - first)};
  }

 private:
  int64_t per_slice() const { return (columns_ + width_ - 1) / width_; }
  int64_t slices_, columns_, width_;
};

/// Calls f(part, begin, end) for every part and component, in parallel where components do not meet: a component
/// changes rows that those inside it, and around it, change too.
template <class F>
void for_components(const Schedule& schedule, const ColumnParts& parts, const F& f) {
  constexpr int64_t kTaskWork = 32768;  // below, a thread costs more than it brings
  if (parts.count() == 0) return;
  for (const auto& tasks : schedule.steps) {
    const auto count = static_cast<int64_t>(tasks.size());
    int64_t nodes = 0;
    for (const Schedule::Task& task : tasks) nodes += task.nodes;
    const int64_t work = nodes * parts[0].width / std::max<int64_t>(1, count);
    const int64_t grain = std::max<int64_t>(1, kTaskWork / std::max<int64_t>(1, work));
    at::parallel_for(0, parts.count() * count, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) f(parts[i / count], tasks[i % count].begin, tasks[i % count].end);
    });
  }
}

}  // namespace topomask
