#include "topomask/power_series.h"

#include <ATen/ATen.h>

#include <mutex>

#include "core/checks.h"
#include "core/move.h"
#include "core/ordered_sums.h"
#include "core/tensor_cache.h"
#include "masks/power_series/hop_basis.h"
#include "sparse/hops.h"
#include "sparse/sddmm.h"

namespace topomask {

class PowerSeriesBasis {
 public:
  PowerSeriesBasis(Graph graph, int64_t terms, const PowerSeriesOptions& options)
      : graph_(std::move(graph)),
        weights_(graph_.weights()),
        learns_weights_(weights_.requires_grad()),
        terms_(terms),
        options_(options) {
    estimate_ = estimate_hop_entries(*graph_.pattern(), terms_, options_.max_sparse_entries);
    if (learns_weights_) return;
    // A copy of their own: powers are computed once, and both routes must see the same weights.
    const c10::InferenceMode ordinary(false);  // what is kept may later be saved for a backward pass
    weights_ = weights_.clone();
    graph_ = graph_.with_weights(weights_);
  }

  const Graph& graph() const { return graph_; }
  const at::Tensor& weights() const { return weights_; }
  /// Decided when the basis is made: weights that are frozen later are still followed, by both routes.
  bool learns_weights() const { return learns_weights_; }
  int64_t terms() const { return terms_; }
  const PowerSeriesOptions& options() const { return options_; }
  bool offers_sparse() const { return estimate_ < static_cast<double>(options_.max_sparse_entries); }
  double entries() const {
    const std::lock_guard lock(mutex_);
    return hops_ ? static_cast<double>(hops_->entries()) : estimate_;
  }
  /// Where the series can be nonzero; shared with every series over the pattern of this graph.
  const PatternPtr& hops() const {
    const std::lock_guard lock(mutex_);
    if (!hops_) hops_ = hop_pattern(*graph_.pattern(), terms_);
    return hops_;
  }
  /// [K, entries of hops()]: computed once, or, where the weights are learned, from the values they have.
  /// Differentiable in them.
  at::Tensor powers() const {
    if (!learns_weights_) {
      std::call_once(constant_once_, [this] {
        const c10::InferenceMode ordinary(false);  // what is cached may later be saved for a backward pass
        const at::NoGradGuard no_grad;
        constant_ = powers_of(weights_);
      });
      return constant_;
    }
    return powers_.get({weights_}, [&](const std::vector<at::Tensor>& parameters) {
      return std::vector<at::Tensor>{powers_of(parameters[0])};
    })[0];
  }

 private:
  at::Tensor powers_of(const at::Tensor& weights) const {
    const PatternPtr edges = graph_.pattern()->to(at::kCPU), here = hops()->to(at::kCPU);
    return hop_powers(*edges, *here, weights.to(at::kCPU), terms_).to(graph_.device());
  }

  Graph graph_;
  at::Tensor weights_;
  bool learns_weights_;
  int64_t terms_;
  PowerSeriesOptions options_;
  double estimate_ = 0;
  mutable std::mutex mutex_;
  mutable PatternPtr hops_;
  mutable std::once_flag constant_once_;
  mutable at::Tensor constant_;  // the powers, where the weights are not learned
  TensorCache powers_;
};

namespace {

class PowerSeriesMask final : public Mask {
 public:
  PowerSeriesMask(PowerSeriesBasisPtr basis, at::Tensor alpha) : basis_(std::move(basis)), alpha_(std::move(alpha)) {}

  std::string name() const override { return "power_series"; }
  int64_t size() const override { return graph().num_nodes(); }
  int64_t heads() const override { return alpha_.dim() == 2 ? alpha_.size(0) : 1; }
  std::optional<at::ScalarType> dtype() const override { return alpha_.scalar_type(); }
  std::vector<at::Tensor> parameters() const override {
    return basis_->learns_weights() ? std::vector<at::Tensor>{alpha_, basis_->weights()}
                                    : std::vector<at::Tensor>{alpha_};
  }

  MaskCounts counts() const override {
    const auto n = static_cast<double>(size()), terms = static_cast<double>(basis_->terms());
    const double horner = (terms - 1) * static_cast<double>(graph().num_entries()) + terms * n;
    MaskCounts counts{.operator_work = horner, .dense_work = horner * n};
    if (basis_->offers_sparse()) {
      const double entries = basis_->entries();
      counts.sparse_entries = entries;
      counts.factor_entries = entries + n;
      counts.values_work = TensorCache::serves({alpha_}) ? 0 : entries * terms;
      if (basis_->learns_weights()) {
        counts.values_work = entries * terms * (1 + static_cast<double>(graph().num_entries()) / std::max(1.0, n));
      }
      counts.dense_work = n * n;
    }
    return counts;
  }

  std::optional<SparseMatrix> sparse() const override {
    if (!basis_->offers_sparse()) return std::nullopt;
    const auto values = values_.get(parameters(), [this](const std::vector<at::Tensor>& parameters) {
      const at::Tensor values = ordered_matmul(parameters[0].reshape({heads(), basis_->terms()}), basis_->powers());
      return std::vector<at::Tensor>{heads() == 1 ? values[0] : values};
    });
    return SparseMatrix{basis_->hops(), values[0]};
  }

  at::Tensor dense() const override {
    const auto matrix = sparse();
    return matrix ? matrix->dense() : Mask::dense();
  }

  MaskPtr rebuild(const std::vector<at::Tensor>& parameters) const override {
    if (parameters.size() == 1) return std::make_shared<PowerSeriesMask>(basis_, parameters[0]);
    return power_series_mask(graph().with_weights(parameters[1]), parameters[0], basis_->options());
  }
  MaskPtr to(const at::TensorOptions& target) const override {
    if (is_at(alpha_, target)) return shared_from_this();
    return power_series_mask(graph().to(target), alpha_.to(target), basis_->options());
  }

  at::Tensor apply(const at::Tensor& x) const override {
    return horner(x, [this](const at::Tensor& y) { return topomask::matmul(matrix(), y); });
  }

  at::Tensor apply_transposed(const at::Tensor& x) const override {
    return horner(x, [this](const at::Tensor& y) { return topomask::matmul_transposed(matrix(), y); });
  }

  std::vector<at::Tensor> parameter_gradients(const at::Tensor& x, const at::Tensor& grad) const override {
    if (basis_->learns_weights()) return gradients_with_weights(x, grad);
    at::Tensor gradient = at::zeros({heads(), basis_->terms()}, x.options());
    at::Tensor power = x;
    for (int64_t k = 0; k < basis_->terms(); ++k) {
      if (k > 0) power = topomask::matmul(matrix(), power);
      gradient.select(1, k).copy_(head_dots(grad, power));
    }
    return {gradient.reshape(alpha_.sizes())};
  }

 private:
  const Graph& graph() const { return basis_->graph(); }

  SparseMatrix matrix() const { return {graph().pattern(), basis_->weights().detach()}; }

  /// Horner's steps y_k = W y_{k+1} + α_k x, reversed: with g_k = (Wᵀ)^k grad, ∂α_k = ⟨g_k, x⟩ and
  /// ∂W = Σ_k g_k y_{k+1}ᵀ on the edges. All y_k are in memory at once.
  std::vector<at::Tensor> gradients_with_weights(const at::Tensor& x, const at::Tensor& grad) const {
    const int64_t terms = basis_->terms();
    at::Tensor of_alpha = at::zeros({heads(), terms}, x.options());
    at::Tensor of_weights = at::zeros({1, graph().num_entries()}, x.options());
    std::vector<at::Tensor> steps;  // y_{K−1}, …, y_1
    horner(x, [&](const at::Tensor& y) {
      steps.push_back(y);
      return topomask::matmul(matrix(), y);
    });
    at::Tensor g = grad;
    for (int64_t k = 0; k < terms; ++k) {
      if (k > 0) g = topomask::matmul_transposed(matrix(), g);
      of_alpha.select(1, k).copy_(head_dots(g, x));
      if (k + 1 < terms) of_weights += sddmm(g, steps[terms - 2 - k], *graph().pattern(), 1);
    }
    return {of_alpha.reshape(alpha_.sizes()), of_weights.view(-1)};
  }

  /// Σ_k α_k W^k x, from the highest term down.
  template <typename Product>
  at::Tensor horner(const at::Tensor& x, const Product& product) const {
    const int64_t terms = basis_->terms();
    if (terms == 0) return at::zeros_like(x);
    const at::Tensor alpha = alpha_.detach().reshape({1, heads(), 1, 1, terms});
    at::Tensor y = x * alpha.select(-1, terms - 1);
    for (int64_t k = terms - 2; k >= 0; --k) y = product(y).addcmul_(x, alpha.select(-1, k));
    return y;
  }

  PowerSeriesBasisPtr basis_;
  at::Tensor alpha_;
  TensorCache values_;
};

void check_alpha(const Graph& graph, const at::Tensor& alpha) {
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
}

}  // namespace

PowerSeriesBasisPtr power_series_basis(const Graph& graph, int64_t terms, const PowerSeriesOptions& options) {
  TORCH_CHECK(terms >= 1, "power_series_basis: terms must be >= 1, got ", terms);
  TORCH_CHECK(options.max_sparse_entries >= 0, "power_series_basis: max_sparse_entries must be >= 0, got ",
              options.max_sparse_entries);
  return std::make_shared<PowerSeriesBasis>(graph, terms, options);
}

MaskPtr power_series_mask(const PowerSeriesBasisPtr& basis, const at::Tensor& alpha) {
  TORCH_CHECK(basis, "power_series_mask: basis must not be null");
  check_alpha(basis->graph(), alpha);
  TORCH_CHECK(alpha.size(-1) == basis->terms(), "power_series_mask: alpha must have ", basis->terms(),
              " coefficients as the basis has terms, got ", describe(alpha));
  return std::make_shared<PowerSeriesMask>(basis, alpha);
}

MaskPtr power_series_mask(const Graph& graph, const at::Tensor& alpha, const PowerSeriesOptions& options) {
  check_alpha(graph, alpha);
  TORCH_CHECK(options.max_sparse_entries >= 0, "power_series_mask: max_sparse_entries must be >= 0, got ",
              options.max_sparse_entries);
  return power_series_mask(power_series_basis(graph, alpha.size(-1), options), alpha);
}

}  // namespace topomask
