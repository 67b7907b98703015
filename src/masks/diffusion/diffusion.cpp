#include "topomask/diffusion.h"

#include <ATen/ATen.h>

#include "core/checks.h"
#include "core/move.h"
#include "core/ordered_sums.h"
#include "core/pull_back.h"
#include "core/tensor_cache.h"
#include "masks/diffusion/chebyshev.h"
#include "masks/diffusion/generator.h"
#include "masks/diffusion/lanczos.h"

namespace topomask {
namespace {

constexpr const char* kDiffusionOp = "diffusion_mask";

/// T and the bounds of its spectrum.
struct BoundedGenerator {
  GeneratorMatrix matrix;
  Spectrum spectrum;
};

/// What does not depend on λ. Where the weights required a gradient when the mask was made, T follows them, also after
/// they were frozen; else it is made once.
class Structure {
 public:
  Structure(Graph graph, const DiffusionOptions& options)
      : graph_(std::move(graph)), learns_weights_(graph_.weights().requires_grad()), options_(options) {
    TORCH_CHECK(!graph_.directed(), kDiffusionOp, ": graph must be undirected, got a directed one");
    if (!learns_weights_) constant_ = generator();
  }

  const Graph& graph() const { return graph_; }
  const DiffusionOptions& options() const { return options_; }
  const at::Tensor& weights() const { return graph_.weights(); }
  bool learns_weights() const { return learns_weights_; }

  BoundedGenerator current() const {
    if (constant_) return *constant_;
    const at::NoGradGuard no_grad;
    const auto kept = kept_.get({weights()}, [this](const std::vector<at::Tensor>&) {
      check_symmetric();
      const BoundedGenerator made = generator();
      const Spectrum& s = made.spectrum;
      return std::vector<at::Tensor>{made.matrix.edges.values, made.matrix.diagonal,
                                     at::tensor({s.lower, s.upper, s.lowest}, at::kDouble)};
    });
    const double* bound = kept[2].const_data_ptr<double>();
    return {{{graph_.pattern(), kept[0]}, kept[1]}, {bound[0], bound[1], bound[2]}};
  }

 private:
  BoundedGenerator generator() const {
    BoundedGenerator made{generator_matrix(kDiffusionOp, graph_, options_.generator), {}};
    made.spectrum = spectrum_bounds(made.matrix, options_.generator);
    return made;
  }

  /// Weights were symmetric when the graph was made; an optimiser may change (i, j) and (j, i) differently.
  void check_symmetric() const {
    const at::Tensor plain = weights().detach();
    TORCH_CHECK(
        at::equal(plain, plain.index_select(0, graph_.pattern()->transposed().index)), kDiffusionOp,
        ": weights of an undirected graph must stay symmetric, got a change that is not; give both entries of an "
        "edge one parameter, as in graph.with_weights(w.index_select(0, edge_of_entry))");
  }

  Graph graph_;
  bool learns_weights_;
  DiffusionOptions options_;
  std::optional<BoundedGenerator> constant_;
  TensorCache kept_;
};

class DiffusionMask final : public Mask {
 public:
  DiffusionMask(std::shared_ptr<const Structure> structure, at::Tensor lambda)
      : structure_(std::move(structure)), lambda_(std::move(lambda)) {}

  std::string name() const override { return "diffusion"; }
  int64_t size() const override { return structure_->graph().num_nodes(); }
  int64_t heads() const override { return lambda_.numel(); }
  std::optional<at::ScalarType> dtype() const override { return lambda_.scalar_type(); }
  std::vector<at::Tensor> parameters() const override {
    return structure_->learns_weights() ? std::vector<at::Tensor>{lambda_, structure_->weights()}
                                        : std::vector<at::Tensor>{lambda_};
  }

  MaskCounts counts() const override {
    const auto n = static_cast<double>(size());
    const double product = static_cast<double>(structure_->graph().num_entries()) + 3 * n;
    // A fused step takes less time per multiply-add than products on their own.
    const double work = 0.4 * static_cast<double>(std::max<int64_t>(1, degree())) * product;
    return {.operator_work = work, .dense_work = 0.4 * n * work};
  }

  MaskPtr rebuild(const std::vector<at::Tensor>& parameters) const override {
    if (parameters.size() == 1) return std::make_shared<DiffusionMask>(structure_, parameters[0]);
    return diffusion_mask(structure_->graph().with_weights(parameters[1]), parameters[0], structure_->options());
  }
  MaskPtr to(const at::TensorOptions& target) const override {
    if (is_at(lambda_, target)) return shared_from_this();
    return diffusion_mask(structure_->graph().to(target), lambda_.to(target), structure_->options());
  }

  at::Tensor apply(const at::Tensor& x) const override { return product(structure_->current(), x); }
  at::Tensor apply_transposed(const at::Tensor& x) const override { return apply(x); }

  std::vector<at::Tensor> parameter_gradients(const at::Tensor& x, const at::Tensor& grad) const override {
    const BoundedGenerator t = structure_->current();
    const at::Tensor slope = head_dots(t.matrix.times(product(t, x)), grad).neg_();
    std::vector<at::Tensor> result{slope.view_as(lambda_)};
    if (structure_->learns_weights()) result.push_back(weight_gradient(t, x, grad));
    return result;
  }

  int64_t degree() const { return degree(structure_->current()); }

 private:
  const DiffusionOptions& options() const { return structure_->options(); }

  std::vector<std::vector<double>> series(const BoundedGenerator& t) const {
    std::vector<std::vector<double>> result;
    for (double lambda : lambda_values(kDiffusionOp, lambda_)) {
      result.push_back(chebyshev_coefficients(lambda, t.spectrum, options().tolerance));
    }
    return result;
  }

  int64_t degree(const BoundedGenerator& t) const {
    size_t terms = 1;
    for (const auto& coefficients : series(t)) terms = std::max(terms, coefficients.size());
    return static_cast<int64_t>(terms) - 1;
  }

  at::Tensor product(const BoundedGenerator& t, const at::Tensor& x) const {
    if (options().method == DiffusionMethod::lanczos) {
      // As many steps as the degree give at least the accuracy of the polynomial; some more make up for rounding.
      return lanczos_exponential(t.matrix, lambda_values(kDiffusionOp, lambda_), options().tolerance, degree(t) + 8, x);
    }
    return chebyshev_product(t.matrix, t.spectrum, series(t), x);
  }

  /// Through the polynomial to T, whichever method makes the product, and from there to the weights.
  at::Tensor weight_gradient(const BoundedGenerator& t, const at::Tensor& x, const at::Tensor& grad) const {
    const std::vector<double> lambda = lambda_values(kDiffusionOp, lambda_);
    const double longest = *std::max_element(lambda.begin(), lambda.end());
    Spectrum spectrum = t.spectrum;
    // A T that is a multiple of I has a derivative too; any interval around its spectrum serves.
    if (longest * (spectrum.upper - spectrum.lower) < 1 && longest > 0) {
      spectrum.lower -= 0.5 / longest;
      spectrum.upper += 0.5 / longest;
    }
    std::vector<std::vector<double>> series;
    for (const double time : lambda) {
      series.push_back(chebyshev_gradient_coefficients(time, spectrum, options().tolerance));
    }
    const GeneratorGradient gradient = chebyshev_gradient(t.matrix, spectrum, series, x, grad);
    const auto generator = [this](const std::vector<at::Tensor>& weights) {
      const PatternPtr& pattern = structure_->graph().pattern();
      const GeneratorMatrix made = generator_matrix(kDiffusionOp, pattern, weights[0], options().generator);
      return std::vector<at::Tensor>{made.edges.values, made.diagonal};
    };
    return pull_back({structure_->weights()}, {gradient.edges, gradient.diagonal}, generator)[0];
  }

  std::shared_ptr<const Structure> structure_;
  at::Tensor lambda_;
};

}  // namespace

MaskPtr diffusion_mask(const Graph& graph, const at::Tensor& lambda, const DiffusionOptions& options) {
  check_lambda(kDiffusionOp, lambda);
  TORCH_CHECK(lambda.scalar_type() == graph.weights().scalar_type(), kDiffusionOp, ": lambda must be ",
              graph.weights().scalar_type(), " as the graph's weights are, got ", describe(lambda));
  TORCH_CHECK(lambda.device() == graph.device(), kDiffusionOp, ": lambda must be on ", graph.device(),
              " as the graph is, got ", describe(lambda));
  TORCH_CHECK(options.tolerance > 0 && options.tolerance < 1, kDiffusionOp, ": tolerance must be in (0, 1), got ",
              options.tolerance);
  auto mask = std::make_shared<DiffusionMask>(std::make_shared<const Structure>(graph, options), lambda);
  mask->degree();  // a λ too large is refused here
  return mask;
}

int64_t chebyshev_degree(const Mask& mask) {
  const auto* diffusion = dynamic_cast<const DiffusionMask*>(&mask);
  TORCH_CHECK(diffusion != nullptr, "chebyshev_degree: mask must be a diffusion mask, got ", mask.name());
  return diffusion->degree();
}

}  // namespace topomask
