#include "support/compare.h"
#include "support/mask_contract.h"
#include "topomask/diffusion.h"

// Gradients of diffusion masks in the weights of their graph.

namespace topomask {
namespace {

using testing::close;
using testing::expect_mask_is;
using testing::gradients;
using testing::normal;

constexpr Generator kEveryGenerator[] = {Generator::adjacency, Generator::laplacian, Generator::normalised_laplacian};

/// T by its definition, dense, differentiable also where there are nodes without edges.
at::Tensor generator_of_weights(const Graph& graph, Generator generator) {
  const at::Tensor a = graph.matrix().dense(), degrees = a.sum(1), connected = degrees > 0;
  if (generator == Generator::adjacency) return -a;
  if (generator == Generator::laplacian) return degrees.diag() - a;
  const at::Tensor root = at::where(connected, degrees, 1.0).rsqrt() * connected;
  return connected.to(at::kDouble).diag() - root.unsqueeze(1) * a * root;
}

/// Positive weights that require grad.
Graph weighted(const Graph& graph) {
  const int64_t n = graph.num_nodes();
  const at::Tensor dense = normal({n, n}, 2).abs() * 0.4 + 0.1, symmetric = dense + dense.mT();
  const at::Tensor places = at::repeat_interleave(graph.degrees()) * n + graph.columns().to(at::kLong);
  return graph.to(at::kDouble).with_weights(symmetric.flatten().index_select(0, places).requires_grad_());
}

void expect_learns(const Graph& graph, const at::Tensor& lambda, const DiffusionOptions& options) {
  const at::Tensor t = generator_of_weights(graph, options.generator);
  const at::Tensor exact = at::linalg_matrix_exp(-lambda.unsqueeze(-1).unsqueeze(-1) * t);
  const MaskPtr mask = diffusion_mask(graph, lambda, options);
  ASSERT_EQ(mask->parameters().size(), 2);
  ASSERT_TRUE(mask->parameters()[1].is_same(graph.weights()));
  expect_mask_is(mask, exact, 1e-9);
}

TEST(DiffusionWeights, HaveTheGradientOfTheExponential) {
  const at::Tensor loops = at::tensor({0, 1, 1, 3}, at::kLong), ends = at::tensor({1, 2, 1, 4}, at::kLong);
  for (const Graph& graph : {Graph::grid({3, 4}), Graph::from_edges(6, loops, ends), Graph::erdos_renyi(13, 0.2, 1)}) {
    for (const Generator generator : kEveryGenerator) {
      const Graph learnt = weighted(graph);
      expect_learns(learnt, at::scalar_tensor(0.7, at::kDouble).requires_grad_(), {generator, 1e-14});
      expect_learns(learnt, at::tensor({0.0, 0.02, 3.0}, at::kDouble).requires_grad_(), {generator, 1e-14});
    }
  }
}

TEST(DiffusionWeights, HaveItByLanczosToo) {
  const Graph graph = weighted(Graph::grid({3, 4}));
  expect_learns(graph, at::tensor({0.3, 1.5}, at::kDouble), {Generator::laplacian, 1e-14, DiffusionMethod::lanczos});
}

TEST(DiffusionWeights, HaveAGradientAtZero) {
  // T is 0, a multiple of I: its spectrum has no width.
  const Graph graph = Graph::path(5).to(at::kDouble).with_weights(at::zeros({8}, at::kDouble).requires_grad_());
  const at::Tensor lambda = at::tensor({0.7, 0.1}, at::kDouble), g = normal({2, 5, 5}, 1);
  for (const Generator generator : {Generator::adjacency, Generator::laplacian}) {
    const at::Tensor exact = at::linalg_matrix_exp(-lambda.view({2, 1, 1}) * generator_of_weights(graph, generator));
    const at::Tensor want = gradients(exact, g, {graph.weights()})[0];
    const MaskPtr mask = diffusion_mask(graph, lambda, {generator, 1e-14});
    EXPECT_TRUE(close(gradients(mask->dense(), g, {graph.weights()})[0], want, 1e-9));
  }
}

TEST(DiffusionWeights, KeepTheirAccuracyOverLongTimes) {
  // Hundreds of terms, in segments; and a coarse tolerance holds for the gradient as well.
  const Graph graph = weighted(Graph::path(40));
  const at::Tensor lambda = at::scalar_tensor(300.0, at::kDouble);
  const at::Tensor exact = at::linalg_matrix_exp(-lambda * generator_of_weights(graph, Generator::laplacian));
  const at::Tensor g = normal({40, 40}, 3), want = gradients(exact, g, {graph.weights()})[0];
  for (const double tolerance : {1e-12, 1e-4}) {
    const MaskPtr mask = diffusion_mask(graph, lambda, {.tolerance = tolerance});
    EXPECT_TRUE(close(gradients(mask->dense(), g, {graph.weights()})[0], want, 100 * tolerance)) << tolerance;
  }
}

}  // namespace
}  // namespace topomask
