#pragma once

#include <ATen/core/Tensor.h>

#include "core/shapes.h"
#include "topomask/planner.h"

namespace topomask {

/// The checked arguments of an attention call; under autocast q, k, v come in its dtype.
struct Inputs {
  Inputs(const char* op, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const MaskPtr& mask, double eps,
         int64_t memory_budget);

  Workload workload(int64_t features) const;

  at::Tensor q;
  at::Tensor k;
  at::Tensor v;
  LeadingDims dims;
  bool training = false;  ///< gradients of q, k, v or the mask are wanted
};

/// Tensors [..., N, C] as a route takes them, [B, H, N, C], and back. The sparse and fused kernels on a GPU take a mask
/// of one head for any number of heads, and rows with any strides: folding heads into the batch would copy tensors that
/// are nodes first in memory.
class RouteLayout {
 public:
  RouteLayout(const Inputs& inputs, Route route);

  at::Tensor fold(const at::Tensor& x) const;
  at::Tensor unfold(const at::Tensor& x) const;
  bool nodes_first() const { return nodes_first_; }  ///< v is [B, N, H, d] in memory, and so should the result be

 private:
  const LeadingDims& dims_;
  int64_t as_it_is_ = 0;  ///< the dimensions of q where heads and batch stay what they are, 0 where they do not
  bool nodes_first_ = false;
};

}  // namespace topomask
