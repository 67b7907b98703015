#include "walks/batch.h"

#include <numeric>

namespace topomask {

template <class T>
void WalkBatch<T>::clear() {
  first_.assign(1, 0);
}

template <class T>
Walkers<T> WalkBatch<T>::next_hop(int64_t count) {
  const auto needed = static_cast<size_t>(visits() + count);
  if (start_.size() < needed) {
    const size_t size = std::max(needed, 2 * start_.size());
    start_.resize(size);
    number_.resize(size);
    position_.resize(size);
    load_.resize(size);
  }
  return walkers_at(visits());
}

template <class T>
void WalkBatch<T>::commit(int64_t count) {
  first_.push_back(visits() + count);
}

template <class T>
Walkers<T> WalkBatch<T>::walkers_at(int64_t place) {
  return {start_.data() + place, number_.data() + place, position_.data() + place, load_.data() + place};
}

template <class T>
WalkSampler<T>::WalkSampler(const WalkPlan& plan, const WalkSteps& steps) : plan_(plan), steps_(steps) {
  if (plan.repelling) repelling_hop_.emplace(plan, steps);
}

template <class T>
void WalkSampler<T>::reserve(int64_t walkers) {
  const auto size = static_cast<size_t>(walkers);
  if (survivor_.size() >= size) return;
  for (auto& words : words_) words.resize(size);
  for (auto& origin : origin_) origin.resize(size);
  survivor_.resize(size);
}

template <class T>
void WalkSampler<T>::sample(const uint32_t* starts, int64_t rows, int64_t first, int64_t last, WalkBatch<T>& batch) {
  const int64_t walkers = last - first;
  reserve(rows * walkers);
  batch.clear();
  const Walkers<T> begin = batch.next_hop(rows * walkers);
  for (int64_t r = 0, j = 0; r < rows; ++r) {
    for (int64_t w = 0; w < walkers; ++w, ++j) {
      begin.start[j] = begin.position[j] = starts[r];
      begin.number[j] = static_cast<uint32_t>(first + w);
      begin.load[j] = T(1);
    }
  }
  batch.commit(rows * walkers);

  const bool uniform = !steps_.threshold.defined();
  WalkHopArgs<T> args{
      .offsets = steps_.offsets.const_data_ptr<int64_t>(),
      .columns = steps_.columns.const_data_ptr<int32_t>(),
      .factors = steps_.factors.template const_data_ptr<T>(),
      .threshold =
          uniform ? nullptr : reinterpret_cast<const uint32_t*>(steps_.threshold.template const_data_ptr<int32_t>()),
      .alias = uniform ? nullptr : steps_.alias.template const_data_ptr<int32_t>()};
  for (int64_t hop = 0; hop < plan_.max_hops && batch.count(hop) > 0; ++hop) {
    const int64_t alive = batch.count(hop);
    args.to = batch.next_hop(alive);
    args.from = batch.at(hop);
    const int odd = hop % 2;
    if (!odd) {
      std::iota(origin_[0].begin(), origin_[0].begin() + alive, 0u);
      walk_words({args.from.start,
                  args.from.number,
                  static_cast<uint32_t>(hop / 2),
                  plan_.key,
                  plan_.antithetic,
                  {{words_[0].data(), words_[2].data()}, {words_[1].data(), words_[3].data()}}},
                 0, alive);
    }
    args.origin = origin_[odd].data();
    args.to_origin = origin_[!odd].data();
    args.direction = words_[2 * odd + 1].data();
    args.survivor = survivor_.data();
    args.count = walk_survivors(words_[2 * odd].data(), args.origin, alive, plan_.halt_below[hop], survivor_.data());
    args.scale = static_cast<T>(1 / plan_.survival[hop]);
    batch.commit(repelling_hop_ ? (*repelling_hop_)(args, hop, first) : walk_hop(args));
  }
}

template class WalkBatch<float>;
template class WalkBatch<double>;
template class WalkSampler<float>;
template class WalkSampler<double>;

}  // namespace topomask
