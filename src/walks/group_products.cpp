#include "walks/group_products.h"

#include <algorithm>
#include <bit>

namespace topomask {
namespace {

uint32_t slot_of(uint32_t key, size_t slots) {
  return (key * 0x9E3779B1u) >> (32 - std::countr_zero(slots));
}

}  // namespace

template <class T>
void GroupProducts<T>::sort_visits() {
  // By group, in the order of arrival; then by column and hop inside a group, which is mostly a handful of visits.
  uint32_t groups = 0;
  for (const Visit& visit : visits_) groups = std::max(groups, visit.group + 1);
  ends_.assign(groups + 1, 0);
  for (const Visit& visit : visits_) ++ends_[visit.group + 1];
  for (uint32_t k = 0; k < groups; ++k) ends_[k + 1] += ends_[k];
  sorted_.resize(visits_.size());
  for (const Visit& visit : visits_) sorted_[ends_[visit.group]++] = visit;
  visits_.swap(sorted_);
  const auto before = [](const Visit& a, const Visit& b) {
    return a.column != b.column ? a.column < b.column : a.hop < b.hop;
  };
  constexpr size_t kFew = 24;
  for (size_t k = 0, begin = 0; k < groups; begin = ends_[k++]) {
    if (ends_[k] - begin > kFew) {
      std::stable_sort(visits_.begin() + begin, visits_.begin() + ends_[k], before);
      continue;
    }
    for (size_t v = begin + 1; v < ends_[k]; ++v) {
      const Visit visit = visits_[v];
      size_t to = v;
      for (; to > begin && before(visit, visits_[to - 1]); --to) visits_[to] = visits_[to - 1];
      visits_[to] = visit;
    }
  }
}

template <class T>
void GroupProducts<T>::grow() {
  table_.assign(2 * table_.size(), 0);
  for (size_t i = 0; i < keys_.size(); ++i) {
    size_t slot = slot_of(keys_[i], table_.size());
    while (table_[slot] != 0) slot = (slot + 1) % table_.size();
    table_[slot] = (uint64_t{keys_[i]} + 1) | uint64_t{i} << 33;
  }
}

template <class T>
void GroupProducts<T>::add_product(uint32_t t, uint32_t u, T value) {
  if (2 * keys_.size() >= table_.size()) grow();
  const uint32_t key = t << 16 | u;
  const uint64_t wanted = uint64_t{key} + 1;
  size_t slot = slot_of(key, table_.size());
  constexpr uint64_t kKeyBits = (uint64_t{1} << 33) - 1;
  while (table_[slot] != 0 && (table_[slot] & kKeyBits) != wanted) slot = (slot + 1) & (table_.size() - 1);
  if (table_[slot] == 0) {
    table_[slot] = wanted | uint64_t{keys_.size()} << 33;
    keys_.push_back(key);
    sums_.push_back(value);
  } else {
    sums_[table_[slot] >> 33] += value;
  }
}

template <class T>
int64_t GroupProducts<T>::finish_row() {
  sort_visits();
  // Walkers of one group that meet count as one, with the sum of their loads.
  size_t merged = 0;
  for (size_t v = 0; v < visits_.size(); ++v) {
    Visit& last = visits_[merged - (merged > 0)];
    const Visit& next = visits_[v];
    if (merged > 0 && last.group == next.group && last.column == next.column && last.hop == next.hop) {
      last.load += next.load;
    } else {
      visits_[merged++] = next;
    }
  }
  for (size_t a = 0; a < merged; ++a) {
    const Visit& first = visits_[a];
    for (size_t b = a; b < merged && visits_[b].group == first.group && visits_[b].column == first.column; ++b) {
      add_product(first.hop, visits_[b].hop, first.load * visits_[b].load);
    }
  }
  order_.clear();
  for (size_t i = 0; i < keys_.size(); ++i) order_.push_back(uint64_t{keys_[i]} << 32 | i);
  std::sort(order_.begin(), order_.end());
  for (const uint64_t item : order_) {
    hops_.push_back(static_cast<int16_t>(item >> 48));
    hops_.push_back(static_cast<int16_t>(item >> 32 & 0xffff));
    values_.push_back(sums_[static_cast<uint32_t>(item)]);
  }
  const auto count = static_cast<int64_t>(keys_.size());
  std::fill(table_.begin(), table_.end(), 0);
  keys_.clear();
  sums_.clear();
  visits_.clear();
  return count;
}

template <class T>
void GroupProducts<T>::reopen_row(int64_t count) {
  const size_t begin = values_.size() - static_cast<size_t>(count);
  for (size_t p = begin; p < values_.size(); ++p) {
    add_product(static_cast<uint32_t>(hops_[2 * p]), static_cast<uint32_t>(hops_[2 * p + 1]), values_[p]);
  }
  hops_.resize(2 * begin);
  values_.resize(begin);
}

template <class T>
void GroupProducts<T>::clear() {
  hops_.clear();
  values_.clear();
}

template class GroupProducts<float>;
template class GroupProducts<double>;

}  // namespace topomask
