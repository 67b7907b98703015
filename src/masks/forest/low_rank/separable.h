#pragma once

#include <cstdint>
#include <memory>

namespace topomask {

/// f(x+y) = Σ_k receive_k(x)·send_k(y).
struct Separable {
  virtual ~Separable() = default;
  virtual void evaluate(double x, double* send, double* receive) const = 0;  ///< `rank` values each

  int64_t rank = 0;
};

using SeparablePtr = std::shared_ptr<const Separable>;

}  // namespace topomask
