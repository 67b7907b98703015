#include <ATen/Parallel.h>

#include "graph_testing.h"

namespace topomask {
namespace {

using namespace topomask::testing;

/// Row i: 1 at the k first other points by (distance, index).
at::Tensor brute_force(const at::Tensor& points, int64_t k) {
  const at::Tensor x = points.to(at::kDouble);
  const int64_t n = x.size(0);
  const at::Tensor apart = (x.unsqueeze(0) - x.unsqueeze(1)).square().sum(-1).contiguous();
  at::Tensor result = at::zeros({n, n}, at::kDouble);
  for (int64_t i = 0; i < n; ++i) {
    std::vector<std::pair<double, int64_t>> order;
    for (int64_t j = 0; j < n; ++j) {
      if (j != i) order.emplace_back(apart.const_data_ptr<double>()[i * n + j], j);
    }
    std::sort(order.begin(), order.end());
    for (int64_t r = 0; r < k; ++r) result.mutable_data_ptr<double>()[i * n + order[r].second] = 1;
  }
  return result;
}

void expect_nearest(const at::Tensor& points, int64_t k) {
  const at::Tensor expected = brute_force(points, k);
  const Graph directed = Graph::knn(points, {.k = k, .directed = true});
  EXPECT_TRUE(directed.directed());
  EXPECT_TRUE((directed.degrees() == k).all().item<bool>());
  EXPECT_TRUE(at::equal(dense_adjacency(directed), expected)) << points.sizes() << " k = " << k;
  const Graph undirected = Graph::knn(points, {.k = k});
  EXPECT_FALSE(undirected.directed());
  EXPECT_TRUE(at::equal(dense_adjacency(undirected), at::maximum(expected, expected.t())));
}

TEST(Knn, MatchesBruteForceOnRandomPoints) {
  at::manual_seed(5);
  for (int64_t dims : {1, 2, 3, 4, 5, 8, 17}) {
    for (int64_t k : {1, 3, 10}) {
      expect_nearest(at::randn({211, dims}), k);
      expect_nearest(at::rand({63, dims}, at::kDouble) * 1e6, k);
    }
  }
}

TEST(Knn, TiesGoToTheLowerIndex) {
  at::manual_seed(6);
  for (int64_t dims : {1, 2, 3, 4}) {
    for (int64_t k : {1, 2, 3, 5, 8}) {
      const at::Tensor axis = at::arange(dims == 1 ? 101 : dims == 2 ? 11 : dims == 3 ? 6 : 4, at::kFloat);
      const at::Tensor lattice = at::cartesian_prod(std::vector<at::Tensor>(dims, axis)).view({-1, dims});
      expect_nearest(lattice, k);
      expect_nearest(lattice.index_select(0, at::randperm(lattice.size(0))), k);
      expect_nearest(at::randint(4, {97, dims}, at::kDouble), k);  // many at the same place as well
    }
  }
}

TEST(Knn, PointsAtOnePlaceAreNeighbours) {
  expect_nearest(at::zeros({50, 3}), 4);
  expect_nearest(at::tensor({0.f, -0.f, 1.f, 0.f, 1.f}).view({5, 1}), 2);
  EXPECT_EQ(Graph::knn(at::zeros({200003, 3}), {.k = 3, .directed = true}).num_edges(), 3 * 200003);  // not quadratic
}

TEST(Knn, TakesAllOthersNoneAndNoPoints) {
  expect_same_graph(Graph::knn(at::rand({7, 2}), {.k = 6}), Graph::complete(7));
  EXPECT_EQ(Graph::knn(at::rand({7, 2}), {.k = 0}).num_edges(), 0);
  EXPECT_EQ(Graph::knn(at::rand({1, 2}), {.k = 0, .directed = true}).num_nodes(), 1);
  EXPECT_EQ(Graph::knn(at::empty({0, 3})).num_nodes(), 0);
  EXPECT_EQ(Graph::knn(at::empty({0, 3}), {.directed = true}).num_nodes(), 0);
}

TEST(Knn, TakesStridedHugeAndTinyPoints) {
  at::manual_seed(7);
  expect_nearest(at::rand({3, 41}).t(), 3);
  expect_nearest(at::rand({41, 3}) * 1e38, 3);  // squares overflow float32
  expect_nearest(at::rand({41, 3}, at::kDouble) * 1e-150, 3);
}

TEST(Knn, ChecksItsArguments) {
  const std::string points = "knn: points must be float32 or float64 [N, dims >= 1], got ";
  EXPECT_MESSAGE(Graph::knn({}), points + "undefined");
  EXPECT_MESSAGE(Graph::knn(at::rand({5})), points + "Float[5] on cpu");
  EXPECT_MESSAGE(Graph::knn(at::empty({5, 0})), points + "Float[5, 0] on cpu");
  EXPECT_MESSAGE(Graph::knn(ids({1, 2}).view({2, 1})), points + "Long[2, 1] on cpu");
  EXPECT_MESSAGE(Graph::knn(at::rand({5, 2}), {.k = 5}), "knn: k must be in [0, 5), the number of points, got 5");
  EXPECT_MESSAGE(Graph::knn(at::rand({5, 2}), {.k = -1}), "knn: k must be in [0, 5), the number of points, got -1");
  EXPECT_MESSAGE(Graph::knn(at::tensor({1.f, 2.f, NAN, 0.f}).view({2, 2}), {.k = 1}),
                 "knn: points must be finite, at most 1e150 in magnitude, got nan at point 1");
  EXPECT_MESSAGE(Graph::knn(at::tensor({1., -1e200}).view({2, 1}), {.k = 1}),
                 "knn: points must be finite, at most 1e150 in magnitude, got -1e+200 at point 1");
}

TEST(Knn, IsTheSameForAnyNumberOfThreads) {
  at::manual_seed(8);
  const int threads = at::get_num_threads();
  const at::Tensor points = at::randint(30, {20011, 3}, at::kFloat);
  at::set_num_threads(1);
  const Graph serial = Graph::knn(points, {.k = 5});
  at::set_num_threads(4);
  const Graph parallel = Graph::knn(points, {.k = 5});
  at::set_num_threads(threads);
  expect_same_graph(serial, parallel);
}

}  // namespace
}  // namespace topomask
