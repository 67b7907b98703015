#include "walks/visit_products.h"

#include <ATen/ATen.h>

namespace topomask {
namespace {

using at::Tensor;

/// Hops are below 2¹⁶, columns and rows below 2³¹.
constexpr int64_t kHopBits = 16;

Tensor hop_of(const Tensor& key) {
  return key.bitwise_and((1 << kHopBits) - 1);
}

/// Where runs of equal values begin, in one or in both of two tensors.
Tensor starts_of(const Tensor& a, const Tensor& b) {
  Tensor starts = at::ones({a.size(0)}, a.options().dtype(at::kBool));
  if (a.size(0) > 1) {
    const auto changes = [](const Tensor& x) { return x.slice(0, 1).ne(x.slice(0, 0, -1)); };
    starts.slice(0, 1).copy_(changes(a).logical_or(changes(b)));
  }
  return starts.nonzero().flatten();
}

/// The place of the start after each one; `size` after the last.
Tensor ends_of(const Tensor& starts, int64_t size) {
  return at::cat({starts.slice(0, 1), at::full({std::min<int64_t>(1, starts.size(0))}, size, starts.options())});
}

/// Sums of runs, one value after the other.
Tensor run_sums(const Tensor& values, const Tensor& starts) {
  if (values.size(0) == 0) return values;
  const Tensor offsets = at::cat({starts, at::full({1}, values.size(0), starts.options())});
  return at::segment_reduce(values, "sum", /*lengths=*/{}, /*indices=*/{}, offsets, /*axis=*/0, /*unsafe=*/true);
}

}  // namespace

VisitProducts visit_products(const Tensor& columns, const Tensor& hops, const Tensor& loads, int64_t rows,
                             int64_t walkers, int64_t group) {
  const int64_t groups = (walkers + group - 1) / group;
  const Tensor walk = hops.eq(0).cumsum(0) - 1, row = walk.div(walkers, "floor");
  Tensor team = row * groups + (walk - row * walkers).div(group, "floor");
  Tensor place = columns.to(at::kLong).bitwise_left_shift(kHopBits) + hops;
  const auto sorted = [](const Tensor& key) { return std::get<1>(key.sort(/*stable=*/true, 0, /*descending=*/false)); };
  const Tensor by_place = sorted(place), order = by_place.index_select(0, sorted(team.index_select(0, by_place)));
  team = team.index_select(0, order);
  place = place.index_select(0, order);

  // Walkers of one group that meet count as one, with the sum of their loads.
  const Tensor meetings = starts_of(team, place), load = run_sums(loads.index_select(0, order), meetings);
  team = team.index_select(0, meetings);
  place = place.index_select(0, meetings);

  // Each meeting is paired with itself and with those after it at the same node.
  const int64_t count = team.size(0);
  const Tensor node = place.bitwise_right_shift(kHopBits), nodes = starts_of(team, node);
  const Tensor behind = ends_of(nodes, count), ends = at::repeat_interleave(behind, behind - nodes);
  const Tensor each = at::arange(count, team.options()), partners = ends - each;
  const Tensor first = at::repeat_interleave(each, partners);
  const Tensor before = (partners.cumsum(0) - partners).index_select(0, first);
  const Tensor second = first + at::arange(first.size(0), first.options()) - before;

  const Tensor t = hop_of(place).index_select(0, first), u = hop_of(place).index_select(0, second);
  Tensor key = team.index_select(0, first).div(groups, "floor").bitwise_left_shift(2 * kHopBits) +
               t.bitwise_left_shift(kHopBits) + u;
  const Tensor by_key = sorted(key);
  key = key.index_select(0, by_key);
  const Tensor entries = starts_of(key, key);
  const Tensor value = load.index_select(0, first) * load.index_select(0, second);
  const Tensor values = run_sums(value.index_select(0, by_key), entries);
  key = key.index_select(0, entries);
  const Tensor row_of = key.bitwise_right_shift(2 * kHopBits);
  return {at::searchsorted(row_of, at::arange(rows + 1, row_of.options())),
          at::stack({hop_of(key.bitwise_right_shift(kHopBits)), hop_of(key)}, 1).to(at::kShort), values};
}

}  // namespace topomask
