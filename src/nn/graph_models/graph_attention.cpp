#include "nn/graph_models/graph_attention.h"

#include <ATen/ATen.h>

#include "nn/graph/attention_probe.h"
#include "nn/graph_models/positions/inputs.h"
#include "nn/layers.h"
#include "nn/names.h"
#include "topomask/attention.h"

namespace topomask {
namespace {

/// FAVOR+ is not stabilised: the largest exponent would be taken over all keys of a batch, and one graph would decide
/// about the underflow of another. Its features are at most exp(‖ω‖²/2)/√m anyway.
std::optional<FeatureMap> attention_features(const GraphModelOptions& o, int64_t layer, uint64_t seed) {
  if (o.attention == "softmax") return std::nullopt;
  switch (kFeatureNames.parse("graph model", "attention", present_name(o.attention))) {
    case Features::relu:
      return FeatureMap::relu(o.feature_offset);
    case Features::elu:
      return FeatureMap::elu();
    case Features::favor:
      break;
  }
  const int64_t dim = o.width / o.heads_of(layer), count = o.favor_features > 0 ? o.favor_features : dim;
  return FeatureMap::favor(dim, count, {.seed = seed + static_cast<uint64_t>(layer)});
}

torch::nn::LayerNorm block_norm(int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
}

int64_t hidden_features(const GraphModelOptions& o) {
  return std::max<int64_t>(1, std::llround(o.mlp_ratio * static_cast<double>(o.width)));
}

}  // namespace

GraphAttention::GraphAttention(const GraphModelOptions& options, int64_t layer, uint64_t seed)
    : heads_(options.heads_of(layer)),
      max_entries_(options.max_entries),
      dropout_(options, heads_),
      features_(attention_features(options, layer, seed)),
      qkv_(register_module("qkv", torch::nn::Linear(options.width, 3 * options.width))),
      projection_(register_module("projection", torch::nn::Linear(options.width, options.width))),
      mask_(register_module("mask", make_graph_mask({options, layer, heads_, seed, !features_.has_value()}))) {
  if (options.wire == 0) return;
  const at::Tensor frequencies = at::zeros({heads_, options.width / heads_ / 2, options.wire});
  wire_ = options.learn_wire ? register_parameter("wire", frequencies) : register_buffer("wire", frequencies);
}

at::Tensor GraphAttention::attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                  const GraphContext& context) const {
  const MaskPtr mask = dropout_(mask_->mask(context.sample, context.structure), is_training());
  if (!mask) {
    return block_linear_attention(features_->queries(q), features_->keys(k), v, context.sample.membership,
                                  context.sample.graphs);
  }
  if (features_) return attention(q, k, v, mask, {.features = *features_});
  const double entries = mask->counts().sparse_entries.value_or(INFINITY);
  TORCH_CHECK(entries <= static_cast<double>(max_entries_), "graph model: mask ", mask->name(),
              " must have at most max_entries = ", max_entries_, " entries under softmax, got about ", entries);
  return softmax_attention(q, k, v, mask, {.route = Route::sparse});
}

at::Tensor GraphAttention::forward(const at::Tensor& x, const GraphContext& context) {
  const at::Tensor heads = topomask::forward(qkv_, x).unflatten(-1, {3, heads_, x.size(-1) / heads_});
  const auto qkv = heads.permute({1, 2, 0, 3}).contiguous().unbind(0);  // [H, N, d] each
  at::Tensor q = qkv[0], k = qkv[1];
  if (wire_.defined()) {
    const at::Tensor r = context.eigenvectors.slice(1, 0, wire_.size(2));
    q = rotated_by_positions(q, r, wire_);
    k = rotated_by_positions(k, r, wire_);
  }
  const at::Tensor heads_out =
      AttentionProbe::watched(qkv[2], [&](const at::Tensor& v) { return attend(q, k, v, context); });
  return topomask::forward(projection_, heads_out.transpose(0, 1).flatten(1));
}

GraphBlock::GraphBlock(const GraphModelOptions& options, int64_t layer, uint64_t seed)
    : dropout_(options.dropout),
      attention_norm_(register_module("attention_norm", block_norm(options.width))),
      perceptron_norm_(register_module("perceptron_norm", block_norm(options.width))),
      attention_(register_module("attention", std::make_shared<GraphAttention>(options, layer, seed))),
      expand_(register_module("expand", torch::nn::Linear(options.width, hidden_features(options)))),
      contract_(register_module("contract", torch::nn::Linear(hidden_features(options), options.width))) {}

at::Tensor GraphBlock::forward(const at::Tensor& x, const GraphContext& context) {
  const auto dropped = [this](const at::Tensor& y) { return at::dropout(y, dropout_, is_training()); };
  const at::Tensor attended = x + dropped(attention_->forward(before_linear(attention_norm_, x), context));
  const at::Tensor hidden = dropped(at::gelu(topomask::forward(expand_, before_linear(perceptron_norm_, attended))));
  return attended + dropped(topomask::forward(contract_, hidden));
}

}  // namespace topomask
