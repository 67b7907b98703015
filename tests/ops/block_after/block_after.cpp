#include <ATen/ATen.h>

#include "ops/block_after/op.h"
#include "support/compare.h"

// tests/python/package/test_rowwise.py compares values and gradients with the modules.

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

}  // namespace
}  // namespace topomask
