#include <ATen/ATen.h>

#include <cmath>
#include <numbers>

#include "core/checks.h"
#include "nn/layers.h"
#include "ops/nearest_neighbours/op.h"
#include "topomask/attention.h"
#include "topomask/masks.h"
#include "topomask/nn/point_model.h"

namespace topomask {
namespace {

torch::nn::LayerNorm token_norm(int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
}

int64_t hidden_of(const PointModelOptions& options) {
  return static_cast<int64_t>(options.mlp_ratio * static_cast<double>(options.width));
}

// Steps of the optimiser change all weights of the head at once: without the first factor they would throw the
// particles of a table about by centimetres, where a picture shows millimetres, and without the second one a model
// learns that what moves fades before it learns where it goes.
constexpr double kMoveScale = 0.1, kFeatureScale = 0.02;
constexpr int64_t kContext = 10;     // offset, move, and both weighted
constexpr double kArmRadius = 0.06;  // metres from points of the arm to its surface, about

/// What comes out of a step is added in the type of the positions, whatever autocast made of it.
at::Tensor added(const at::Tensor& x, const at::Tensor& change) {
  return x + change.to(x.scalar_type());
}

}  // namespace

InterlacerBlock::InterlacerBlock(const PointModelOptions& options)
    : heads_(options.heads),
      offset_(options.feature_offset),
      attention_norm_(register_module("attention_norm", token_norm(options.width))),
      perceptron_norm_(register_module("perceptron_norm", token_norm(options.width))),
      qkv_(register_module("qkv", torch::nn::Linear(options.width, 3 * options.width))),
      projection_(register_module("projection", torch::nn::Linear(options.width, options.width))),
      expand_(register_module("expand", torch::nn::Linear(options.width, hidden_of(options)))),
      contract_(register_module("contract", torch::nn::Linear(hidden_of(options), options.width))),
      local_(make_local_layer(options)) {
  if (!local_) return;
  local_norm_ = register_module("local_norm", token_norm(options.width));
  register_module("local", local_);
}

at::Tensor InterlacerBlock::attend(const at::Tensor& x) {
  const at::Tensor qkv = topomask::forward(qkv_, x).unflatten(-1, {3, heads_, x.size(-1) / heads_});
  std::vector<at::Tensor> parts = qkv.unbind(2);
  for (at::Tensor& part : parts) part = x.is_cuda() ? part.transpose(1, 2) : part.transpose(1, 2).contiguous();
  const at::Tensor out = attention(parts[0], parts[1], parts[2], none_mask(x.size(1)),
                                   {.features = FeatureMap::relu(offset_), .route = Route::features});
  return topomask::forward(projection_, out.transpose(1, 2).flatten(2));
}

at::Tensor InterlacerBlock::forward(const at::Tensor& x, const LocalStructure& structure) {
  at::Tensor y = added(x, attend(before_linear(attention_norm_, x)));
  if (local_) y = added(y, local_->forward(topomask::forward(local_norm_, y), structure));
  const at::Tensor hidden = at::gelu(topomask::forward(expand_, before_linear(perceptron_norm_, y)));
  return added(y, topomask::forward(contract_, hidden));
}

Interlacer::Interlacer(const PointModelOptions& options)
    : options_(options),
      embed_features_(register_module("embed_features", torch::nn::Linear(options.features, options.width))),
      embed_positions_(register_module("embed_positions", torch::nn::Linear(3 + 6 * options.octaves, options.width))),
      embed_displacements_(register_module("embed_displacements", torch::nn::Linear(3, options.width))),
      times_(register_parameter("times", at::randn({5, options.width}) * 0.02)),
      norm_(register_module("norm", token_norm(options.width))),
      head_(register_module("head", torch::nn::Linear(options.width, 3 + options.features))) {
  for (int64_t b = 0; b < options.blocks; ++b) {
    blocks_.push_back(register_module("block" + std::to_string(b), std::make_shared<InterlacerBlock>(options)));
  }
  if (options.action_context) {
    embed_context_ = register_module("embed_context", torch::nn::Linear(kContext, options.width));
    arm_ = register_parameter("arm", at::zeros({3}));
  }
  // The first prediction is that nothing moves.
  const at::NoGradGuard no_grad;
  head_->weight.zero_();
  head_->bias.zero_();
}

at::Tensor Interlacer::encoded(const at::Tensor& positions) const {
  std::vector<at::Tensor> waves{positions};
  for (int64_t o = 0; o < options_.octaves; ++o) {
    const at::Tensor angle = positions * (std::numbers::pi * std::ldexp(1.0, static_cast<int>(o)));
    waves.push_back(angle.sin());
    waves.push_back(angle.cos());
  }
  return at::cat(waves, -1);
}

/// For each particle, the offset of the nearest point of the arm at its instant, the move of that point to the next
/// one, and the move weighted by how near it is: what an arm's own particles need, which are rarely among the few
/// neighbours of a kinematic particle. [B, N + N, 10].
at::Tensor Interlacer::context(const PointCloud& before, const PointCloud& now, const at::Tensor& actions) const {
  const auto of = [&](const at::Tensor& positions, int64_t instant) {
    const at::Tensor here = actions.select(1, instant), move = actions.select(1, instant + 1) - here;
    const at::Tensor nearest =
        ops::nearest_neighbours::find_in_clouds(positions.detach(), here.detach().contiguous(), 1, false)
            .to(at::kLong)
            .expand({-1, -1, 3});
    const at::Tensor offset = here.gather(1, nearest) - positions, its_move = move.gather(1, nearest);
    const at::Tensor weight = (offset.square().sum(-1, true) * (-0.5 / (kArmRadius * kArmRadius))).exp();
    // Moves of a step are centimetres.
    constexpr double kPerMove = 10;
    return at::cat({offset, its_move * kPerMove, its_move * weight * kPerMove, weight}, -1);
  };
  return at::cat({of(before.positions, 0), of(now.positions, 1)}, 1);
}

PointCloud Interlacer::forward(const PointCloud& before, const PointCloud& now, const at::Tensor& actions) {
  constexpr const char* kOp = "Interlacer";
  TORCH_CHECK(now.positions.dim() == 3 && now.positions.size(2) == 3 && before.positions.dim() == 3 &&
                  before.positions.size(0) == now.positions.size(0),
              kOp, ": positions must be [B, N, 3], got ", describe(before.positions), " and ", describe(now.positions));
  TORCH_CHECK(
      actions.dim() == 4 && actions.size(0) == now.positions.size(0) && actions.size(1) == 3 && actions.size(3) == 3,
      kOp, ": actions must be [B = ", now.positions.size(0), ", 3, P, 3], got ", describe(actions));
  const int64_t points = actions.size(2), earlier = before.positions.size(1), count = now.positions.size(1);
  LocalStructure structure{.positions = at::cat({before.positions, now.positions, actions.flatten(1, 2)}, 1)};
  const at::Tensor moves =
      at::cat({at::zeros_like(actions.slice(1, 0, 1)), actions.slice(1, 1) - actions.slice(1, 0, 2)}, 1);
  at::Tensor particles = topomask::forward(embed_features_, at::cat({before.features, now.features}, 1));
  at::Tensor around;
  if (embed_context_) {
    around = context(before, now, actions);
    particles = particles + topomask::forward(embed_context_, around);
  }
  const at::Tensor own = at::cat({particles, topomask::forward(embed_displacements_, moves.flatten(1, 2))}, 1);
  std::vector<at::Tensor> when;
  for (int64_t t = 0; t < 5; ++t) {
    when.push_back(times_.narrow(0, t, 1).expand({t == 0 ? earlier : t == 1 ? count : points, options_.width}));
  }
  at::Tensor x = added(at::cat(when).unsqueeze(0) + own.to(times_.scalar_type()),
                       topomask::forward(embed_positions_, encoded(structure.positions)));
  for (const auto& block : blocks_) {
    if (block->local()) block->local()->prepare(structure);
  }
  for (const auto& block : blocks_) x = block->forward(x, structure);
  const at::Tensor change =
      topomask::forward(head_, before_linear(norm_, x.narrow(1, earlier, count))).to(now.positions.scalar_type());
  at::Tensor step = change.slice(2, 0, 3) * kMoveScale;
  if (arm_.defined()) {  // the weighted moves, whose size is lost in norms
    constexpr double kFollow = 4;
    step = step + around.narrow(1, earlier, count).slice(2, 6, 9) * (arm_ * kFollow);
  }
  return {now.positions + options_.largest_step * step.tanh(), now.features + change.slice(2, 3) * kFeatureScale};
}

}  // namespace topomask
