#include "masks/walking/visits.h"

namespace topomask {

VisitBatches::VisitBatches(const WalkPlan& plan, int64_t nodes, int64_t all_walkers) {
  constexpr double kVisitsAtOnce = 1 << 21;
  constexpr int64_t kMostRows = 128, kMostParts = 64;
  double per_walker = 1, alive = 1;
  for (const double survival : plan.survival) per_walker += alive *= survival;
  const int64_t together = plan.repelling ? plan.group : 1;
  const auto fit = [&](int64_t of_each) {
    return static_cast<int64_t>(kVisitsAtOnce / (per_walker * static_cast<double>(of_each)));
  };
  rows = std::clamp<int64_t>(fit(together), 1, std::clamp<int64_t>(nodes, 1, kMostRows));
  parts = std::clamp<int64_t>(fit(together * rows), 1, std::clamp<int64_t>(nodes / rows, 1, kMostParts));
  walkers = std::min(all_walkers, std::max<int64_t>(1, fit(together * rows * parts)) * together);
}

template <class T>
void Visits<T>::take(WalkBatch<T>& batch, int64_t walkers) {
  // All walkers of a row begin on it: one visit with their loads together.
  const int64_t rows = batch.count(0) / walkers, count = rows + batch.visits() - batch.count(0);
  start.resize(count);
  node.resize(count);
  hop.resize(count);
  load.resize(count);
  for (int64_t r = 0; r < rows; ++r) {
    start[r] = node[r] = batch.at(0).start[r * walkers];
    hop[r] = 0;
    load[r] = static_cast<T>(walkers);
  }
  for (int64_t t = 1, place = rows; t < batch.hops(); ++t) {
    const Walkers<T> at = batch.at(t);
    const int64_t here = batch.count(t);
    std::copy_n(at.start, here, start.begin() + place);
    std::copy_n(at.position, here, node.begin() + place);
    std::copy_n(at.load, here, load.begin() + place);
    std::fill_n(hop.begin() + place, here, static_cast<int16_t>(t));
    place += here;
  }
  for (int which = 0; which < 2; ++which) {
    weight[which].resize(count);
    dots[which].resize(count);
  }
}

template struct Visits<float>;
template struct Visits<double>;

}  // namespace topomask
