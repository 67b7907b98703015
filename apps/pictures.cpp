#include "pictures.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <set>

namespace topomask::apps {

at::Tensor mask_rows(const Mask& mask, const at::Tensor& nodes) {
  const at::NoGradGuard no_grad;
  const auto dtype = mask.dtype().value_or(at::kFloat);
  at::Tensor columns =
      at::zeros({mask.size(), nodes.size(0)}, at::TensorOptions(dtype).device(mask.device().value_or(at::kCPU)));
  columns.index_put_({nodes.to(columns.device()), at::arange(nodes.size(0), columns.device())},
                     at::ones({}, columns.options()));
  if (mask.heads() > 1) columns = columns.expand({mask.heads(), -1, -1}).contiguous();
  at::Tensor rows = mask.matmul_transposed(columns).mT().to(at::kCPU, at::kFloat);
  return rows.dim() == 2 ? rows.unsqueeze(0) : rows;
}

at::Tensor over_grid(const at::Tensor& row, const std::vector<int64_t>& dims) {
  const int64_t cols = dims.empty() ? row.numel() : dims.back();
  return row.reshape({-1, std::max<int64_t>(cols, 1)});
}

std::string node_name(int64_t node, const std::vector<int64_t>& dims) {
  const std::string name = "node " + std::to_string(node);
  if (dims.size() != 2) return name;
  return name + ", row " + std::to_string(node / dims[1]) + ", column " + std::to_string(node % dims[1]);
}

std::vector<int64_t> telling_nodes(int64_t nodes, const std::vector<int64_t>& dims) {
  std::set<int64_t> chosen;
  if (nodes == 0) return {};
  if (dims.size() == 2) {
    const int64_t rows = dims[0], cols = dims[1];
    chosen = {0, rows / 2 * cols, rows / 2 * cols + cols / 2};
  } else {
    chosen = {0, nodes / 4, nodes / 2};
  }
  return {chosen.begin(), chosen.end()};
}

}  // namespace topomask::apps
