// The example of docs/adding-a-mask.md, whole: a new mask needs nothing but this.

#include "support/compare.h"
#include "support/mask_contract.h"

namespace topomask {
namespace {

/// M_ij = a^|i−j| on a sequence, a learnable: two scans, O(N) per column.
class DecayMask final : public Mask {
 public:
  DecayMask(int64_t nodes, at::Tensor a) : nodes_(nodes), a_(std::move(a)) {}

  std::string name() const override { return "decay"; }
  int64_t size() const override { return nodes_; }
  std::optional<at::ScalarType> dtype() const override { return a_.scalar_type(); }
  std::vector<at::Tensor> parameters() const override { return {a_}; }
  MaskPtr to(const at::TensorOptions& target) const override {
    return std::make_shared<DecayMask>(nodes_, a_.to(target));
  }
  MaskPtr rebuild(const std::vector<at::Tensor>& parameters) const override {
    return std::make_shared<DecayMask>(nodes_, parameters[0]);
  }
  MaskCounts counts() const override {
    const auto n = static_cast<double>(nodes_);
    return {.operator_work = 2 * n, .dense_work = 2 * n * n};
  }

  at::Tensor apply(const at::Tensor& x) const override { return x + scan(x).value + scan(x.flip(-2)).value.flip(-2); }
  at::Tensor apply_transposed(const at::Tensor& x) const override { return apply(x); }  // M is symmetric
  std::vector<at::Tensor> parameter_gradients(const at::Tensor& x, const at::Tensor& grad) const override {
    return {(grad * (scan(x).slope + scan(x.flip(-2)).slope.flip(-2))).sum()};
  }

 private:
  struct Scan {
    at::Tensor value;  // s_i = a·(s_{i−1} + x_{i−1}): everything before i
    at::Tensor slope;  // ∂s_i/∂a
  };

  Scan scan(const at::Tensor& x) const {
    const double a = a_.item<double>();
    Scan s{at::zeros_like(x), at::zeros_like(x)};
    for (int64_t i = 1; i < nodes_; ++i) {
      const at::Tensor before = s.value.select(-2, i - 1) + x.select(-2, i - 1);
      s.value.select(-2, i).copy_(a * before);
      s.slope.select(-2, i).copy_(before + a * s.slope.select(-2, i - 1));
    }
    return s;
  }

  int64_t nodes_;
  at::Tensor a_;
};

TEST(ExampleMask, KeepsEveryPromiseOfAMask) {
  const at::Tensor a = at::scalar_tensor(0.6, at::kDouble).requires_grad_();
  for (int64_t nodes : {1, 2, 13}) {
    const at::Tensor place = at::arange(nodes, at::kDouble);
    const at::Tensor distance = (place.unsqueeze(0) - place.unsqueeze(1)).abs();
    testing::expect_mask_is(std::make_shared<DecayMask>(nodes, a), at::pow(a, distance));
  }
}

}  // namespace
}  // namespace topomask
