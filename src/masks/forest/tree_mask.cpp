#include <ATen/ATen.h>

#include <cmath>

#include "core/checks.h"
#include "masks/forest/distance_rule.h"
#include "masks/forest/forest_masks.h"
#include "masks/forest/structure/forest_structure.h"

namespace topomask {
namespace {

using Kind = DistanceFunction::Rule::Kind;

/// The longest table that is made of a function, and the longest distance that a table is looked up at.
constexpr double kLongestTable = 1 << 26, kLongestDistance = 1 << 30;

/// The first node whose length breaks a condition, or −1.
template <class Condition>
int64_t first_without(const Forest& forest, const Condition& condition) {
  const at::Tensor plain = forest.weights().detach().to(at::kDouble).contiguous();
  const double* length = plain.const_data_ptr<double>();
  const int32_t* parent = forest.parent().const_data_ptr<int32_t>();
  for (int64_t v = 0; v < forest.num_nodes(); ++v) {
    if (parent[v] >= 0 && !condition(length[v])) return v;
  }
  return -1;
}

double length_at(const Forest& forest, int64_t node) {
  return forest.weights()[node].item<double>();
}

bool is_integer(double length) {
  return length == std::floor(length);
}

/// Centroids see lengths as constants, and depths that do not fall.
void check_lengths(const Forest& forest) {
  TORCH_CHECK(!forest.weights().requires_grad(),
              "tree_mask: weights must not require grad unless f is exponential, got weights that do");
  const int64_t negative = first_without(forest, [](double length) { return length >= 0; });
  TORCH_CHECK(negative < 0, "tree_mask: weights must be >= 0 unless f is exponential, got ",
              length_at(forest, negative), " at node ", negative);
}

void check_integers(const Forest& forest) {
  const int64_t broken = first_without(forest, is_integer);
  TORCH_CHECK(broken < 0, "tree_mask: weights must be integers for a function on integers, got ",
              length_at(forest, broken), " at node ", broken, "; DistanceFunction::smooth takes real lengths");
  const double longest = forest.diameter();
  TORCH_CHECK(longest <= kLongestDistance, "tree_mask: distances must be at most 2^30 for a table, got ", longest);
}

/// f at 0, 1, … up to the diameter.
at::Tensor tabulated(const Forest& forest, const DistanceFunction& f) {
  const auto longest = static_cast<int64_t>(forest.diameter());
  at::Tensor table = at::empty({longest + 1}, at::kDouble);
  for (int64_t k = 0; k <= longest; ++k) {
    const double value = f(static_cast<double>(k));
    TORCH_CHECK(std::isfinite(value), "tree_mask: f must be finite at every distance, got ", value, " at ", k);
    table.mutable_data_ptr<double>()[k] = value;
  }
  return table.to(forest.weights().scalar_type());
}

/// Two passes for exp(a·x + b): constants become parameters that are not learned.
std::optional<std::pair<double, double>> as_exponential(const DistanceFunction::Rule& rule) {
  if (!rule.exact || rule.exact->terms().size() != 1) return std::nullopt;
  const auto& term = rule.exact->terms().front();
  if (term.rate.imag() != 0 || term.coefficients.size() != 1 || term.coefficients[0].real() <= 0) return std::nullopt;
  return std::pair(term.rate.real(), std::log(term.coefficients[0].real()));
}

}  // namespace

MaskPtr tree_mask(const Forest& forest, const DistanceFunction& f) {
  const DistanceFunction::Rule& rule = f.rule();
  const at::ScalarType dtype = forest.weights().scalar_type();
  if (rule.kind == Kind::exponential) {
    TORCH_CHECK(rule.a.scalar_type() == dtype, "tree_mask: a must be ", dtype, " as the forest's weights are, got ",
                describe(rule.a));
    return make_exponential_mask(forest, rule.a, rule.b);
  }
  if (const auto constants = as_exponential(rule)) {
    return make_exponential_mask(forest, at::scalar_tensor(constants->first, at::dtype(dtype)),
                                 at::scalar_tensor(constants->second, at::dtype(dtype)));
  }
  check_lengths(forest);
  if (rule.kind == Kind::table) {
    check_integers(forest);
    return make_table_mask(forest, rule.f);
  }
  if (rule.kind == Kind::on_integers) {
    check_integers(forest);
    const double longest = forest.diameter();
    TORCH_CHECK(longest < kLongestTable, "tree_mask: distances must be below 2^26 for a function on integers, got ",
                longest);
    return make_table_mask(forest, tabulated(forest, f));
  }
  // A table is exact, and cheaper than ranks, while it is not much longer than the forest is large.
  const double moderate = 64.0 + 4.0 * static_cast<double>(forest.num_nodes());
  if (first_without(forest, is_integer) < 0 && forest.diameter() < std::min(moderate, kLongestTable)) {
    return make_table_mask(forest, tabulated(forest, f));
  }
  return make_low_rank_mask(forest, f);
}

}  // namespace topomask
