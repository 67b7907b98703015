#include "topomask/attention.h"

#include <ATen/ATen.h>

#include "nn/layers.h"
#include "nn/together.h"
#include "ops/relu_qkv/op.h"
#include "topomask/nn/attention.h"

namespace topomask {

namespace {

/// Values of a matrix that is added to the scores as it is where a mask has no tiles, on the CPU those of a strip of
/// rows; larger ones are added without being formed.
constexpr int64_t kLargestBias = int64_t{1} << 20, kLargestBiasOnCuda = int64_t{1} << 27;

}  // namespace

std::vector<at::Tensor> parts_of(const at::Tensor& qkv) {
  if (!qkv.is_cuda()) return qkv.permute({2, 0, 3, 1, 4}).contiguous().unbind(0);  // kernels want rows together
  std::vector<at::Tensor> parts = qkv.unbind(2);
  for (at::Tensor& part : parts) part = part.transpose(1, 2);
  return parts;
}

at::Tensor attention_together(AttentionVariant& variant, const at::Tensor& qkv, const MaskPtr& mask,
                              const FeatureMap& features) {
  const std::optional<double> offset = features.relu_offset();
  if (!offset || !ops::relu_qkv::supports(qkv)) return variant.AttentionVariant::forward_together(qkv);
  const ops::relu_qkv::Parts parts = ops::relu_qkv::split(qkv, *offset);
  return attention(parts.q, parts.k, parts.v, mask, {.features = FeatureMap::identity()});
}

AttentionVariant::AttentionVariant(std::shared_ptr<MaskSource> source) : source_(std::move(source)) {
  if (source_) register_module("mask", source_);
}

at::Tensor AttentionVariant::row(const at::Tensor& q, const at::Tensor& k, int64_t token) {
  const int64_t tokens = q.size(-2);
  TORCH_CHECK(token >= 0 && token < tokens, "attention_rows: token must be in [0, ", tokens, "), got ", token);
  // The matrix times I.
  const at::Tensor eye = at::eye(tokens, q.options()).expand({q.size(0), q.size(1), tokens, tokens});
  return forward(q, k, eye).select(-2, token);
}

at::Tensor AttentionVariant::forward_together(const at::Tensor& qkv) {
  const auto parts = parts_of(qkv);
  return forward(parts[0], parts[1], parts[2]);
}

MaskPtr AttentionVariant::mask() {
  return source_ ? source_->mask() : nullptr;
}

at::Tensor AttentionVariant::modulation() const {
  return source_ ? source_->modulation() : at::Tensor();
}

KernelAttention::KernelAttention(std::shared_ptr<MaskSource> source, FeatureMap features)
    : AttentionVariant(std::move(source)), features_(std::move(features)) {}

at::Tensor KernelAttention::forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  return attention(q, k, v, mask(), {.features = features_});
}

at::Tensor KernelAttention::forward_together(const at::Tensor& qkv) {
  return attention_together(*this, qkv, mask(), features_);
}

at::Tensor SoftmaxAttention::forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const MaskPtr added = mask();
  if (!added) return at::scaled_dot_product_attention(q, k, v);
  const MaskCounts counts = added->counts();
  const bool has_tiles = counts.tiles || counts.dense_factors;
  const int64_t values = added->heads() * added->size() * added->size();
  if (has_tiles || values > (q.is_cuda() ? kLargestBiasOnCuda : kLargestBias)) {
    return softmax_attention(q, k, v, added, {.mask = SoftmaxMask::additive});
  }
  return at::scaled_dot_product_attention(q, k, v, added->dense().to(q.scalar_type()));
}

namespace {

/// Before the first layer is made of it.
int64_t checked_heads(int64_t width, int64_t heads, const std::shared_ptr<AttentionVariant>& variant) {
  constexpr int64_t kMostWidth = int64_t{1} << 24;
  TORCH_CHECK(width >= 1 && width <= kMostWidth, "MultiheadAttention: width must be from 1 to ", kMostWidth, ", got ",
              width);
  TORCH_CHECK(heads >= 1 && width % heads == 0, "MultiheadAttention: heads must divide width ", width, ", got ", heads);
  TORCH_CHECK(variant != nullptr, "MultiheadAttention: variant must be given, got none");
  return heads;
}

}  // namespace

MultiheadAttention::MultiheadAttention(int64_t width, int64_t heads, std::shared_ptr<AttentionVariant> variant)
    : heads_(checked_heads(width, heads, variant)),
      qkv_(register_module("qkv", torch::nn::Linear(width, 3 * width))),
      projection_(register_module("projection", torch::nn::Linear(width, width))),
      variant_(register_module("variant", std::move(variant))) {}

at::Tensor MultiheadAttention::together(const at::Tensor& x) {
  return topomask::forward(qkv_, x).unflatten(-1, {3, heads_, x.size(-1) / heads_});
}

at::Tensor MultiheadAttention::forward(const at::Tensor& x) {
  return topomask::forward(projection_, variant_->forward_together(together(x)).transpose(1, 2).flatten(2));
}

at::Tensor MultiheadAttention::row(const at::Tensor& x, int64_t token) {
  const auto qkv = parts_of(together(x));
  return variant_->row(qkv[0], qkv[1], token);
}

}  // namespace topomask
