#include <ATen/ATen.h>

#include "core/move.h"
#include "core/ordered_sums.h"
#include "core/plain_ops.h"
#include "graph/weights.h"
#include "masks/encodings/parameter.h"
#include "ops/table_lookup/op.h"
#include "topomask/encodings.h"

namespace topomask {
namespace {

constexpr const char* kShortestPathMaskOp = "shortest_path_mask";

class ShortestPathMask final : public Mask {
 public:
  ShortestPathMask(at::Tensor places, at::Tensor bias) : places_(std::move(places)), bias_(std::move(bias)) {}

  std::string name() const override { return "shortest path"; }
  int64_t size() const override { return places_.size(0); }
  int64_t heads() const override { return row_heads(bias_); }
  std::optional<at::ScalarType> dtype() const override { return bias_.scalar_type(); }
  std::vector<at::Tensor> parameters() const override { return {bias_}; }

  MaskCounts counts() const override {
    const auto n = static_cast<double>(size());
    return {.operator_work = n * n, .dense_work = n * n, .tiles = TileKind::places};
  }

  at::Tensor dense() const override {
    return ops::table_lookup::lookup(heads() == 1 ? bias_.reshape({-1}) : bias_, places_);
  }

  std::optional<MaskTiles> tiles() const override {
    return MaskTiles{.kind = TileKind::places, .values = bias_.reshape({heads(), -1}), .index = places_};
  }

  MaskPtr rebuild(const std::vector<at::Tensor>& parameters) const override {
    return std::make_shared<ShortestPathMask>(places_, parameters[0]);
  }
  MaskPtr to(const at::TensorOptions& target) const override {
    if (is_at(bias_, target)) return shared_from_this();
    return std::make_shared<ShortestPathMask>(moved(places_, target), bias_.to(target));
  }

  at::Tensor apply(const at::Tensor& x) const override {
    const PlainOps plain;
    return ordered_matmul(dense(), x);
  }
  at::Tensor apply_transposed(const at::Tensor& x) const override {
    const PlainOps plain;
    return ordered_matmul(dense().mT(), x);
  }

  std::vector<at::Tensor> parameter_gradients(const at::Tensor& x, const at::Tensor& grad) const override {
    const PlainOps plain;
    const at::Tensor matrix = outer_sums(grad, x);
    return {ops::table_lookup::sums(matrix, places_, bias_.size(-1)).view_as(bias_)};
  }

 private:
  at::Tensor places_;  // int16 [N, N]: of each pair, in the bias
  at::Tensor bias_;
};

}  // namespace

MaskPtr shortest_path_mask(const at::Tensor& distances, const at::Tensor& bias) {
  TORCH_CHECK(distances.defined() && distances.dim() == 2 && distances.size(0) == distances.size(1) &&
                  distances.scalar_type() == at::kInt,
              kShortestPathMaskOp, ": distances must be Int [N, N], got ", describe(distances));
  check_rows(kShortestPathMaskOp, "bias", bias, 2);
  const int64_t none = bias.size(-1) - 1;
  const at::Tensor places =
      distances.clamp_max(none - 1).masked_fill_(distances < 0, none).to(bias.device(), at::kShort);
  return std::make_shared<ShortestPathMask>(places, bias);
}

MaskPtr shortest_path_mask(const Graph& graph, const at::Tensor& bias, const ShortestPathOptions& options) {
  check_constant_weights(kShortestPathMaskOp, "graph", graph, "distances are counted in hops");
  check_rows(kShortestPathMaskOp, "bias", bias, 2);
  return shortest_path_mask(shortest_paths(graph, options), bias);
}

}  // namespace topomask
