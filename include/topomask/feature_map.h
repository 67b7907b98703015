#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "topomask/export.h"

namespace TOPOMASK_API topomask {

enum class Scaling {
  none,
  inverse_sqrt,         ///< x / √d_k
  inverse_fourth_root,  ///< x / d_k^{1/4}: φ(q)·φ(k) then sees qᵀk/√d_k
};

struct FavorOptions {
  uint64_t seed = 0;
  bool orthogonal = true;  ///< blocks of orthogonal directions with the norms of Gaussian vectors
  /// Subtract the largest exponent, per query row and per key matrix: it cancels in attention and keeps float32 from
  /// overflow.
  bool stabilised = false;
};

/// φ: R^{d_k} → R^m, applied to queries and keys before kernel attention. A value type; differentiable in x.
class FeatureMap {
 public:
  using Function = std::function<at::Tensor(const at::Tensor&)>;

  static FeatureMap identity();
  static FeatureMap relu(double offset = 0.0);  ///< max(x, 0) + offset, finite and >= 0
  static FeatureMap elu();                      ///< ELU(x) + 1
  static FeatureMap exp();
  static FeatureMap squared_relu();
  /// FAVOR+ (Choromanski et al. 2021): φ(x) = exp(ωᵀx' − ‖x'‖²/2)/√m, x' = x/d_k^{1/4}: positive, E[φ(q)·φ(k)] =
  /// exp(qᵀk/√d_k).
  static FeatureMap favor(int64_t head_dim, int64_t features, const FavorOptions& options = {});
  /// The same with given directions omega [m, d_k], m and d_k >= 1, finite.
  static FeatureMap favor(const at::Tensor& omega, bool stabilised = false);
  static FeatureMap custom(std::string name, Function function);

  /// The map after a scaling of its input. FAVOR+ carries its own and refuses another.
  FeatureMap scaled(Scaling scaling) const;
  /// FAVOR+ with new directions from another seed; other maps have nothing to redraw and refuse.
  FeatureMap redrawn(uint64_t seed) const;

  const std::string& name() const;
  /// The offset, if the map is exactly max(x, 0) + offset, so that kernels may compute it themselves.
  std::optional<double> relu_offset() const;
  at::Tensor operator()(const at::Tensor& x) const;  ///< [..., d_k] → [..., m], not stabilised
  at::Tensor queries(const at::Tensor& q) const;
  at::Tensor keys(const at::Tensor& k) const;

 private:
  struct Rule;
  explicit FeatureMap(std::shared_ptr<const Rule> rule);
  std::shared_ptr<const Rule> rule_;
};

/// Gaussian directions [m, d] from a seed, orthogonal inside blocks of d rows where asked. Float64. m, d >= 1, and at
/// most 2³¹−1 numbers.
at::Tensor favor_directions(int64_t features, int64_t head_dim, uint64_t seed, bool orthogonal = true);

}  // namespace topomask
