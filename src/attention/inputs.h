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

}  // namespace topomask
