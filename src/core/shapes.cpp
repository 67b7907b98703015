#include "core/shapes.h"

#include <ATen/ATen.h>

#include "core/checks.h"

namespace topomask {

LeadingDims::LeadingDims(const char* op, const char* argument, const at::Tensor& x, int64_t heads, int64_t nodes)
    : heads_(heads) {
  TORCH_CHECK(x.defined() && x.dim() >= 2 && x.size(-2) == nodes, op, ": ", argument, " must be [..., N = ", nodes,
              ", C], got ", describe(x));
  TORCH_CHECK(heads == 1 || (x.dim() >= 3 && x.size(-3) == heads), op, ": ", argument, " must be [..., H = ", heads,
              ", N = ", nodes, ", C] for a mask with ", heads, " heads, got ", describe(x));
  leading_ = x.sizes().slice(0, x.dim() - 2).vec();
  for (int64_t size : leading_) batch_ *= size;
  if (heads > 1) batch_ /= heads;
}

at::Tensor LeadingDims::fold(const at::Tensor& x) const {
  return x.reshape({batch_, heads_, x.size(-2), x.size(-1)});
}

at::Tensor LeadingDims::unfold(const at::Tensor& x) const {
  std::vector<int64_t> shape = leading_;
  shape.push_back(x.size(-2));
  shape.push_back(x.size(-1));
  return x.reshape(shape);
}

}  // namespace topomask
