#include <ATen/ATen.h>

#include <numbers>

#include "core/move.h"
#include "graph/weights.h"
#include "masks/encodings/factor_mask.h"
#include "masks/encodings/parameter.h"
#include "ops/table_lookup/op.h"
#include "topomask/encodings.h"

namespace topomask {
namespace {

constexpr const char* kCentralityOp = "centrality_mask";

class CentralityMask final : public FactorMask {
 public:
  CentralityMask(at::Tensor degrees, const at::Tensor& z, const CentralityOptions& options)
      : FactorMask("centrality", degrees.size(0), /*width=*/2, row_heads(z), {z}),
        degrees_(std::move(degrees)),
        options_(options) {}

  MaskPtr rebuild(const std::vector<at::Tensor>& parameters) const override {
    return std::make_shared<CentralityMask>(degrees_, parameters[0], options_);
  }
  MaskPtr to(const at::TensorOptions& target) const override {
    if (is_at(parameters()[0], target)) return shared_from_this();
    return std::make_shared<CentralityMask>(moved(degrees_, target), parameters()[0].to(target), options_);
  }

 protected:
  /// sin(a_i + a_j) = (sin a_i, cos a_i)·(cos a_j, sin a_j).
  Sides sides(const std::vector<at::Tensor>& parameters) const override {
    const at::Tensor z = options_.logits ? parameters[0].sigmoid() : parameters[0];
    const at::Tensor angle = ops::table_lookup::lookup(z * (std::numbers::pi / 4), degrees_);
    const at::Tensor sine = angle.sin(), cosine = angle.cos();
    return {at::stack({sine, cosine}, -1), at::stack({cosine, sine}, -1)};
  }
  double sides_work() const override { return 6 * static_cast<double>(size()); }

 private:
  at::Tensor degrees_;  // int16 [N], at most K − 1
  CentralityOptions options_;
};

}  // namespace

MaskPtr centrality_mask(const Graph& graph, const at::Tensor& z, const CentralityOptions& options) {
  check_constant_weights(kCentralityOp, "graph", graph, "degrees count neighbours");
  check_rows(kCentralityOp, "z", z, 1);
  if (!options.logits && z.is_cpu()) {
    const double low = z.min().item<double>(), high = z.max().item<double>();
    TORCH_CHECK(low >= 0 && high <= 1, kCentralityOp, ": z must be in [0, 1], or logits, got ", low < 0 ? low : high);
  }
  return std::make_shared<CentralityMask>(graph.degrees().clamp_max(z.size(-1) - 1).to(z.device(), at::kShort), z,
                                          options);
}

}  // namespace topomask
