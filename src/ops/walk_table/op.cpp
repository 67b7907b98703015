#include "ops/walk_table/op.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include "ops/call.h"
#include "ops/deprecated/op.h"

namespace topomask::ops::walk_table {

using at::Tensor;
using Optional = const std::optional<Tensor>&;

std::vector<Tensor> table(at::TensorList pattern, const Tensor& factors, Optional threshold, Optional alias,
                          const Tensor& halt_below, const Tensor& scale, int64_t walkers, int64_t first_walker,
                          int64_t seed, bool antithetic, int64_t ensemble) {
  using Signature = std::vector<Tensor>(at::TensorList, const Tensor&, Optional, Optional, const Tensor&, const Tensor&,
                                        int64_t, int64_t, int64_t, bool, int64_t);
  return call<"walk_table", Signature>(pattern, factors, threshold, alias, halt_below, scale, walkers, first_walker,
                                       seed, antithetic, ensemble);
}

std::vector<Tensor> visits(at::TensorList pattern, const Tensor& factors, Optional threshold, Optional alias,
                           const Tensor& halt_below, const Tensor& scale, int64_t walkers, int64_t first_walker,
                           int64_t seed, bool antithetic, int64_t ensemble, int64_t first, int64_t count) {
  using Signature = std::vector<Tensor>(at::TensorList, const Tensor&, Optional, Optional, const Tensor&, const Tensor&,
                                        int64_t, int64_t, int64_t, bool, int64_t, int64_t, int64_t);
  return call<"walk_visits", Signature>(pattern, factors, threshold, alias, halt_below, scale, walkers, first_walker,
                                        seed, antithetic, ensemble, first, count);
}

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.set_python_module("topomask.fake");  // sizes depend on data: the fake kernels are there
  m.def(
      "walk_table(Tensor[] pattern, Tensor factors, Tensor? threshold, Tensor? alias, Tensor halt_below, Tensor scale, "
      "int walkers, int first_walker, int seed, bool antithetic, int ensemble) -> Tensor[]");
  m.def(
      "walk_visits(Tensor[] pattern, Tensor factors, Tensor? threshold, Tensor? alias, Tensor halt_below, "
      "Tensor scale, int walkers, int first_walker, int seed, bool antithetic, int ensemble, int first, int count) "
      "-> Tensor[]");
  deprecated::define_walk_table(m);
}

}  // namespace topomask::ops::walk_table
