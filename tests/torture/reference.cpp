#include "torture/reference.h"

#include <ATen/ATen.h>

#include <cmath>

namespace topomask::torture {
namespace {

at::Tensor constant_like(const at::Tensor& matrix, const at::Tensor& per_head) {
  return (matrix.dim() == 3 ? per_head.reshape({-1, 1, 1}) : per_head.reshape({1, 1})).expand_as(matrix).contiguous();
}

/// The largest row sum of |M|, per head: a bound of its spectral norm where it is symmetric.
MaskValue in_norm(const at::Tensor& matrix) {
  const at::Tensor plain = matrix.detach();
  if (plain.numel() == 0) return {matrix, plain};
  return {matrix, constant_like(plain, plain.abs().sum(-1).amax(-1))};
}

}  // namespace

MaskValue power_series(const at::Tensor& w, const at::Tensor& alpha) {
  const int64_t n = w.size(0), terms = alpha.size(-1);
  std::vector<int64_t> shape{n, n};
  if (alpha.dim() == 2) shape.insert(shape.begin(), alpha.size(0));
  at::Tensor sum = at::zeros(shape, at::kDouble), magnitude = at::zeros(shape, at::kDouble);
  at::Tensor power = at::eye(n, at::kDouble), absolute = power;
  for (int64_t k = 0; k < terms; ++k) {
    if (k > 0) power = at::matmul(power, w), absolute = at::matmul(absolute, w.detach().abs());
    const at::Tensor coefficient = alpha.select(-1, k).unsqueeze(-1).unsqueeze(-1);
    sum = sum + coefficient * power;
    magnitude = magnitude + coefficient.detach().abs() * absolute;
  }
  return {sum, magnitude};
}

MaskValue block_toeplitz(const std::vector<int64_t>& dims, const at::Tensor& parameter, bool by_distance,
                         const ToeplitzOptions& options) {
  int64_t n = 1, size = 1;
  for (const int64_t d : dims) n *= d, size *= std::max<int64_t>(0, 2 * d - 1);
  const auto axes = static_cast<int64_t>(dims.size());
  at::Tensor index = at::zeros({n, n}, at::kLong), allowed = at::ones({n, n}, at::kDouble);
  auto place = index.accessor<int64_t, 2>();
  auto may = allowed.accessor<double, 2>();
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      int64_t rest_i = i, rest_j = j, flat = 0, stride = 1, distance = 0, first = 0;
      for (int64_t axis = axes; axis-- > 0;) {
        const int64_t offset = rest_i % dims[axis] - rest_j % dims[axis];
        rest_i /= dims[axis], rest_j /= dims[axis];
        flat += (offset + dims[axis] - 1) * stride;
        stride *= 2 * dims[axis] - 1;
        distance += std::abs(offset);
        first = offset;
      }
      place[i][j] = by_distance ? distance : flat;
      if (options.causality == Causality::row_major && j > i) may[i][j] = 0;
      if (options.causality == Causality::first_axis && first < 0) may[i][j] = 0;
    }
  }
  const at::Tensor g = options.logarithmic ? parameter.exp() : parameter;
  const bool heads = parameter.dim() > (by_distance ? 1 : axes);
  const at::Tensor flat = heads ? g.reshape({parameter.size(0), -1}) : g.reshape({1, -1});
  at::Tensor matrix = flat.index_select(1, index.view({-1})).view({flat.size(0), n, n}) * allowed;
  if (!heads) matrix = matrix.squeeze(0);
  if (n == 0) return {matrix, matrix.detach()};
  // FFTs are accurate relative to the norm of their input.
  at::Tensor norm = flat.detach().norm(2, -1);
  if (by_distance) norm = norm * std::sqrt(static_cast<double>(size));
  return {matrix, constant_like(matrix, norm)};
}

TreeDistances tree_distances(const at::Tensor& parent, const at::Tensor& lengths) {
  const int64_t n = parent.size(0);
  const int64_t* p = parent.const_data_ptr<int64_t>();
  // above[i, v] = 1 where the edge from v to its parent lies between i and its root.
  at::Tensor above = at::zeros({n, n}, at::kDouble), root = at::zeros({n}, at::kLong);
  auto on_path = above.accessor<double, 2>();
  for (int64_t i = 0; i < n; ++i) {
    int64_t v = i;
    for (; p[v] >= 0; v = p[v]) on_path[i][v] = 1;
    root[i] = v;
  }
  const at::Tensor depth = at::mv(above, lengths);
  const at::Tensor shared = at::matmul(above * lengths, above.t());
  const at::Tensor same = root.unsqueeze(0).eq(root.unsqueeze(1)).to(at::kDouble);
  // Edges between i and j are those above exactly one of them.
  return {(depth.unsqueeze(0) + depth.unsqueeze(1) - 2 * shared) * same, same};
}

at::Tensor generator_of(const at::Tensor& weights, Generator generator) {
  const at::Tensor degree = weights.sum(1);
  if (generator == Generator::adjacency) return -weights;
  if (generator == Generator::laplacian) return degree.diag() - weights;
  const at::Tensor inverse = at::where(degree > 0, degree.rsqrt(), 0.0);
  return (degree > 0).to(at::kDouble).diag() - inverse.unsqueeze(1) * weights * inverse.unsqueeze(0);
}

/// exp(A) as exp(A + I)/e: between norms of 3e-4 and 5e-2 ATen's polynomial for double is wrong in the eleventh digit.
at::Tensor matrix_exponential(const at::Tensor& a) {
  return at::linalg_matrix_exp(a + at::eye(a.size(-1), a.options())) * std::exp(-1.0);
}

MaskValue diffusion(const at::Tensor& weights, const at::Tensor& lambda, Generator generator) {
  const at::Tensor t = generator_of(weights, generator);
  if (t.numel() == 0) return in_norm(lambda.numel() > 1 ? at::zeros({lambda.numel(), 0, 0}, at::kDouble) : t);
  return in_norm(matrix_exponential(-lambda.unsqueeze(-1).unsqueeze(-1) * t));
}

MaskValue low_rank_diffusion(const at::Tensor& u, const at::Tensor& v, const at::Tensor& lambda) {
  const at::Tensor a = at::matmul(u, v.t());
  MaskValue value{matrix_exponential(lambda.unsqueeze(-1).unsqueeze(-1) * a), {}};
  const double bound =
      std::exp(std::min(60.0, lambda.max().item<double>() * u.norm().item<double>() * v.norm().item<double>()));
  value.magnitude = at::full(value.matrix.sizes(), bound, at::kDouble);
  return value;
}

MaskValue hypercube(int64_t dimensions, const at::Tensor& lambda) {
  const int64_t n = int64_t{1} << dimensions;
  at::Tensor hamming = at::zeros({n, n}, at::kDouble);
  auto bits = hamming.accessor<double, 2>();
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) bits[i][j] = __builtin_popcountll(static_cast<uint64_t>(i ^ j));
  }
  const at::Tensor rate = lambda.unsqueeze(-1).unsqueeze(-1);
  const at::Tensor same = (1 + (-2 * rate).exp()) / 2, other = (1 - (-2 * rate).exp()) / 2;
  const at::Tensor matrix = same.pow(static_cast<double>(dimensions) - hamming) * other.pow(hamming);
  return {matrix, matrix.detach().abs()};
}

at::Tensor walk_matrices(const WalkTable& walks, bool counts) {
  const int64_t n = walks.num_nodes(), hops = walks.max_hops() + 1;
  const at::Tensor rows = at::repeat_interleave(walks.offsets().diff());
  const at::Tensor values = (counts ? walks.counts() : walks.loads()).to(at::kDouble);
  return at::zeros({hops, n, n}, at::kDouble)
      .index_put_({walks.hops().to(at::kLong), rows, walks.columns().to(at::kLong)},
                  values / static_cast<double>(walks.walkers()), /*accumulate=*/true);
}

MaskValue walk_sum(const at::Tensor& matrices, const at::Tensor& f) {
  const int64_t terms = f.size(-1), n = matrices.size(-1);
  const at::Tensor flat = matrices.narrow(0, 0, terms).reshape({terms, n * n});
  std::vector<int64_t> shape{n, n};
  if (f.dim() == 2) shape.insert(shape.begin(), f.size(0));
  return {at::matmul(f, flat).view(shape), at::matmul(f.detach().abs(), flat.detach().abs()).view(shape)};
}

MaskValue product_of(const MaskValue& left, const MaskValue& right) {
  return {at::matmul(left.matrix, right.matrix.mT()), at::matmul(left.magnitude, right.magnitude.mT())};
}

at::Tensor group_products(const WalkTable& walks, int64_t hops) {
  const at::Tensor rows = at::repeat_interleave(walks.product_offsets().diff());
  const at::Tensor pairs = walks.product_hops().to(at::kLong), t = pairs.select(1, 0), u = pairs.select(1, 1);
  const at::Tensor values = walks.product_values().to(at::kDouble);
  at::Tensor result = at::zeros({walks.num_nodes(), walks.max_hops() + 1, walks.max_hops() + 1}, at::kDouble);
  result.index_put_({rows, t, u}, values);
  result.index_put_({rows, u, t}, values);
  return result.narrow(1, 0, hops).narrow(2, 0, hops);
}

at::Tensor hop_distances(const at::Tensor& edges) {
  const int64_t n = edges.size(0);
  const at::Tensor step = edges.to(at::kDouble);
  at::Tensor reached = at::eye(n, at::kDouble), distance = at::where(reached > 0, 0, -1).to(at::kLong);
  for (int64_t hops = 1; hops < n; ++hops) {
    const at::Tensor further = (at::matmul(reached, step) + reached > 0).to(at::kDouble);
    if (further.equal(reached)) break;
    distance = at::where((further > 0).logical_and(reached == 0), hops, distance);
    reached = further;
  }
  return distance;
}

}  // namespace topomask::torture
