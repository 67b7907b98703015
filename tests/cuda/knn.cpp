#include "cuda/device.h"
#include "support/compare.h"

namespace topomask {
namespace {

using Knn = testing::OnGpu;

TEST_F(Knn, IsTheCpusGraph) {
  at::manual_seed(1);
  for (const int64_t dims : {1, 2, 3, 5}) {
    // Points on a lattice have ties everywhere.
    for (const at::Tensor& points : {at::rand({701, dims}), at::randint(0, 7, {350, dims}).to(at::kDouble)}) {
      for (const bool directed : {false, true}) {
        for (const int64_t k : {0, 1, 3, 7, 20}) {
          const Graph here = Graph::knn(points, {.k = k, .directed = directed});
          const Graph there = Graph::knn(points.to(gpu_), {.k = k, .directed = directed});
          EXPECT_EQ(there.device(), gpu_);
          EXPECT_TRUE(there.offsets().cpu().equal(here.offsets())) << dims << " dims, k " << k;
          EXPECT_TRUE(there.columns().cpu().equal(here.columns())) << dims << " dims, k " << k;
          EXPECT_TRUE(there.weights().cpu().equal(here.weights()));
        }
      }
    }
  }
}

TEST_F(Knn, OfTooManyNeighboursIsRefused) {
  EXPECT_ERROR(Graph::knn(at::rand({99, 3}, gpu_), {.k = 40}), "knn: k must be in [1, 32] on a GPU");
}

}  // namespace
}  // namespace topomask
