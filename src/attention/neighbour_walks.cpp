#include "topomask/neighbour_walks.h"

#include <ATen/ATen.h>

#include <limits>

#include "core/checks.h"
#include "ops/nearest_neighbours/op.h"
#include "ops/sparse_attention/op.h"

namespace topomask {
namespace {

void check_neighbours(const char* op, const at::Tensor& neighbours) {
  TORCH_CHECK(
      neighbours.defined() && neighbours.dim() == 3 && neighbours.scalar_type() == at::kInt && neighbours.size(2) >= 1,
      op, ": neighbours must be int32 [B, N, k >= 1], got ", describe(neighbours));
}

/// [B·N, k]: the neighbours as rows of the block-diagonal graph.
at::Tensor block_rows(const at::Tensor& neighbours) {
  const int64_t clouds = neighbours.size(0), points = neighbours.size(1);
  const at::Tensor first = at::arange(clouds, neighbours.options()).mul_(points).view({clouds, 1, 1});
  return (neighbours + first).view({clouds * points, neighbours.size(2)});
}

/// Offsets of rows of equal length.
at::Tensor regular_offsets(int64_t rows, int64_t length, const at::Tensor& like) {
  return at::arange(rows + 1, like.options().dtype(at::kLong)).mul_(length);
}

/// offsets, columns and index of the transpose of rows of equal length, on the CPU by counting.
std::vector<at::Tensor> counted_transpose(const at::Tensor& columns, int64_t nodes, int64_t length) {
  at::Tensor offsets = at::zeros({nodes + 1}, at::kLong), rows = at::empty({columns.numel()}, at::kInt),
             index = at::empty({columns.numel()}, at::kLong);
  const int32_t* column = columns.const_data_ptr<int32_t>();
  auto* offset = offsets.mutable_data_ptr<int64_t>();
  auto* row = rows.mutable_data_ptr<int32_t>();
  auto* entry = index.mutable_data_ptr<int64_t>();
  for (int64_t e = 0; e < columns.numel(); ++e) ++offset[column[e] + 1];
  for (int64_t j = 0; j < nodes; ++j) offset[j + 1] += offset[j];
  std::vector<int64_t> next(offset, offset + nodes);
  for (int64_t i = 0, e = 0; i < nodes; ++i) {
    for (int64_t p = 0; p < length; ++p, ++e) {
      const int64_t slot = next[static_cast<size_t>(column[e])]++;
      row[slot] = static_cast<int32_t>(i);
      entry[slot] = e;
    }
  }
  return {offsets, rows, index};
}

/// The same by a stable sort, which reads no size back.
std::vector<at::Tensor> sorted_transpose(const at::Tensor& columns, int64_t nodes, int64_t length) {
  const auto [sorted, index] = columns.sort(/*stable=*/true, 0, /*descending=*/false);
  return {at::searchsorted(sorted, at::arange(nodes + 1, sorted.options())), index.div(length, "floor").to(at::kInt),
          index};
}

}  // namespace

at::Tensor cloud_neighbours(const at::Tensor& points, int64_t k) {
  TORCH_CHECK(points.defined() && points.dim() == 3, "cloud_neighbours: points must be [B, N, dims], got ",
              describe(points));
  const at::Tensor plain = points.detach();
  return ops::nearest_neighbours::find_in_clouds(plain, plain, k, /*exclude_self=*/true);
}

Graph cloud_graph(const at::Tensor& neighbours) {
  check_neighbours("cloud_graph", neighbours);
  const at::Tensor rows = block_rows(neighbours);
  const int64_t nodes = rows.size(0);
  auto pattern = std::make_shared<SparsePattern>(nodes, nodes, regular_offsets(nodes, rows.size(1), rows),
                                                 std::get<0>(rows.sort(1)).flatten());
  const at::Tensor ones = at::ones({pattern->entries()}, rows.options().dtype(at::kFloat));
  return Graph::from_pattern(std::move(pattern), ones, /*directed=*/true);
}

Graph symmetric_cloud_graph(const at::Tensor& neighbours) {
  check_neighbours("symmetric_cloud_graph", neighbours);
  const at::Tensor rows = block_rows(neighbours).to(at::kLong);
  const int64_t nodes = rows.size(0);
  const at::Tensor target = rows.flatten(), all = at::arange(nodes + 1, target.options()),
                   source = all.slice(0, 0, nodes).repeat_interleave(rows.size(1));
  const at::Tensor pairs = at::cat({source * nodes + target, target * nodes + source});
  const at::Tensor distinct = std::get<0>(at::_unique(pairs, /*sorted=*/true));
  const at::Tensor from = distinct.div(nodes, "floor");
  auto pattern = std::make_shared<SparsePattern>(nodes, nodes, at::searchsorted(from, all),
                                                 (distinct - from * nodes).to(at::kInt));
  const at::Tensor ones = at::ones({pattern->entries()}, rows.options().dtype(at::kFloat));
  return Graph::from_pattern(std::move(pattern), ones, /*directed=*/false);
}

bool NeighbourWalks::takes(int64_t walkers, int64_t k, int64_t hops) {
  int64_t ends = 1;
  for (int64_t t = 0; t < hops && ends <= walkers; ++t) ends *= k;
  return ends <= walkers && walkers % ends == 0;
}

NeighbourWalks::NeighbourWalks(const at::Tensor& neighbours, int64_t hops) : hops_(hops) {
  constexpr const char* kOp = "NeighbourWalks";
  check_neighbours(kOp, neighbours);
  TORCH_CHECK(hops >= 0 && hops <= 30, kOp, ": hops must be in [0, 30], got ", hops);
  const at::Tensor rows = block_rows(neighbours);
  nodes_ = rows.size(0);
  k_ = rows.size(1);
  int64_t ends = 1;
  for (int64_t t = 0; t <= hops; ++t, ends *= k_) {
    paths_ += ends;
    TORCH_CHECK(ends <= std::numeric_limits<int32_t>::max() && paths_ * nodes_ <= std::numeric_limits<int32_t>::max(),
                kOp, ": there must be fewer than 2^31 paths, got ", nodes_, " nodes with ", k_, " neighbours and ",
                hops, " hops");
  }
  std::vector<at::Tensor> levels{at::arange(nodes_, rows.options()).view({nodes_, 1})};
  for (int64_t t = 0; t < hops; ++t) {
    levels.push_back(rows.index_select(0, levels.back().flatten()).view({nodes_, levels.back().size(1) * k_}));
  }
  columns_ = at::cat(levels, 1);
  const at::Tensor entries = columns_.flatten();
  pattern_ = {regular_offsets(nodes_, paths_, rows), entries};
  const auto transpose =
      entries.is_cpu() ? counted_transpose(entries, nodes_, paths_) : sorted_transpose(entries, nodes_, paths_);
  pattern_.insert(pattern_.end(), transpose.begin(), transpose.end());
}

at::Tensor NeighbourWalks::values(const at::Tensor& f) const {
  TORCH_CHECK(f.defined() && f.dim() == 1 && f.size(0) == hops_ + 1 && is_real(f.scalar_type()),
              "NeighbourWalks: f must be float32 or float64 [hops + 1 = ", hops_ + 1, "], got ", describe(f));
  std::vector<at::Tensor> by_hop;
  double share = 1;
  int64_t ends = 1;
  for (int64_t t = 0; t <= hops_; ++t, ends *= k_, share /= static_cast<double>(k_)) {
    by_hop.push_back((f.narrow(0, t, 1) * share).expand({ends}));
  }
  return at::cat(by_hop).unsqueeze(0).expand({nodes_, paths_}).reshape({nodes_ * paths_});
}

at::Tensor NeighbourWalks::dense(const at::Tensor& f) const {
  const at::Tensor row = at::arange(nodes_, columns_.options().dtype(at::kLong)).unsqueeze(1) * nodes_;
  return at::zeros({nodes_ * nodes_}, f.options())
      .index_add(0, (row + columns_).flatten(), values(f))
      .view({nodes_, nodes_});
}

at::Tensor neighbour_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const NeighbourWalks& walks, const at::Tensor& f, double eps) {
  constexpr const char* kOp = "neighbour_attention";
  for (const at::Tensor* x : {&q, &k, &v}) {
    TORCH_CHECK(x->defined() && x->dim() >= 2 && x->numel() == walks.num_nodes() * x->size(-1), kOp,
                ": q, k and v must have ", walks.num_nodes(), " rows, got ", describe(*x));
  }
  TORCH_CHECK(eps > 0, kOp, ": eps must be > 0, got ", eps);
  const auto rows = [&](const at::Tensor& x) { return x.reshape({1, 1, walks.num_nodes(), x.size(-1)}); };
  const at::Tensor out = std::get<0>(ops::sparse_attention::kernel_attention(
      rows(q), rows(k), rows(v), walks.values(f).unsqueeze(0), walks.pattern_, eps));
  return out.reshape(v.sizes());
}

}  // namespace topomask
