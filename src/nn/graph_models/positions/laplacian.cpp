#include "nn/graph_models/positions/laplacian.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include "nn/graph_models/blocks.h"
#include "topomask/sparse.h"

namespace topomask {
namespace {

constexpr int64_t kDenseNodes = 512;

/// I − L = W + diag(isolated), W = D^{-1/2}AD^{-1/2}: eigenvalues in [−1, 1], the largest are the smallest of L.
class Smoother {
 public:
  explicit Smoother(const Graph& graph)
      : adjacency_(graph.normalised().to(at::kDouble).matrix()),
        isolated_((graph.degrees() == 0).to(at::kDouble).unsqueeze(1)) {}

  at::Tensor operator()(const at::Tensor& x) const { return matmul(adjacency_, x) + isolated_ * x; }
  at::Tensor dense() const { return adjacency_.dense() + at::diag(isolated_.squeeze(1)); }

 private:
  SparseMatrix adjacency_;
  at::Tensor isolated_;
};

/// T_degree of the smoother with [−1, cut] mapped to [−1, 1]: what is above the cut grows.
at::Tensor filtered(const Smoother& smoother, const at::Tensor& x, double cut, int64_t degree) {
  const double scale = 2 / (cut + 1), shift = (cut - 1) / (cut + 1);
  const auto mapped = [&](const at::Tensor& y) { return smoother(y) * scale - y * shift; };
  at::Tensor before = x, now = mapped(x);
  for (int64_t k = 1; k < degree; ++k) {
    at::Tensor next = 2 * mapped(now) - before;
    before = std::exchange(now, std::move(next));
  }
  return now;
}

/// The eigenvectors of the `count` largest eigenvalues, [n, count].
at::Tensor leading_vectors(const Smoother& smoother, int64_t nodes, int64_t count) {
  constexpr int64_t kGuard = 8, kDegree = 16, kRounds = 100;
  constexpr double kResidual = 1e-6, kGap = 0.01;
  const int64_t columns = std::min(nodes, count + kGuard);
  at::Tensor x = at::randn({nodes, columns}, at::detail::createCPUGenerator(1), at::kDouble);
  double cut = 0;
  for (int64_t round = 0; round < kRounds; ++round) {
    const at::Tensor q = std::get<0>(at::linalg_qr(filtered(smoother, x, cut, kDegree)));
    const at::Tensor image = smoother(q), inner = q.t().mm(image);
    auto [values, vectors] = at::linalg_eigh((inner + inner.t()) / 2);
    vectors = vectors.flip(1);
    values = values.flip(0);
    x = q.mm(vectors);
    const at::Tensor residual = (image.mm(vectors) - x * values).slice(1, 0, count).norm(2, 0).max();
    if (residual.item<double>() < kResidual) break;
    // Not too close to what is wanted, which may be an eigenvalue of higher multiplicity than there are columns: 0 is,
    // with many components.
    cut = std::max(std::min(values[-1].item<double>(), values[count - 1].item<double>() - kGap), -0.5);
  }
  return x.slice(1, 0, count);
}

at::Tensor positions_of(const Graph& graph, int64_t k) {
  const int64_t nodes = graph.num_nodes(), kept = std::min(k, std::max<int64_t>(nodes - 1, 0));
  at::Tensor positions = at::zeros({nodes, k}, at::kDouble);
  if (kept == 0) return positions;
  const Smoother smoother(graph);
  const at::Tensor vectors = nodes <= kDenseNodes
                                 ? std::get<1>(at::linalg_eigh(smoother.dense())).flip(1).slice(1, 1, kept + 1)
                                 : leading_vectors(smoother, nodes, kept + 1).slice(1, 1);
  const at::Tensor largest = vectors.gather(0, vectors.abs().argmax(0, /*keepdim=*/true));
  const at::Tensor sign = at::where(largest < 0, -1.0, 1.0);
  positions.slice(1, 0, kept).copy_(vectors * sign * std::sqrt(static_cast<double>(nodes)));
  return positions;
}

}  // namespace

at::Tensor laplacian_positions(const GraphSet& set, int64_t k) {
  TORCH_CHECK(!set.graph.directed(), "laplacian_positions: graphs must be undirected, got directed ones");
  const at::NoGradGuard no_grad;
  const at::ScalarType type = set.graph.weights().scalar_type();
  std::vector<at::Tensor> rows{at::empty({0, k}, type)};
  for (int64_t g = 0; g < set.size(); ++g) rows.push_back(positions_of(graph_at(set, g), k).to(type));
  return at::cat(rows);
}

}  // namespace topomask
