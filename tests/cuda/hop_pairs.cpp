#include "cuda/on_cuda.h"
#include "masks/grf/learned_product.h"
#include "ops/hop_pairs/op.h"
#include "support/compare.h"
#include "support/mask_contract.h"
#include "support/parameter_changes.h"

namespace topomask {
namespace {

using HopPairsCuda = testing::OnCuda;

std::vector<at::Tensor> side_of(const WalkTable& walks) {
  return {walks.pattern()->offsets(), walks.pattern()->columns(), walks.feature_offsets(), walks.hops(), walks.loads()};
}

TEST_F(HopPairsCuda, AreTheCpus) {
  const Graph graph = Graph::grid({19, 23}).normalised().to(at::kDouble);
  for (const int64_t terms : {1, 6, 22}) {
    const WalkTable here = sample_walks(graph, {.walkers = 4, .max_hops = 30, .seed = 1}), there = here.to(cuda_);
    const PatternPtr product = here.pattern()->product(here.pattern()), moved = product->to(cuda_);
    constexpr int64_t kAny = int64_t{1} << 40;
    const auto want =
        ops::hop_pairs::make(side_of(here), side_of(here), {product->offsets(), product->columns()}, terms, kAny);
    const auto got =
        ops::hop_pairs::make(side_of(there), side_of(there), {moved->offsets(), moved->columns()}, terms, kAny);
    EXPECT_TRUE(std::get<0>(got).cpu().equal(std::get<0>(want)));
    EXPECT_TRUE(std::get<1>(got).cpu().equal(std::get<1>(want)));
    EXPECT_TRUE(testing::close(std::get<2>(got).cpu(), std::get<2>(want), 1e-13));
    for (const int64_t heads : {1, 4, 5}) {
      const at::Tensor g = testing::normal({heads, ops::hop_pairs::pair_count(terms)}, 1);
      const at::Tensor slope = testing::normal({heads, product->entries()}, 2);
      const auto& [o, p, s] = want;
      const auto& [ot, pt, st] = got;
      EXPECT_TRUE(testing::close(ops::hop_pairs::values(g.to(cuda_), ot, pt, st).cpu(),
                                 ops::hop_pairs::values(g, o, p, s), 1e-12));
      EXPECT_TRUE(testing::close(ops::hop_pairs::backward(slope.to(cuda_), ot, pt, st, g.size(1)).cpu(),
                                 ops::hop_pairs::backward(slope, o, p, s, g.size(1)), 1e-11));
    }
  }
}

TEST_F(HopPairsCuda, ServeMasksThere) {
  const WalkTable here = sample_walks(Graph::grid({9, 7}).normalised().to(at::kDouble), {.walkers = 2, .max_hops = 6}),
                  there = here.to(cuda_);
  const at::Tensor start = testing::normal({3, 5}, 2), f = start.clone().requires_grad_(),
                   f_there = start.to(cuda_).requires_grad_();
  const at::Tensor slope = testing::normal({3, 63, 63}, 4);
  const at::Tensor want = testing::gradients(grf_mask(here, f)->sparse()->dense(), slope, {f})[0];
  for (int step = 0; step < 4; ++step) {
    const at::Tensor m = grf_mask(there, f_there)->sparse()->dense();
    EXPECT_TRUE(testing::close(testing::gradients(m, slope.to(cuda_), {f_there})[0].cpu(), want, 1e-11));
  }
  EXPECT_TRUE(LearnedProduct::of(there, 5)->has_lists());
}

/// A table there computes from a copy of its own, with lists and without: nothing waits to see whether loads changed.
TEST_F(HopPairsCuda, StayTrueWhenLoadsAreWritten) {
  const WalkTable here = sample_walks(Graph::grid({9, 7}).normalised().to(at::kDouble), {.walkers = 2, .max_hops = 6}),
                  there = here.to(cuda_);
  const at::Tensor f = testing::normal({3, 5}, 2).to(cuda_).requires_grad_();
  const MaskPtr mask = grf_mask(there, f);
  const at::Tensor expected = mask->sparse()->dense().detach().clone();
  EXPECT_TRUE(LearnedProduct::of(there, 5)->has_lists());
  for (const testing::ParameterChange& change : testing::parameter_changes()) {
    if (!change.on_cuda) continue;
    at::Tensor loads = there.loads();
    change.write(loads);
    for (const MaskPtr& m : {mask, grf_mask(there, f), grf_mask(there, f)->frozen()}) {
      EXPECT_TRUE(testing::close(m->sparse()->dense(), expected, 1e-12)) << change.name;
      const at::NoGradGuard no_grad;
      EXPECT_TRUE(testing::close(m->sparse()->dense(), expected, 1e-12)) << change.name << ", not recorded";
      EXPECT_TRUE(testing::close(m->dense(), expected, 1e-12)) << change.name << ", dense";
    }
    EXPECT_TRUE(there.to(at::kCPU).loads().equal(here.loads())) << change.name;
  }
}

/// Walks that meet too often for lists: places of one byte, of two, and rows too long for either.
TEST_F(HopPairsCuda, LongWalksHavePlaces) {
  for (const auto& [side, walkers, served] :
       std::vector<std::tuple<int64_t, int64_t, bool>>{{15, 20, true}, {40, 36, true}, {30, 400, false}}) {
    const WalkOptions options{.walkers = walkers, .halting_probability = 0.1, .max_hops = 10, .seed = 3};
    const WalkTable here = sample_walks(Graph::grid({side, side}).normalised().to(at::kDouble), options),
                    there = here.to(cuda_);
    for (const at::Tensor& start : {testing::normal({7}, 1), testing::normal({3, 9}, 2)}) {
      const at::Tensor f = start.clone().requires_grad_(), f_there = start.to(cuda_).requires_grad_();
      const at::Tensor m = grf_mask(here, f)->sparse()->values, slope = testing::normal(m.sizes(), 4);
      const at::Tensor want = testing::gradients(m, slope, {f})[0];
      for (int step = 0; step < 4; ++step) {
        const at::Tensor got = grf_mask(there, f_there)->sparse()->values;
        EXPECT_TRUE(testing::close(got.cpu(), m, 1e-11));
        EXPECT_TRUE(testing::close(testing::gradients(got, slope.to(cuda_), {f_there})[0].cpu(), want, 1e-10));
      }
      EXPECT_EQ(LearnedProduct::of(there, f.size(-1))->has_places(), served);
    }
  }
}

}  // namespace
}  // namespace topomask
