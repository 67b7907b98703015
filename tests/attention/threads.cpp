// Softmax attention at sizes at which torch shares out products, sums and exponentials among its threads.

#include <ATen/Parallel.h>

#include "support/compare.h"
#include "support/mask_contract.h"
#include "topomask/attention.h"
#include "topomask/masks.h"

namespace topomask {
namespace {

using testing::normal;

struct Shape {
  int64_t batch, heads, nodes, width;
};

/// The output and the gradients of q, k, v and M.
std::vector<at::Tensor> computed(const Shape& shape, at::ScalarType type, const SoftmaxOptions& options) {
  const auto random = [&](at::IntArrayRef sizes, uint64_t seed) {
    return normal(sizes, seed).to(type).requires_grad_();
  };
  const auto rows = [&](uint64_t seed) { return random({shape.batch, shape.heads, shape.nodes, shape.width}, seed); };
  const at::Tensor q = rows(1), k = rows(2), v = rows(3);
  const at::ScalarType wide = type == at::kDouble ? type : at::kFloat;
  const at::Tensor matrix = normal({shape.heads, shape.nodes, shape.nodes}, 4).abs().to(wide).requires_grad_();
  const at::Tensor out = softmax_attention(q, k, v, dense_mask(matrix), options);
  std::vector<at::Tensor> result = torch::autograd::grad({out}, {q, k, v, matrix}, {rows(5).detach()});
  result.push_back(out.detach());
  return result;
}

void expect_same_for_any_threads(const Shape& shape, at::ScalarType type, const SoftmaxOptions& options) {
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const std::vector<at::Tensor> expected = computed(shape, type, options);
  for (const int threads : {2, 3, 7}) {
    at::set_num_threads(threads);
    const std::vector<at::Tensor> got = computed(shape, type, options);
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(got[i].equal(expected[i])) << "result " << i << " of route " << to_string(options.route) << " with "
                                             << threads << " threads, " << shape.nodes << " nodes, " << type;
    }
  }
  at::set_num_threads(before);
}

TEST(SoftmaxThreads, DoNotChangeOutputsOrGradients) {
  for (const Shape& shape : {Shape{32, 3, 196, 16}, Shape{512, 1, 33, 8}, Shape{2, 2, 517, 5}, Shape{1, 1, 1201, 64}}) {
    for (const SoftmaxMask mode : {SoftmaxMask::additive, SoftmaxMask::multiplicative}) {
      for (const Route route : {Route::dense, Route::fused}) {
        expect_same_for_any_threads(shape, at::kFloat, {.mask = mode, .route = route});
      }
    }
  }
  expect_same_for_any_threads({2, 2, 517, 5}, at::kDouble, {.mask = SoftmaxMask::additive, .route = Route::dense});
  expect_same_for_any_threads({2, 2, 517, 5}, at::kBFloat16, {.route = Route::dense});
}

}  // namespace
}  // namespace topomask
