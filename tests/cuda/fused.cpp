// The fused route in bfloat16 against the dense one in double, over several tiles each way.

#include "cuda/device.h"
#include "ops/fused_attention/op.h"
#include "support/compare.h"
#include "support/mask_contract.h"
#include "topomask/attention.h"
#include "topomask/diffusion.h"
#include "topomask/encodings.h"
#include "topomask/global_tokens.h"
#include "topomask/masks.h"
#include "topomask/toeplitz.h"

namespace topomask {
namespace {

using testing::close;
using testing::gradients;
using testing::normal;
using FusedOnGpu = testing::OnGpu;

std::vector<MaskPtr> every_kind_on_gpu(int64_t heads) {
  const auto positive = [&](at::IntArrayRef shape, uint64_t seed) {
    std::vector<int64_t> all{heads};
    all.insert(all.end(), shape.begin(), shape.end());
    return (normal(all, seed).abs() + 0.1).to(at::kFloat).requires_grad_();
  };
  const MaskPtr grid = toeplitz_mask({18, 19}, positive({35, 37}, 2));
  return {none_mask(270),
          causal_mask(300),
          toeplitz_mask({300}, positive({599}, 1)),
          grid,
          toeplitz_mask({36, 36}, positive({71, 71}, 11)),
          toeplitz_mask({3, 40, 41}, positive({5, 79, 81}, 3)),  // tiles across planes see long windows
          dense_mask(positive({280, 280}, 4)),
          shortest_path_mask(at::randint(-1, 90, {290, 290}, at::kInt), positive({80}, 5)),
          hypercube_diffusion_mask(8, at::full({heads}, 0.2F).requires_grad_()),
          with_global_tokens(causal_mask(280), 3),
          with_global_tokens(grid, 2),
          with_global_tokens(dense_mask(positive({260, 260}, 8)), 5)};
}

TEST_F(FusedOnGpu, IsTheDenseRoute) {
  for (const int64_t heads : {1, 2}) {
    for (const MaskPtr& mask : every_kind_on_gpu(heads)) {
      const MaskPtr there = mask->to(gpu_), wide = mask->to(at::TensorOptions(gpu_).dtype(at::kDouble));
      const auto at_random = [&](int64_t width, uint64_t seed) {
        return normal({2, mask->size(), 2, width}, seed).to(gpu_, at::kBFloat16);
      };
      for (const int64_t width : {24, 100}) {
        const at::Tensor q = at_random(width, 1).abs(), k = at_random(width, 2).abs(), v = at_random(40, 3);
        const at::Tensor cotangent = at_random(40, 4).transpose(1, 2);
        const auto compare = [&](const char* what, const auto& attend) {
          const auto all = [&](const MaskPtr& used, Route route, at::ScalarType type) {
            std::vector<at::Tensor> inputs;
            for (const at::Tensor& x : {q, k, v}) inputs.push_back(x.to(type).requires_grad_());
            const at::Tensor out =
                attend(inputs[0].transpose(1, 2), inputs[1].transpose(1, 2), inputs[2].transpose(1, 2), used, route);
            for (const at::Tensor& p : mask->parameters()) inputs.push_back(p);
            auto result = gradients(out, cotangent.to(type), inputs);
            result.push_back(out);
            return result;
          };
          const auto actual = all(there, Route::fused, at::kBFloat16), expected = all(wide, Route::dense, at::kDouble);
          for (size_t i = 0; i < expected.size(); ++i) {
            EXPECT_TRUE(close(actual[i], expected[i], 0.02, 1e-3))
                << mask->name() << ", " << what << ", width " << width << ", tensor " << i;
          }
        };
        compare("kernel", [](const auto& a, const auto& b, const auto& c, const MaskPtr& used, Route route) {
          return attention(a, b, c, used, {.features = FeatureMap::identity(), .route = route});
        });
        for (const SoftmaxMask way : {SoftmaxMask::additive, SoftmaxMask::multiplicative}) {
          compare(way == SoftmaxMask::additive ? "additive" : "multiplicative",
                  [way](const auto& a, const auto& b, const auto& c, const MaskPtr& used, Route route) {
                    return softmax_attention(a, b, c, used, {.mask = way, .route = route});
                  });
        }
      }
    }
  }
}

}  // namespace
}  // namespace topomask
