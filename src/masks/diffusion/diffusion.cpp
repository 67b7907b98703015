#include "topomask/diffusion.h"

#include <ATen/ATen.h>

#include "core/checks.h"
#include "core/move.h"
#include "masks/diffusion/chebyshev.h"
#include "masks/diffusion/generator.h"
#include "masks/diffusion/lanczos.h"

namespace topomask {
namespace {

constexpr const char* kOp = "diffusion_mask";

/// What does not depend on λ.
struct Structure {
  Graph graph;
  DiffusionOptions options;
  GeneratorMatrix matrix;
  Spectrum spectrum;
};

class DiffusionMask final : public Mask {
 public:
  DiffusionMask(std::shared_ptr<const Structure> structure, at::Tensor lambda)
      : structure_(std::move(structure)), lambda_(std::move(lambda)) {}

  std::string name() const override { return "diffusion"; }
  int64_t size() const override { return structure_->matrix.nodes(); }
  int64_t heads() const override { return lambda_.numel(); }
  std::optional<at::ScalarType> dtype() const override { return lambda_.scalar_type(); }
  std::vector<at::Tensor> parameters() const override { return {lambda_}; }

  MaskCounts counts() const override {
    const auto n = static_cast<double>(size());
    const double product = static_cast<double>(structure_->graph.num_entries()) + 3 * n;
    // A fused step takes less time per multiply-add than products on their own.
    const double work = 0.4 * static_cast<double>(std::max<int64_t>(1, degree())) * product;
    return {.operator_work = work, .dense_work = 0.4 * n * work};
  }

  MaskPtr to(const at::TensorOptions& target) const override {
    if (is_at(lambda_, target)) return shared_from_this();
    return diffusion_mask(structure_->graph.to(target), lambda_.to(target), structure_->options);
  }

  at::Tensor apply(const at::Tensor& x) const override {
    const Structure& s = *structure_;
    if (s.options.method == DiffusionMethod::lanczos) {
      // As many steps as the degree give at least the accuracy of the polynomial; some more make up for rounding.
      return lanczos_exponential(s.matrix, lambda_values(kOp, lambda_), s.options.tolerance, degree() + 8, x);
    }
    return chebyshev_product(s.matrix, s.spectrum, series(), x);
  }
  at::Tensor apply_transposed(const at::Tensor& x) const override { return apply(x); }

  std::vector<at::Tensor> parameter_gradients(const at::Tensor& x, const at::Tensor& grad) const override {
    const at::Tensor slope = structure_->matrix.times(apply(x)).mul_(grad).sum(at::IntArrayRef{0, 2, 3}).neg_();
    return {slope.view_as(lambda_)};
  }

  int64_t degree() const {
    size_t terms = 1;
    for (const auto& coefficients : series()) terms = std::max(terms, coefficients.size());
    return static_cast<int64_t>(terms) - 1;
  }

 private:
  std::vector<std::vector<double>> series() const {
    std::vector<std::vector<double>> result;
    for (double lambda : lambda_values(kOp, lambda_)) {
      result.push_back(chebyshev_coefficients(lambda, structure_->spectrum, structure_->options.tolerance));
    }
    return result;
  }

  std::shared_ptr<const Structure> structure_;
  at::Tensor lambda_;
};

}  // namespace

MaskPtr diffusion_mask(const Graph& graph, const at::Tensor& lambda, const DiffusionOptions& options) {
  check_lambda(kOp, lambda);
  TORCH_CHECK(lambda.scalar_type() == graph.weights().scalar_type(), kOp, ": lambda must be ",
              graph.weights().scalar_type(), " as the graph's weights are, got ", describe(lambda));
  TORCH_CHECK(lambda.device() == graph.device(), kOp, ": lambda must be on ", graph.device(), " as the graph is, got ",
              describe(lambda));
  TORCH_CHECK(options.tolerance > 0 && options.tolerance < 1, kOp, ": tolerance must be in (0, 1), got ",
              options.tolerance);
  GeneratorMatrix matrix = generator_matrix(kOp, graph, options.generator);
  const Spectrum spectrum = spectrum_bounds(matrix, options.generator);
  auto mask = std::make_shared<DiffusionMask>(
      std::make_shared<const Structure>(Structure{graph, options, std::move(matrix), spectrum}), lambda);
  mask->degree();  // a λ too large is refused here
  return mask;
}

int64_t chebyshev_degree(const Mask& mask) {
  const auto* diffusion = dynamic_cast<const DiffusionMask*>(&mask);
  TORCH_CHECK(diffusion != nullptr, "chebyshev_degree: mask must be a diffusion mask, got ", mask.name());
  return diffusion->degree();
}

}  // namespace topomask
