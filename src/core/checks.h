#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <string>

namespace topomask {

/// What a user sees of a tensor in an error: dtype, shape and device, such as "Float[3, 5] on cpu", or "undefined".
std::string describe(const at::Tensor& tensor);

inline bool is_real(at::ScalarType dtype) {
  return dtype == at::kFloat || dtype == at::kDouble;
}

/// The type sums are kept in: float64 for float64, float32 for float32 and the half precisions.
inline at::ScalarType accumulation_type(at::ScalarType dtype) {
  return dtype == at::kDouble ? at::kDouble : at::kFloat;
}

}  // namespace topomask
