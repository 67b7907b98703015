#include "topomask/attention.h"

#include <ATen/ATen.h>

#include <cmath>

#include "nn/graph/attention_probe.h"
#include "nn/graph/rows.h"
#include "topomask/masks.h"
#include "topomask/nn/graph_layers.h"

namespace topomask {

namespace {

using torch::nn::Linear;
using torch::nn::LinearOptions;

/// [N, H·C] → [H, N, C].
at::Tensor by_head(const at::Tensor& x, int64_t heads) {
  return x.view({x.size(0), heads, x.size(1) / heads}).transpose(0, 1);
}

/// [H, N, C] → [N, H·C], or the mean over the heads, [N, C].
at::Tensor join_heads(const at::Tensor& x, bool concat) {
  return concat ? x.transpose(0, 1).flatten(1) : x.mean(0);
}

/// Softmax of scores [H, entries] inside each row: [H, entries].
at::Tensor row_softmax(const SparsePattern& pattern, const at::Tensor& scores) {
  const at::Tensor row = at::repeat_interleave(at::arange(pattern.rows(), pattern.offsets().options()),
                                               pattern.offsets().diff(), std::nullopt, pattern.entries());
  const at::Tensor lowest = at::full({scores.size(0), pattern.rows()}, -INFINITY, scores.options());
  const at::Tensor largest = lowest.scatter_reduce(1, row.expand_as(scores), scores.detach(), "amax");
  const at::Tensor weights = at::exp(scores - largest.index_select(1, row));
  const at::Tensor sums = at::zeros_like(lowest).index_add(1, row, weights);
  return weights / sums.index_select(1, row);
}

}  // namespace

GATConv::GATConv(int64_t in, int64_t out, const GATOptions& options)
    : options_(options), out_(out), lin_(LinearOptions(in, options.heads * out).bias(false)) {
  TORCH_CHECK(options.heads >= 1, "GATConv: heads must be >= 1, got ", options.heads);
  TORCH_CHECK(options.dropout >= 0 && options.dropout <= 1, "GATConv: dropout must be in [0, 1], got ",
              options.dropout);
  glorot_(lin_->weight);
  register_module("lin", lin_);
  att_src_ = register_parameter("att_src", glorot_(at::empty({1, options.heads, out})));
  att_dst_ = register_parameter("att_dst", glorot_(at::empty({1, options.heads, out})));
  if (options.bias) bias_ = register_parameter("bias", at::zeros({options.concat ? options.heads * out : out}));
}

at::Tensor GATConv::forward(const at::Tensor& x, const GraphEdges& edges) {
  check_rows("GATConv", x, edges.num_nodes());
  const SparsePattern& pattern = *edges.with_loops();
  const at::Tensor y = by_head(lin_(x), options_.heads);                 // [H, N, C]
  const at::Tensor source = (y * att_src_.view({-1, 1, out_})).sum(-1);  // [H, N]
  const at::Tensor target = (y * att_dst_.view({-1, 1, out_})).sum(-1);
  const at::Tensor row = at::repeat_interleave(at::arange(pattern.rows(), pattern.offsets().options()),
                                               pattern.offsets().diff(), std::nullopt, pattern.entries());
  const at::Tensor scores =
      at::leaky_relu(target.index_select(1, row) + source.index_select(1, pattern.columns()), options_.negative_slope);
  const SparseMatrix weights{edges.with_loops(),
                             at::dropout(row_softmax(pattern, scores), options_.dropout, is_training())};
  const at::Tensor out = AttentionProbe::watched(y, [&](const at::Tensor& v) { return matmul(weights, v); });
  const at::Tensor joined = join_heads(out, options_.concat);
  return bias_.defined() ? joined + bias_ : joined;
}

TransformerConv::TransformerConv(int64_t in, int64_t out, const TransformerConvOptions& options)
    : options_(options),
      out_(out),
      lin_key_(LinearOptions(in, options.heads * out).bias(options.bias)),
      lin_query_(LinearOptions(in, options.heads * out).bias(options.bias)),
      lin_value_(LinearOptions(in, options.heads * out).bias(options.bias)) {
  TORCH_CHECK(options.heads >= 1, "TransformerConv: heads must be >= 1, got ", options.heads);
  register_module("lin_key", lin_key_);
  register_module("lin_query", lin_query_);
  register_module("lin_value", lin_value_);
  if (!options.root_weight) return;
  lin_skip_ = Linear(LinearOptions(in, options.concat ? options.heads * out : out).bias(options.bias));
  register_module("lin_skip", lin_skip_);
}

at::Tensor TransformerConv::forward(const at::Tensor& x, const GraphEdges& edges) {
  check_rows("TransformerConv", x, edges.num_nodes());
  const int64_t heads = options_.heads;
  const MaskPtr mask = sparse_mask(edges.adjacency());
  const at::Tensor q = by_head(lin_query_(x), heads), k = by_head(lin_key_(x), heads);
  const at::Tensor out = AttentionProbe::watched(by_head(lin_value_(x), heads), [&](const at::Tensor& v) {
    return softmax_attention(q, k, v, mask, {.route = Route::sparse, .eps = 1e-16});
  });
  const at::Tensor joined = join_heads(out, options_.concat);
  return lin_skip_ ? joined + lin_skip_(x) : joined;
}

GKATConv::GKATConv(int64_t in, int64_t out, const GKATOptions& options) : options_(options) {
  TORCH_CHECK(options.heads >= 1, "GKATConv: heads must be >= 1, got ", options.heads);
  const auto matrix = [&](const char* name) {
    return register_parameter(name, glorot_(at::empty({options.heads, in, out})));
  };
  wq_ = matrix("wq");
  wk_ = matrix("wk");
  wv_ = matrix("wv");
}

std::vector<at::Tensor> GKATConv::project(const at::Tensor& x) const {
  // One product: a batch of narrow ones over the same rows takes several times as long.
  const int64_t heads = wq_.size(0), in = wq_.size(1), out = wq_.size(2);
  const at::Tensor weights = at::stack({wq_, wk_, wv_}).permute({2, 0, 1, 3}).reshape({in, 3 * heads * out});
  return at::matmul(x, weights).view({x.size(0), 3, heads, out}).permute({1, 2, 0, 3}).contiguous().unbind(0);
}

at::Tensor GKATConv::joined(const at::Tensor& heads) const {
  const at::Tensor y = join_heads(heads, options_.concat);
  return options_.elu ? at::elu(y) : y;
}

at::Tensor GKATConv::forward(const at::Tensor& x, const MaskPtr& mask) {
  TORCH_CHECK(mask, "GKATConv: mask must be given, got none");
  check_rows("GKATConv", x, mask->size());
  const auto heads = project(x);
  return joined(AttentionProbe::watched(
      heads[2], [&](const at::Tensor& v) { return softmax_attention(heads[0], heads[1], v, mask); }));
}

at::Tensor GKATConv::published_rows(const at::Tensor& x, const at::Tensor& kernel) {
  check_rows("GKATConv", x, kernel.size(0));
  const auto heads = project(x);
  const double scale = 1 / std::sqrt(static_cast<double>(wq_.size(2)));
  const at::Tensor scores = at::matmul(heads[0], heads[1].mT()) * scale;
  const at::Tensor weights = at::exp(scores - std::get<0>(scores.max(-1, true))) * kernel;
  return joined(at::matmul(weights / (weights.sum(-1, true) + 1e-9), heads[2]));
}

}  // namespace topomask
