#include <ATen/ATen.h>

#include "core/checks.h"
#include "core/ordered_sums.h"
#include "topomask/masks.h"

namespace topomask {
namespace {

class NoneMask final : public Mask {
 public:
  explicit NoneMask(int64_t nodes) : nodes_(nodes) {}

  std::string name() const override { return "none"; }
  int64_t size() const override { return nodes_; }

  MaskCounts counts() const override {
    const auto n = static_cast<double>(nodes_);
    return {.operator_work = n,
            .factor_entries = 2 * n,
            .dense_factors = true,
            .dense_work = n * n,
            .tiles = TileKind::ones};
  }

  std::optional<Factors> factors() const override {
    const at::Tensor ones = at::ones({nodes_, 1});
    return Factors{{std::nullopt, ones}, {std::nullopt, ones}};
  }

  std::optional<MaskTiles> tiles() const override { return MaskTiles{.kind = TileKind::ones}; }

  MaskPtr to(const at::TensorOptions&) const override { return shared_from_this(); }
  at::Tensor apply(const at::Tensor& x) const override { return column_sums(x).expand_as(x).contiguous(); }
  at::Tensor apply_transposed(const at::Tensor& x) const override { return apply(x); }

 private:
  int64_t nodes_;
};

}  // namespace

MaskPtr none_mask(int64_t nodes) {
  TORCH_CHECK(nodes >= 0 && nodes <= std::numeric_limits<int32_t>::max(),
              "none_mask: nodes must be in [0, 2^31-1], got ", nodes);
  return std::make_shared<NoneMask>(nodes);
}

}  // namespace topomask
