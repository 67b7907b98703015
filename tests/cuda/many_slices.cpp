// More slices (b, h), heads or clouds than a grid has blocks along y or z, 65535.

#include <functional>

#include "cuda/on_cuda.h"
#include "support/compare.h"
#include "support/mask_contract.h"
#include "topomask/attention.h"
#include "topomask/encodings.h"
#include "topomask/forest.h"
#include "topomask/grf.h"
#include "topomask/masks.h"
#include "topomask/neighbour_walks.h"
#include "topomask/toeplitz.h"

namespace topomask {
namespace {

using testing::close;
using testing::gradients;
using testing::normal;
using ManySlices = testing::OnCuda;

constexpr int64_t kMany = 70000, kNodes = 5;

/// One mask for every way in which a gradient of a mask is summed.
std::vector<MaskPtr> learned_masks(int64_t heads) {
  const auto positive = [&](at::IntArrayRef shape, uint64_t seed) {
    std::vector<int64_t> all{heads};
    all.insert(all.end(), shape.begin(), shape.end());
    return (normal(all, seed).abs() + 0.1).to(at::kFloat).requires_grad_();
  };
  const at::Tensor places = at::arange(kNodes, at::kInt);
  return {toeplitz_mask({kNodes}, positive({2 * kNodes - 1}, 1)), dense_mask(positive({kNodes, kNodes}, 2)),
          shortest_path_mask((places.unsqueeze(0) - places.unsqueeze(1)).abs(), positive({kNodes}, 3)),
          free_features_mask(positive({kNodes, 3}, 4), positive({kNodes, 3}, 5))};
}

struct Attended {
  const char* name;
  std::function<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, const MaskPtr&, Route)> function;
};

/// Output and all gradients of the fused route against the dense one in double.
void expect_dense_route(const MaskPtr& mask, int64_t batch, int64_t heads, at::ScalarType dtype, double tolerance,
                        const Attended& attended, at::Device cuda) {
  const MaskPtr there = mask->to(cuda), wide = mask->to(at::TensorOptions(cuda).dtype(at::kDouble));
  const auto rows = [&](uint64_t seed) { return normal({batch, heads, kNodes, 8}, seed).to(cuda, dtype); };
  const at::Tensor q = rows(1).abs(), k = rows(2).abs(), v = rows(3), cotangent = rows(4);
  const auto all = [&](const MaskPtr& used, Route route, at::ScalarType type) {
    std::vector<at::Tensor> inputs;
    for (const at::Tensor& x : {q, k, v}) inputs.push_back(x.to(type).requires_grad_());
    const at::Tensor out = attended.function(inputs[0], inputs[1], inputs[2], used, route);
    for (const at::Tensor& p : mask->parameters()) inputs.push_back(p);
    auto result = gradients(out, cotangent.to(type), inputs);
    result.push_back(out);
    return result;
  };
  const auto actual = all(there, Route::fused, dtype), expected = all(wide, Route::dense, at::kDouble);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(close(actual[i], expected[i], tolerance, 1e-3))
        << mask->name() << ", " << attended.name << ", " << dtype << ", [" << batch << ", " << heads << "], tensor "
        << i;
  }
}

std::vector<Attended> all_weightings() {
  std::vector<Attended> all{{"kernel", [](const auto& q, const auto& k, const auto& v, const MaskPtr& m, Route route) {
                               return attention(q, k, v, m, {.features = FeatureMap::identity(), .route = route});
                             }}};
  for (const SoftmaxMask way : {SoftmaxMask::additive, SoftmaxMask::multiplicative}) {
    all.push_back({way == SoftmaxMask::additive ? "additive" : "multiplicative",
                   [way](const auto& q, const auto& k, const auto& v, const MaskPtr& m, Route route) {
                     return softmax_attention(q, k, v, m, {.mask = way, .route = route});
                   }});
  }
  return all;
}

/// A batch beyond the limit, with one head of the mask for all slices and with one for each of two.
TEST_F(ManySlices, OfFusedAttentionAreTheDenseRoute) {
  for (const int64_t heads : {1, 2}) {
    for (const MaskPtr& mask : learned_masks(heads)) {
      for (const Attended& attended : all_weightings()) {
        expect_dense_route(mask, kMany / heads, heads, at::kFloat, 5e-5, attended, cuda_);
        expect_dense_route(mask, kMany / heads, heads, at::kBFloat16, 0.02, attended, cuda_);
      }
    }
  }
}

/// So many heads of the mask: their gradients lie along y as well.
TEST_F(ManySlices, OfFusedAttentionMayBeHeadsOfTheMask) {
  for (const MaskPtr& mask : learned_masks(kMany)) {
    expect_dense_route(mask, 2, kMany, at::kFloat, 5e-5, all_weightings()[0], cuda_);
    expect_dense_route(mask, 2, kMany, at::kBFloat16, 0.02, all_weightings()[0], cuda_);
  }
}

/// The route that the planner chooses is taken without an error.
TEST_F(ManySlices, AreTakenByTheRouteThatIsPlanned) {
  const at::Tensor x = normal({kMany, 1, kNodes, 8}, 1).to(cuda_, at::kFloat);
  for (const MaskPtr& mask : learned_masks(1)) {
    const MaskPtr there = mask->to(cuda_);
    const Plan plan = explain(x, x, x, there);
    EXPECT_TRUE(close(attention(x, x, x, there), attention(x, x, x, there, {.route = Route::dense}), 1e-4)) << plan;
  }
}

/// M·x of 20 nodes, more than are multiplied as one block, with the gradients of x and of the mask's parameters.
TEST_F(ManySlices, OfForestsAreTheCpus) {
  constexpr int64_t kLong = 20;
  using F = DistanceFunction;
  const at::Tensor path = at::arange(-1, kLong - 1, at::kLong);
  const Forest counted(path, at::ones({kLong}, at::kDouble)), measured(path, at::full({kLong}, 0.3, at::kDouble));
  for (const int64_t heads : {1, 2}) {
    const at::Tensor rate = at::full({heads}, -0.3, at::kDouble).requires_grad_();
    const at::Tensor table = normal({heads, kLong}, 1).requires_grad_();
    for (const MaskPtr& here : {tree_mask(counted, F::exponential(rate)), tree_mask(counted, F::table(table)),
                                tree_mask(measured, F::polynomial({1.0, -0.5, 0.02}))}) {
      const MaskPtr there = here->to(cuda_);
      const at::Tensor x = normal({kMany / heads, heads, kLong, 2}, 2).requires_grad_();
      const at::Tensor cotangent = normal(x.sizes(), 3);
      std::vector<at::Tensor> inputs{x};
      for (const at::Tensor& p : here->parameters()) {
        if (p.requires_grad()) inputs.push_back(p);
      }
      const at::Tensor y = here->matmul(x), moved = there->matmul(x.to(cuda_));
      EXPECT_TRUE(close(moved.cpu(), y, 1e-9)) << here->name();
      const auto expected = gradients(y, cotangent, inputs), actual = gradients(moved, cotangent.to(cuda_), inputs);
      for (size_t i = 0; i < inputs.size(); ++i) {
        EXPECT_TRUE(close(actual[i], expected[i], 1e-8)) << here->name() << ", gradient " << i;
      }
    }
  }
}

/// Values of Φ̂Φ̂ᵀ of so many heads of f, and their gradients: by lists of hop pairs and by the product of features.
TEST_F(ManySlices, OfWalksMayBeHeadsOfTheFunction) {
  const Graph graph = Graph::path(6).to(at::kDouble).normalised();
  const WalkTable here = sample_walks(graph, {.walkers = 2, .max_hops = 3, .seed = 1}), there = here.to(cuda_);
  const at::Tensor f = normal({kMany, 4}, 1).requires_grad_();
  const at::Tensor expected = grf_mask(here, f)->sparse()->values;
  const at::Tensor cotangent = normal(expected.sizes(), 2);
  const at::Tensor gradient = gradients(expected, cotangent, {f})[0];
  for (int step = 0; step < 4; ++step) {  // lists are made where a table is used again
    const at::Tensor moved = f.detach().to(cuda_).requires_grad_();
    const at::Tensor actual = grf_mask(there, moved)->sparse()->values;
    EXPECT_TRUE(close(actual.cpu(), expected, 1e-11)) << "step " << step;
    EXPECT_TRUE(close(gradients(actual, cotangent.to(cuda_), {moved})[0].cpu(), gradient, 1e-10)) << "step " << step;
  }
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(close(grf_mask(there, f.to(cuda_))->sparse()->values.cpu(), expected, 1e-11));
}

TEST_F(ManySlices, MayBeCloudsOfPoints) {
  const at::Tensor points = normal({kMany, 4, 3}, 1);
  EXPECT_TRUE(cloud_neighbours(points.to(cuda_), 2).cpu().equal(cloud_neighbours(points, 2)));
}

}  // namespace
}  // namespace topomask
