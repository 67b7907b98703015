#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>

#include "nn/layers.h"
#include "ops/nearest_neighbours/op.h"
#include "topomask/nn/local_layer.h"

namespace topomask {
namespace {

/// Places in clouds, int32 [B, ...], as rows of the clouds one after the other, int64 and flat.
at::Tensor flat_rows(const at::Tensor& places, int64_t rows) {
  const at::Tensor first = at::arange(places.size(0), places.options().dtype(at::kLong)) * rows;
  return (places + first.view({-1, 1, 1})).flatten();
}

/// Messages over k neighbours and anchors (Whitney et al. 2024). Every so many-th token is an anchor a; with dense
/// layers U, V, W and P,
///
///     h_a ← h_a + W mean_j relu(U h_j + V h_a + P (x_j − x_a))   over the k nearest tokens j of a,
///
/// and every token i receives from its nearest anchor in the same way, with layers of its own: W' relu(U' h_a + V' h_i
/// + P'(x_i − x_a)).
class MessagePassing final : public LocalLayer {
 public:
  explicit MessagePassing(const PointModelOptions& options)
      : LocalLayer(options), gather_(direction("gather")), spread_(direction("spread")) {}

  void prepare(LocalStructure& structure) const override {
    if (structure.anchors.defined()) return;
    const at::Tensor positions = structure.positions.detach();
    const int64_t clouds = positions.size(0), tokens = positions.size(1), stride = options().anchor_stride;
    const at::Tensor chosen = at::arange(0, tokens, stride, positions.options().dtype(at::kInt));
    const at::Tensor places = positions.slice(1, 0, std::nullopt, stride).contiguous();
    const auto find = [](const at::Tensor& queries, const at::Tensor& points, int64_t k) {
      return ops::nearest_neighbours::find_in_clouds(queries, points, k, /*exclude_self=*/false);
    };
    structure.anchors = flat_rows(chosen.view({1, -1, 1}).expand({clouds, -1, 1}), tokens);
    structure.senders = flat_rows(find(places, positions, options().message_neighbours), tokens);
    structure.nearest_anchor = flat_rows(find(positions, places, 1), chosen.size(0));
  }

  at::Tensor forward(const at::Tensor& x, const LocalStructure& structure) override {
    const at::Tensor h = x.flatten(0, 1), positions = structure.positions.flatten(0, 1);
    const at::Tensor own = h.index_select(0, structure.anchors), here = positions.index_select(0, structure.anchors);
    const int64_t k = options().message_neighbours, width = h.size(1);
    const at::Tensor apart = positions.index_select(0, structure.senders).view({-1, k, 3}) - here.unsqueeze(1);
    const at::Tensor heard =
        at::relu(topomask::forward(gather_.sender, h).index_select(0, structure.senders).view({-1, k, width}) +
                 topomask::forward(gather_.receiver, own).unsqueeze(1) + topomask::forward(gather_.place, apart));
    const at::Tensor anchors = own + topomask::forward(gather_.out, heard.mean(1));
    const at::Tensor& of = structure.nearest_anchor;
    const at::Tensor messages = at::relu(topomask::forward(spread_.sender, anchors).index_select(0, of) +
                                         topomask::forward(spread_.receiver, h) +
                                         topomask::forward(spread_.place, positions - here.index_select(0, of)));
    return topomask::forward(spread_.out, messages).view_as(x);
  }

 private:
  struct Direction {
    torch::nn::Linear sender, receiver, place, out;
  };
  Direction direction(const std::string& name) {
    const int64_t width = options().width;
    const auto layer = [&](const char* part, int64_t in) {
      return register_module(name + "_" + part, torch::nn::Linear(in, width));
    };
    return {layer("sender", width), layer("receiver", width), layer("place", 3), layer("out", width)};
  }

  Direction gather_, spread_;
};

const LocalLayerRegistration kMessagePassing("message_passing", [](const PointModelOptions& options) {
  return std::make_shared<MessagePassing>(options);
});

}  // namespace
}  // namespace topomask
