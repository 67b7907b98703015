#include "ops/low_rank_level/op.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include "ops/call.h"

namespace topomask::ops::low_rank_level {

using at::Tensor;

void add_products(Tensor& y, const Tensor& x, const Tensor& nodes, const Tensor& pieces, const Tensor& components,
                  const Tensor& send, const Tensor& receive, int64_t rank) {
  using Signature = Tensor&(Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                            const Tensor&, int64_t);
  call<"low_rank_level_", Signature>(y, x, nodes, pieces, components, send, receive, rank);
}

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.def(
      "low_rank_level_(Tensor(a!) y, Tensor x, Tensor nodes, Tensor pieces, Tensor components, Tensor send, "
      "Tensor receive, int rank) -> Tensor(a!)");
}

TORCH_LIBRARY_IMPL(topomask, Meta, m) {
  m.impl("low_rank_level_",
         [](Tensor& y, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
            int64_t) -> Tensor& { return y; });
}

}  // namespace topomask::ops::low_rank_level
