#include "torture/features.h"

#include <ATen/ATen.h>

#include <cmath>

namespace topomask::torture {
namespace {

DrawnFeatures draw_favor(Draw& draw, int64_t head_dim) {
  const int64_t features = draw.pick<int64_t>("favor_features", {3, 1, 16, 17, 40});
  const FavorOptions options{.seed = draw.number("favor"),
                             .orthogonal = draw.chance("favor_orthogonal", 60),
                             .stabilised = draw.chance("favor_stabilised", 50)};
  const bool given = draw.chance("favor_given", 30);
  const at::Tensor omega = given ? draw.normal("omega", {features, head_dim})
                                 : favor_directions(features, head_dim, options.seed, options.orthogonal);
  DrawnFeatures result;
  result.library =
      given ? FeatureMap::favor(omega, options.stabilised) : FeatureMap::favor(head_dim, features, options);
  const auto map = [omega, head_dim, features, stabilised = options.stabilised](const at::Tensor& x, bool keys) {
    const at::Tensor scaled = x / std::pow(static_cast<double>(head_dim), 0.25);
    at::Tensor exponent = at::matmul(scaled, omega.t()) - scaled.square().sum(-1, true) / 2;
    if (stabilised && exponent.numel() > 0) {
      at::Tensor largest = exponent.detach().amax(-1, true);
      if (keys) largest = largest.amax(-2, true);
      exponent = exponent - largest;
    }
    return exponent.exp() / std::sqrt(static_cast<double>(features));
  };
  result.queries = [map](const at::Tensor& x) { return map(x, false); };
  result.keys = [map](const at::Tensor& x) { return map(x, true); };
  result.magnitude = [omega](const at::Tensor& x, const at::Tensor& phi) {
    return phi.abs() * (1 + at::matmul(x.abs(), omega.abs().t()) + x.square().sum(-1, true));
  };
  result.exponential = true;
  result.what = "favor " + std::to_string(features) + (options.stabilised ? " stabilised" : "") +
                (given                ? " given"
                 : options.orthogonal ? " orthogonal"
                                      : "");
  return result;
}

}  // namespace

DrawnFeatures draw_features(Draw& draw, int64_t head_dim) {
  const Draw::Scope scope(draw, "features");
  const int64_t kind = draw.below("map", 8);
  if (kind == 7) return draw_favor(draw, head_dim);
  DrawnFeatures result;
  DrawnFeatures::Map map;
  double floor = 0;  // what φ is a difference of, at most
  switch (kind) {
    case 0:
      result.library = FeatureMap::relu();
      map = [](const at::Tensor& x) { return x.clamp_min(0); };
      result.what = "relu";
      break;
    case 1:
      result.library = FeatureMap::elu();
      map = [](const at::Tensor& x) { return at::where(x > 0, x + 1, x.clamp_max(0).exp()); };
      floor = 1;
      result.what = "elu";
      break;
    case 2:
      result.library = FeatureMap::identity();
      map = [](const at::Tensor& x) { return x; };
      result.what = "identity";
      break;
    case 3:
      result.library = FeatureMap::relu(1e-3);
      map = [](const at::Tensor& x) { return x.clamp_min(0) + 1e-3; };
      result.what = "relu+1e-3";
      break;
    case 4:
      result.library = FeatureMap::squared_relu();
      map = [](const at::Tensor& x) { return x.clamp_min(0) * x.clamp_min(0); };
      result.what = "squared relu";
      break;
    case 5:
      result.library = FeatureMap::exp();
      map = [](const at::Tensor& x) { return x.exp(); };
      result.exponential = true;
      result.what = "exp";
      break;
    default:
      result.library = FeatureMap::custom("concatenated", [](const at::Tensor& x) {
        return at::cat({x.relu(), (-x).relu()}, -1);
      });
      map = [](const at::Tensor& x) { return at::cat({x.clamp_min(0), (-x).clamp_min(0)}, -1); };
      result.what = "custom, [relu(x), relu(-x)]";
      break;
  }
  const auto scaling =
      draw.pick("scaling", {Scaling::none, Scaling::none, Scaling::inverse_sqrt, Scaling::inverse_fourth_root});
  if (scaling != Scaling::none) {
    const double factor = std::pow(static_cast<double>(head_dim), scaling == Scaling::inverse_sqrt ? -0.5 : -0.25);
    result.library = result.library.scaled(scaling);
    map = [map, factor](const at::Tensor& x) { return map(x * factor); };
    result.what += scaling == Scaling::inverse_sqrt ? " of x/sqrt(d)" : " of x/d^(1/4)";
  }
  result.queries = result.keys = map;
  result.magnitude = [floor, exponential = result.exponential](const at::Tensor& x, const at::Tensor& phi) {
    return exponential ? phi.abs() * (1 + x.abs()) : phi.abs() + floor;
  };
  return result;
}

}  // namespace topomask::torture
