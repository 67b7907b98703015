#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "core/move.h"
#include "core/ordered_sums.h"
#include "masks/encodings/factor_mask.h"
#include "masks/encodings/parameter.h"
#include "topomask/encodings.h"

namespace topomask {
namespace {

constexpr const char* kStochasticPositionalOp = "stochastic_positional_mask";

/// Parameters: frequencies, amplitudes and, where given, phases.
class StochasticPositionalMask final : public FactorMask {
 public:
  /// `noise` [2K, r] or [H, 2K, r], or undefined for the expectation.
  StochasticPositionalMask(int64_t nodes, at::Tensor noise, const std::vector<at::Tensor>& parameters)
      : FactorMask("stochastic positions", nodes, noise.defined() ? noise.size(-1) : 2 * parameters[0].size(-1),
                   row_heads(parameters[0]), parameters),
        noise_(std::move(noise)) {}

  MaskPtr rebuild(const std::vector<at::Tensor>& parameters) const override {
    return std::make_shared<StochasticPositionalMask>(size(), noise_, parameters);
  }
  MaskPtr to(const at::TensorOptions& target) const override {
    if (is_at(parameters()[0], target)) return shared_from_this();
    std::vector<at::Tensor> converted = parameters();
    for (at::Tensor& parameter : converted) parameter = parameter.to(target);
    return std::make_shared<StochasticPositionalMask>(size(), noise_.defined() ? noise_.to(target) : noise_, converted);
  }

 protected:
  Sides sides(const std::vector<at::Tensor>& parameters) const override {
    // In double: the angle of a late position has lost its fraction in single precision.
    const at::Tensor positions =
        at::arange(size(), at::dtype(at::kDouble).device(parameters[0].device())).unsqueeze(-1);
    const at::Tensor angles = positions * parameters[0].to(at::kDouble).unsqueeze(-2);
    const auto features = [&](const at::Tensor& angle) {
      const at::Tensor amplitudes = at::cat({parameters[1], parameters[1]}, -1).unsqueeze(-2);
      const at::Tensor waves = at::cat({angle.cos(), angle.sin()}, -1).to(*dtype()) * amplitudes;
      return noise_.defined() ? ordered_matmul(waves, noise_) : waves;
    };
    if (parameters.size() == 2) return {features(angles)};
    return {features(angles + parameters[2].unsqueeze(-2)), features(angles)};
  }

  double sides_work() const override {
    constexpr double kWave = 20;  // a sine or cosine, in multiply-adds
    const double columns = noise_.defined() ? static_cast<double>(noise_.size(-1)) : 0;
    const auto waves = static_cast<double>(2 * parameters()[0].size(-1) * size());
    return static_cast<double>(parameters().size() - 1) * waves * (kWave + columns);
  }

 private:
  at::Tensor noise_;
};

void check_like(const char* name, const at::Tensor& parameter, const at::Tensor& frequencies) {
  TORCH_CHECK(parameter.defined() && parameter.sizes() == frequencies.sizes() &&
                  parameter.scalar_type() == frequencies.scalar_type() && parameter.device() == frequencies.device(),
              kStochasticPositionalOp, ": ", name, " must be like frequencies, ", describe(frequencies), ", got ",
              describe(parameter));
  check_finite(kStochasticPositionalOp, name, parameter);
}

}  // namespace

MaskPtr stochastic_positional_mask(int64_t nodes, const at::Tensor& frequencies, const at::Tensor& amplitudes,
                                   const at::Tensor& phases, const StochasticPositionalOptions& options) {
  TORCH_CHECK(nodes >= 0 && nodes <= std::numeric_limits<int32_t>::max(), kStochasticPositionalOp,
              ": nodes must be in [0, 2^31-1], got ", nodes);
  check_rows(kStochasticPositionalOp, "frequencies", frequencies, 1);
  check_like("amplitudes", amplitudes, frequencies);
  std::vector<at::Tensor> parameters{frequencies, amplitudes};
  if (phases.defined()) {
    check_like("phases", phases, frequencies);
    parameters.push_back(phases);
  }
  TORCH_CHECK(options.realisations >= 0, kStochasticPositionalOp, ": realisations must be >= 0, got ",
              options.realisations);
  at::Tensor noise;
  if (options.realisations > 0) {
    std::vector<int64_t> shape = frequencies.sizes().vec();
    shape.back() *= 2;
    shape.push_back(options.realisations);
    checked_product(kStochasticPositionalOp, "the random numbers, waves x realisations,", shape, kMostNumbers);
    noise = at::randn(shape, at::detail::createCPUGenerator(options.seed), at::dtype(at::kDouble)) /
            std::sqrt(static_cast<double>(options.realisations));
  }
  return std::make_shared<StochasticPositionalMask>(
      nodes, noise.defined() ? noise.to(frequencies.options().requires_grad(false)) : noise, parameters);
}

}  // namespace topomask
