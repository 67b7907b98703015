#include "topomask/power_series.h"

#include <ATen/ATen.h>

#include <mutex>

#include "core/checks.h"
#include "core/kept_tensors.h"
#include "core/move.h"
#include "masks/power_series/hop_basis.h"

namespace topomask {
namespace {

/// What does not depend on α: the graph and its explicit K-hop form, shared by every mask over them.
class Structure {
 public:
  Structure(Graph graph, int64_t terms, const PowerSeriesOptions& options)
      : graph_(std::move(graph)), terms_(terms), options_(options) {
    estimate_ = estimate_hop_entries(graph_.to(at::kCPU), terms_, options_.max_sparse_entries);
  }

  const Graph& graph() const { return graph_; }
  int64_t terms() const { return terms_; }
  const PowerSeriesOptions& options() const { return options_; }
  bool offers_sparse() const { return estimate_ < static_cast<double>(options_.max_sparse_entries); }
  double entries() const {
    const std::lock_guard lock(mutex_);
    return basis_ ? static_cast<double>(basis_->pattern->entries()) : estimate_;
  }
  const HopBasis& basis() const {
    const std::lock_guard lock(mutex_);
    if (!basis_) {
      const c10::InferenceMode ordinary(false);  // what is kept may later be saved for a backward pass
      const HopBasis made = build_hop_basis(graph_.to(at::kCPU), terms_);
      basis_ = {made.pattern->to(graph_.device()), made.powers.to(graph_.device())};
    }
    return *basis_;
  }

 private:
  Graph graph_;
  int64_t terms_;
  PowerSeriesOptions options_;
  double estimate_ = 0;
  mutable std::mutex mutex_;
  mutable std::optional<HopBasis> basis_;
};

class PowerSeriesMask final : public Mask {
 public:
  PowerSeriesMask(std::shared_ptr<const Structure> structure, at::Tensor alpha)
      : structure_(std::move(structure)), alpha_(std::move(alpha)) {}

  std::string name() const override { return "power_series"; }
  int64_t size() const override { return graph().num_nodes(); }
  int64_t heads() const override { return alpha_.dim() == 2 ? alpha_.size(0) : 1; }
  std::optional<at::ScalarType> dtype() const override { return alpha_.scalar_type(); }
  std::vector<at::Tensor> parameters() const override { return {alpha_}; }

  MaskCounts counts() const override {
    const auto n = static_cast<double>(size()), terms = static_cast<double>(structure_->terms());
    const double horner = (terms - 1) * static_cast<double>(graph().num_entries()) + terms * n;
    MaskCounts counts{.operator_work = horner, .dense_work = horner * n};
    if (structure_->offers_sparse()) {
      const double entries = structure_->entries();
      counts.sparse_entries = entries;
      counts.factor_entries = entries + n;
      counts.values_work = alpha_.requires_grad() ? entries * terms : 0;  // else they are kept
      counts.dense_work = n * n;
    }
    return counts;
  }

  std::optional<SparseMatrix> sparse() const override {
    if (!structure_->offers_sparse()) return std::nullopt;
    const HopBasis& basis = structure_->basis();
    const auto values = values_.get({alpha_}, [&](const std::vector<at::Tensor>& parameters) {
      return std::vector<at::Tensor>{at::matmul(series(parameters[0]), basis.powers)};
    });
    return SparseMatrix{basis.pattern, values[0]};
  }

  at::Tensor dense() const override {
    const auto matrix = sparse();
    return matrix ? matrix->dense() : Mask::dense();
  }

  MaskPtr to(const at::TensorOptions& target) const override {
    if (is_at(alpha_, target)) return shared_from_this();
    return power_series_mask(graph().to(target), alpha_.to(target), structure_->options());
  }

  at::Tensor apply(const at::Tensor& x) const override {
    return horner(x, [this](const at::Tensor& y) { return topomask::matmul(graph().matrix(), y); });
  }

  at::Tensor apply_transposed(const at::Tensor& x) const override {
    return horner(x, [this](const at::Tensor& y) { return topomask::matmul_transposed(graph().matrix(), y); });
  }

  std::vector<at::Tensor> parameter_gradients(const at::Tensor& x, const at::Tensor& grad) const override {
    at::Tensor gradient = at::zeros({heads(), structure_->terms()}, x.options());
    at::Tensor power = x;
    for (int64_t k = 0; k < structure_->terms(); ++k) {
      if (k > 0) power = topomask::matmul(graph().matrix(), power);
      gradient.select(1, k).copy_((grad * power).sum(at::IntArrayRef{0, 2, 3}));
    }
    return {gradient.reshape(alpha_.sizes())};
  }

 private:
  const Graph& graph() const { return structure_->graph(); }

  /// [K] with one head, [H, K] with more.
  at::Tensor series(const at::Tensor& alpha) const { return heads() == 1 ? alpha.reshape({-1}) : alpha; }

  /// Σ_k α_k W^k x, from the highest term down.
  template <typename Product>
  at::Tensor horner(const at::Tensor& x, const Product& product) const {
    const int64_t terms = structure_->terms();
    if (terms == 0) return at::zeros_like(x);
    const at::Tensor alpha = alpha_.detach().reshape({1, heads(), 1, 1, terms});
    at::Tensor y = x * alpha.select(-1, terms - 1);
    for (int64_t k = terms - 2; k >= 0; --k) y = product(y).addcmul_(x, alpha.select(-1, k));
    return y;
  }

  std::shared_ptr<const Structure> structure_;
  at::Tensor alpha_;
  KeptTensors values_;
};

}  // namespace

MaskPtr power_series_mask(const Graph& graph, const at::Tensor& alpha, const PowerSeriesOptions& options) {
  TORCH_CHECK(alpha.defined() && (alpha.dim() == 1 || alpha.dim() == 2) && is_real(alpha.scalar_type()),
              "power_series_mask: alpha must be Float or Double, [K] or [H, K], got ", describe(alpha));
  TORCH_CHECK(alpha.dim() == 1 || alpha.size(0) >= 1, "power_series_mask: alpha must have at least one head, got ",
              describe(alpha));
  TORCH_CHECK(alpha.scalar_type() == graph.weights().scalar_type(), "power_series_mask: alpha must be ",
              graph.weights().scalar_type(), " as the graph's weights are, got ", describe(alpha));
  TORCH_CHECK(alpha.device() == graph.device(), "power_series_mask: alpha must be on ", graph.device(),
              " as the graph is, got ", describe(alpha));
  TORCH_CHECK(alpha.size(-1) >= 1, "power_series_mask: alpha must have at least one coefficient, got ",
              describe(alpha));
  check_finite("power_series_mask", "alpha", alpha);
  TORCH_CHECK(options.max_sparse_entries >= 0, "power_series_mask: max_sparse_entries must be >= 0, got ",
              options.max_sparse_entries);
  return std::make_shared<PowerSeriesMask>(std::make_shared<Structure>(graph, alpha.size(-1), options), alpha);
}

}  // namespace topomask
