#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "masks/forest/low_rank/exponential_polynomial.h"
#include "topomask/forest.h"

namespace topomask {

struct DistanceFunction::Rule {
  enum class Kind {
    exact,        ///< `exact`
    smooth,       ///< `function` and `tolerance`
    on_integers,  ///< `function`
    exponential,  ///< learnable `a`, and `b` or undefined
    table,        ///< learnable `f`
  };

  Kind kind;
  std::optional<ExponentialPolynomial> exact = {};
  Function function = {};  ///< of every kind without parameters
  double tolerance = 0;
  at::Tensor a = {}, b = {}, f = {};

  bool learnable() const { return kind == Kind::exponential || kind == Kind::table; }
};

}  // namespace topomask
