#include "torch_baselines.h"

#include <ATen/ATen.h>

namespace topomask::bench {
namespace {

at::Tensor csr(const at::Tensor& offsets, const at::Tensor& columns, const at::Tensor& values, int64_t nodes) {
  return at::_sparse_csr_tensor_unsafe(offsets, columns, values, {nodes, nodes},
                                       values.options().layout(at::kSparseCsr));
}

at::Tensor with_ones(const at::Tensor& v) {
  return at::cat({v, v.new_ones({v.size(0), 1})}, 1);
}

at::Tensor divided(const at::Tensor& product) {
  const int64_t d = product.size(1) - 1;
  return product.narrow(1, 0, d) / product.narrow(1, d, 1);
}

/// M ⊙ QKᵀ on the pattern of M.
at::Tensor sampled_scores(const at::Tensor& a, const at::Tensor& b, const CsrMask& mask) {
  at::Tensor scores = at::sparse_sampled_addmm(mask.pattern, a, b.t(), /*beta=*/0);
  scores.values().mul_(mask.matrix.values());
  return scores;
}

}  // namespace

CsrMask::CsrMask(const SparseMatrix& sparse, at::ScalarType indices) : nodes(sparse.pattern->rows()) {
  const at::Tensor values = sparse.values.detach().clone();
  const at::Tensor offsets = sparse.pattern->offsets().to(indices), columns = sparse.pattern->columns().to(indices);
  matrix = csr(offsets, columns, values, nodes);
  pattern = csr(offsets, columns, at::zeros_like(values), nodes);
  const SparsePattern::Transposed& other = sparse.pattern->transposed();
  transposed_offsets = other.offsets.to(indices);
  transposed_columns = other.columns.to(indices);
  transposed_index = other.index;
}

at::Tensor CsrMask::transposed(const at::Tensor& values) const {
  return csr(transposed_offsets, transposed_columns, values.index_select(0, transposed_index), nodes);
}

at::Tensor sddmm_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const CsrMask& mask) {
  const at::Tensor weights = at::sparse_sampled_addmm(mask.pattern, q, k.t(), /*beta=*/0) * mask.matrix;
  return at::mm(weights, v) / at::mm(weights, v.new_ones({mask.nodes, 1}));
}

at::Tensor tuned_sddmm_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const CsrMask& mask) {
  return divided(at::mm(sampled_scores(q, k, mask), with_ones(v)));
}

Tensors sddmm_gradients(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& grad,
                        const CsrMask& mask) {
  const at::Tensor scores = sampled_scores(q, k, mask), values = with_ones(v), product = at::mm(scores, values);
  const at::Tensor denominator = product.narrow(1, v.size(1), 1), out = product.narrow(1, 0, v.size(1)) / denominator;
  const at::Tensor grad_numerator = grad / denominator;
  const at::Tensor grad_denominator = (grad_numerator * out).sum(1, /*keepdim=*/true).neg_();
  const at::Tensor grad_scores = sampled_scores(at::cat({grad_numerator, grad_denominator}, 1), values, mask);
  return {out, at::mm(grad_scores, k), at::mm(mask.transposed(grad_scores.values()), q),
          at::mm(mask.transposed(scores.values()), grad_numerator)};
}

at::Tensor algorithm1(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Tensors& factors,
                      int64_t slice_bytes) {
  const int64_t nodes = q.size(0), m = q.size(1), width = v.size(1) + 1;
  const int64_t slice = std::clamp<int64_t>(slice_bytes / (std::max<int64_t>(nodes, 1) * width * 4), 1, m);
  const at::Tensor values = with_ones(v).unsqueeze(1);
  at::Tensor product;
  for (int64_t start = 0; start < m; start += slice) {
    const int64_t features = std::min(slice, m - start);
    at::Tensor masked = (k.narrow(1, start, features).unsqueeze(2) * values).view({nodes, features * width});
    for (auto factor = factors.rbegin(); factor != factors.rend(); ++factor) masked = at::mm(*factor, masked);
    const at::Tensor part = at::bmm(q.narrow(1, start, features).unsqueeze(1), masked.view({nodes, features, width}));
    product = product.defined() ? product.add_(part) : part;
  }
  return divided(product.squeeze(1));
}

at::Tensor dense_log_mask(const SparseMatrix& matrix) {
  at::Tensor mask = SparseMatrix{matrix.pattern, matrix.values.detach()}.dense();
  return mask.log_();
}

at::Tensor sdpa(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& log_mask) {
  const auto batched = [](const at::Tensor& x) { return x.unsqueeze(0).unsqueeze(0); };
  return at::scaled_dot_product_attention(batched(q), batched(k), batched(v), batched(log_mask)).squeeze(0).squeeze(0);
}

at::Tensor linear_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  return at::mm(q, at::mm(k.t(), v)) / at::mv(q, k.sum(0)).unsqueeze(1);
}

}  // namespace topomask::bench
