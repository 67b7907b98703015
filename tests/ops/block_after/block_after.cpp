#include <ATen/ATen.h>

#include "ops/block_after/op.h"
#include "ops/call.h"
#include "support/compare.h"

// tests/python/package/test_rowwise.py compares values and gradients with the modules of torch.

namespace topomask {
namespace {

/// Arguments that fit one another; a test replaces one of them.
struct Layers {
  at::Tensor x = at::rand({5, 32}), out = at::rand({2, 5, 16}), wp = at::rand({32, 32}), bp = at::rand({32}),
             norm_weight = at::rand({32}), norm_bias = at::rand({32}), w1 = at::rand({64, 32}), b1 = at::rand({64}),
             w2 = at::rand({32, 64}), b2 = at::rand({32}), grad = at::rand({5, 32});
  void check() const { ops::block_after::check(x, out, wp, bp, norm_weight, norm_bias, w1, b1, w2, b2); }
  void check_backward() const {
    ops::block_after::check_backward(grad, x, out, wp, bp, norm_weight, norm_bias, w1, b1, w2);
  }
};

TEST(BlockAfter, ChecksEveryTensorThatItReads) {
  EXPECT_NO_THROW(Layers().check());
  EXPECT_NO_THROW(Layers().check_backward());
  const auto expect_refused = [](at::Tensor Layers::*which, const char* text) {
    Layers layers;
    layers.*which = (layers.*which).slice(0, 1);
    EXPECT_ERROR(layers.check(), std::string("block_after: ") + text);
    if (which != &Layers::b2) EXPECT_ERROR(layers.check_backward(), std::string("block_after_backward: ") + text);
  };
  expect_refused(&Layers::wp, "wp must be Float [32, 32], got Float[31, 32]");
  expect_refused(&Layers::bp, "bp must be Float [32], got Float[31]");
  expect_refused(&Layers::norm_weight, "norm_weight must be Float [32], got Float[31]");
  expect_refused(&Layers::norm_bias, "norm_bias must be Float [32], got Float[31]");
  expect_refused(&Layers::w1, "w1 must have a multiple of 16 rows, got Float[63, 32]");
  expect_refused(&Layers::b1, "b1 must be Float [64], got Float[63]");
  expect_refused(&Layers::w2, "w2 must be Float [32, 64], got Float[31, 64]");
  expect_refused(&Layers::b2, "b2 must be Float [32], got Float[31]");
  Layers layers;
  layers.grad = layers.grad.t();
  EXPECT_ERROR(layers.check_backward(), "block_after_backward: grad must be Float [5, 32]");
}

at::Tensor forward(const Layers& l, bool low) {
  const at::Tensor &x = l.x, &out = l.out;
  return ops::call<"block_after", at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                             const at::Tensor&, const at::Tensor&, double, const at::Tensor&,
                                             const at::Tensor&, const at::Tensor&, const at::Tensor&, bool)>(
      x, out, l.wp, l.bp, l.norm_weight, l.norm_bias, 1e-5, l.w1, l.b1, l.w2, l.b2, low);
}

std::vector<at::Tensor> backward(const Layers& l) {
  return ops::call<"block_after_backward",
                   std::vector<at::Tensor>(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                           const at::Tensor&, const at::Tensor&, const at::Tensor&, double,
                                           const at::Tensor&, const at::Tensor&, const at::Tensor&, bool)>(
      l.grad, l.x, l.out, l.wp, l.bp, l.norm_weight, l.norm_bias, 1e-5, l.w1, l.b1, l.w2, false);
}

/// The definition with operations of torch.
at::Tensor expected(const Layers& l) {
  const at::Tensor rows = l.out.transpose(0, 1).reshape(l.x.sizes());
  const at::Tensor y = l.x + at::linear(rows, l.wp, l.bp);
  const at::Tensor hidden = at::linear(at::layer_norm(y, {y.size(1)}, l.norm_weight, l.norm_bias, 1e-5), l.w1, l.b1);
  return y + at::linear(at::gelu(hidden), l.w2, l.b2);
}

TEST(BlockAfter, IsItsDefinitionWithGradients) {
  Layers l;
  std::vector<at::Tensor*> of_gradients{&l.x,         &l.out, &l.wp, &l.bp, &l.norm_weight,
                                        &l.norm_bias, &l.w1,  &l.b1, &l.w2, &l.b2};
  // More rows than a chunk has.
  l.x = at::empty({5000, 32}), l.out = at::empty({2, 5000, 16}), l.grad = at::randn({5000, 32}, at::kDouble);
  for (at::Tensor* tensor : of_gradients) *tensor = at::randn(tensor->sizes(), at::kDouble).requires_grad_();
  std::vector<at::Tensor> leaves;
  for (const at::Tensor* tensor : of_gradients) leaves.push_back(*tensor);
  const at::Tensor out = expected(l);
  const std::vector<at::Tensor> want = testing::gradients(out, l.grad, leaves);
  for (at::Tensor* tensor : of_gradients) *tensor = tensor->detach();
  EXPECT_TRUE(testing::close(forward(l, false), out, 1e-12));
  const std::vector<at::Tensor> got = backward(l);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(testing::close(got[i], want[i], 1e-11)) << i;
}

TEST(BlockAfter, InBFloat16StaysNearItsDefinition) {
  Layers l;
  EXPECT_TRUE(testing::close(forward(l, true), expected(l), 2e-2));
}

}  // namespace
}  // namespace topomask
