#include <ATen/ATen.h>
#include <ATen/Dispatch.h>

#include <cmath>

#include "core/move.h"
#include "masks/forest/distance_rule.h"
#include "masks/forest/forest_masks.h"
#include "masks/forest/low_rank/chebyshev.h"
#include "masks/forest/low_rank/low_rank_kernel.h"
#include "masks/forest/low_rank/low_rank_levels.h"
#include "masks/forest/structure/component_loop.h"
#include "masks/forest/structure/forest_structure.h"
#include "masks/forest/structure/per_device.h"
#include "masks/forest/structure/positions.h"

namespace topomask {
namespace {

// Many columns, since the functions are evaluated for each part again; so many nodes of them fit a core's cache.
constexpr int64_t kPartColumns = 256, kTaskNodes = 512;

/// One rule for each component. A smooth function has its rank from how far the component reaches: a rule is made for
/// reaches that halve every second step, and serves the components up to the next.
std::vector<SeparablePtr> rules_by_reach(const DistanceFunction::Rule& rule, double largest,
                                         const std::vector<double>& reach, std::vector<const Separable*>& functions) {
  std::vector<SeparablePtr> rules;
  const auto exact = rule.exact ? rule.exact->separable() : nullptr;
  const double largest_f = exact ? 0 : largest_value(rule.function, 2 * largest);
  for (const double r : reach) {
    size_t step = 0;
    if (!exact && r < largest) {
      step = r > 0 ? static_cast<size_t>(2 * std::log2(largest / r)) : rules.size() - 1;
    }
    while (rules.size() <= step) {
      // It serves all shorter reaches, and no rule has a lower rank.
      if (!rules.empty() && rules.back()->rank <= 1) break;
      const double scale = std::exp2(-0.5 * static_cast<double>(rules.size()));
      rules.push_back(exact ? exact : chebyshev_separable(rule.function, largest * scale, rule.tolerance, largest_f));
    }
    functions.push_back(rules[std::min(step, rules.size() - 1)].get());
  }
  return rules;
}

/// Everything about the mask but its dtype.
struct LowRankStructure {
  LowRankStructure(const Forest& f, const DistanceFunction& function)
      : forest(f), value(function), positions(decomposition()) {
    std::vector<double> reach;
    double largest = 0;
    for (const Component& c : decomposition().components) {
      const double* depth = decomposition().depth.data() + c.entry;
      reach.push_back(*std::max_element(depth, depth + c.size));
      largest = std::max(largest, reach.back());
    }
    rules = rules_by_reach(function.rule(), largest, reach, functions);
    for (size_t c = 0; c < reach.size(); ++c) {
      const auto rank = static_cast<double>(functions[c]->rank);
      // Two sweeps of two multiply-adds, and as much again to evaluate the functions.
      work += 8 * rank * decomposition().components[c].size;
    }
    schedule = make_schedule(decomposition(), kTaskNodes);
    near = values_at(decomposition().near);
    work += static_cast<double>(near.numel() + 4 * forest.num_nodes());
  }

  const Decomposition& decomposition() const { return forest.structure().decomposition(); }

  at::Tensor values_at(const std::vector<double>& distances) const {
    at::Tensor values = at::empty({static_cast<int64_t>(distances.size())}, at::kDouble);
    for (size_t i = 0; i < distances.size(); ++i) values.mutable_data_ptr<double>()[i] = value(distances[i]);
    return values;
  }

  /// The same for products on a GPU.
  std::shared_ptr<const LowRankLevels> levels(const at::TensorOptions& options) const {
    auto& copies = options.dtype() == at::kDouble ? doubles : floats;
    return copies.get(options.device(),
                      [&] { return std::make_shared<const LowRankLevels>(decomposition(), functions, near, options); });
  }

  Forest forest;
  DistanceFunction value;
  Positions positions;
  std::vector<SeparablePtr> rules;
  std::vector<const Separable*> functions;  // per component
  Schedule schedule;
  at::Tensor near;  // f at the near distances
  double work = 0;
  mutable PerDevice<LowRankLevels> floats, doubles;
};

class LowRankMask final : public Mask {
 public:
  /// options: dtype and device.
  LowRankMask(std::shared_ptr<const LowRankStructure> structure, const at::TensorOptions& options)
      : structure_(std::move(structure)), options_(options) {
    if (options.device().is_cpu()) return;
    levels_ = structure_->levels(options);
    options_ = options.device(levels_->device());
  }

  std::string name() const override { return "forest_low_rank"; }
  int64_t size() const override { return structure_->forest.num_nodes(); }
  std::optional<at::ScalarType> dtype() const override { return options_.dtype().toScalarType(); }
  std::optional<at::Device> device() const override { return options_.device(); }

  MaskCounts counts() const override {
    const auto n = static_cast<double>(size());
    MaskCounts counts{.operator_work = structure_->work, .dense_work = structure_->work * n};
    if (offers_sparse()) {
      const double pairs = structure_->forest.structure().pair_count();
      counts.sparse_entries = pairs;
      counts.factor_entries = pairs + n;
      counts.dense_work = n * n;
    }
    return counts;
  }

  std::optional<SparseMatrix> sparse() const override {
    if (!offers_sparse()) return std::nullopt;
    std::call_once(sparse_once_, [&] {
      const c10::InferenceMode ordinary(false);  // what is kept may later be saved for a backward pass
      const TreePairs& pairs = structure_->forest.structure().pairs();
      const double* distance = pairs.distances.const_data_ptr<double>();
      sparse_ = {pairs.pattern->to(options_.device()),
                 structure_->values_at({distance, distance + pairs.distances.numel()}).to(options_)};
    });
    return sparse_;
  }

  at::Tensor dense() const override {
    const auto matrix = sparse();
    return matrix ? matrix->dense() : Mask::dense();
  }

  MaskPtr to(const at::TensorOptions& target) const override {
    at::TensorOptions options = options_;
    if (target.has_dtype()) options = options.dtype(target.dtype());
    if (target.has_device()) options = options.device(target.device());
    if (is_at(at::empty({0}, options_), target)) return shared_from_this();
    return std::make_shared<LowRankMask>(structure_, options);
  }

  at::Tensor apply(const at::Tensor& x) const override {
    if (levels_) return levels_->products(x);
    const at::Tensor by_position = structure_->positions.from_nodes(x);
    const at::Tensor near = structure_->near.to(x.scalar_type()).unsqueeze(0);
    const at::Tensor y = structure_->positions.near_products(near, by_position);
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "low_rank", [&] { add_far<scalar_t>(by_position, y); });
    return structure_->positions.to_nodes(y);
  }

  at::Tensor apply_transposed(const at::Tensor& x) const override { return apply(x); }  // M is symmetric

 private:
  bool offers_sparse() const { return structure_->forest.structure().pair_count() <= kMaxSparseEntries; }

  template <class T>
  void add_far(const at::Tensor& x, const at::Tensor& y) const {
    const ColumnParts parts(x.size(0) * x.size(1), x.size(3), kPartColumns);
    int64_t rank = 0;
    for (const SeparablePtr& rule : structure_->rules) rank = std::max(rank, rule->rank);
    for_components(structure_->schedule, parts, [&](const ColumnPart& part, int64_t begin, int64_t end) {
      constexpr int64_t kNodes = LowRankArgs<T>::kNodes;
      std::vector<double> values(2 * rank);
      std::vector<T> factors(2 * kNodes * rank), rows(2 * kNodes * part.pitch()), sums(2 * rank * part.pitch());
      const int64_t at = part.slice * x.size(2) * x.size(3) + part.first;
      const LowRankArgs<T> args{.components = structure_->decomposition().components.data(),
                                .groups = structure_->decomposition().groups.data(),
                                .depth = structure_->decomposition().depth.data(),
                                .functions = structure_->functions.data(),
                                .x = x.const_data_ptr<T>() + at,
                                .y = y.mutable_data_ptr<T>() + at,
                                .stride = x.size(3),
                                .width = part.width,
                                .pitch = part.pitch(),
                                .values = values.data(),
                                .factors = factors.data(),
                                .rows = rows.data(),
                                .sums = sums.data()};
      low_rank_components(args, begin, end);
    });
  }

  std::shared_ptr<const LowRankStructure> structure_;
  at::TensorOptions options_;
  std::shared_ptr<const LowRankLevels> levels_;  // on a GPU
  mutable std::once_flag sparse_once_;
  mutable SparseMatrix sparse_;
};

}  // namespace

MaskPtr make_low_rank_mask(const Forest& forest, const DistanceFunction& f) {
  return std::make_shared<LowRankMask>(std::make_shared<LowRankStructure>(forest, f),
                                       at::device(at::kCPU).dtype(forest.weights().scalar_type()));
}

}  // namespace topomask
