#include "cuda/on_cuda.h"
#include "ops/nearest_neighbours/op.h"
#include "support/compare.h"
#include "topomask/neighbour_walks.h"

namespace topomask {
namespace {

using Knn = testing::OnCuda;

TEST_F(Knn, IsTheCpusGraph) {
  at::manual_seed(1);
  for (const int64_t dims : {1, 2, 3, 5}) {
    // Points on a lattice have ties everywhere.
    for (const at::Tensor& points : {at::rand({701, dims}), at::randint(0, 7, {350, dims}).to(at::kDouble)}) {
      for (const bool directed : {false, true}) {
        for (const int64_t k : {0, 1, 3, 7, 20}) {
          const Graph here = Graph::knn(points, {.k = k, .directed = directed});
          const Graph there = Graph::knn(points.to(cuda_), {.k = k, .directed = directed});
          EXPECT_EQ(there.device(), cuda_);
          EXPECT_TRUE(there.offsets().cpu().equal(here.offsets())) << dims << " dims, k " << k;
          EXPECT_TRUE(there.columns().cpu().equal(here.columns())) << dims << " dims, k " << k;
          EXPECT_TRUE(there.weights().cpu().equal(here.weights()));
        }
      }
    }
  }
}

TEST_F(Knn, OfTooManyNeighboursIsRefused) {
  EXPECT_ERROR(Graph::knn(at::rand({99, 3}, cuda_), {.k = 40}), "knn: k must be in [1, 32] on a GPU");
  EXPECT_ERROR(cloud_neighbours(at::rand({1, 9, 33}, cuda_), 2),
               "nearest_points: k must be in [1, 32] on a GPU, and points must have 1 to 32 coordinates there");
}

TEST_F(Knn, OfCloudsIsTheCpus) {
  at::manual_seed(2);
  // Points on a lattice have ties everywhere.
  for (const at::Tensor& points : {at::rand({3, 701, 3}), at::randint(0, 7, {2, 350, 3}).to(at::kDouble)}) {
    const at::Tensor queries = at::rand({points.size(0), 257, 3}, points.options()) * 7;
    for (const int64_t k : {1, 3, 7, 16, 20}) {
      EXPECT_TRUE(cloud_neighbours(points.to(cuda_), k).cpu().equal(cloud_neighbours(points, k))) << k;
      const auto find = [&](const at::Tensor& q, const at::Tensor& p) {
        return ops::nearest_neighbours::find_in_clouds(q, p, k, false);
      };
      EXPECT_TRUE(find(queries.to(cuda_), points.to(cuda_)).cpu().equal(find(queries, points))) << k;
    }
  }
}

TEST_F(Knn, WalksAndAttentionOverThemAreTheCpus) {
  at::manual_seed(3);
  const at::Tensor points = at::rand({2, 500, 3});
  const NeighbourWalks here(cloud_neighbours(points, 3), 3), there(cloud_neighbours(points.to(cuda_), 3), 3);
  EXPECT_TRUE(there.columns().cpu().equal(here.columns()));
  std::vector<at::Tensor> inputs{at::rand({2, 500, 16}), at::rand({2, 500, 16}), at::rand({2, 500, 24}), at::rand({4})};
  std::vector<at::Tensor> moved;
  for (at::Tensor& x : inputs) {
    moved.push_back(x.to(cuda_).requires_grad_(true));
    x.requires_grad_(true);
  }
  const at::Tensor out = neighbour_attention(inputs[0], inputs[1], inputs[2], here, inputs[3]);
  const at::Tensor out_there = neighbour_attention(moved[0], moved[1], moved[2], there, moved[3]);
  EXPECT_TRUE(testing::close(out_there.cpu(), out, 1e-5));
  const at::Tensor cotangent = at::randn_like(out);
  const auto wanted = testing::gradients(out, cotangent, inputs);
  const auto actual = testing::gradients(out_there, cotangent.to(cuda_), moved);
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(testing::close(actual[i].cpu(), wanted[i], 1e-4)) << i;
}

}  // namespace
}  // namespace topomask
