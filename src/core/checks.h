#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceType.h>
#include <c10/util/Exception.h>

#include <cmath>
#include <cstdint>
#include <string>

#include "core/internal_api.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// What a user sees of a tensor in an error: dtype, shape and device, such as "Float[3, 5] on cpu", or "undefined".
std::string describe(const at::Tensor& tensor);

inline bool is_real(at::ScalarType dtype) {
  return dtype == at::kFloat || dtype == at::kDouble;
}

/// The dtypes of tensors over nodes (queries, keys, values, signals): float64, float32 and bfloat16 on the CPU and on
/// CUDA, float16 on CUDA only. A kernel may take fewer: its operator's `supports` says so.
bool is_node_dtype(at::ScalarType dtype, at::DeviceType device);

/// The same in errors: "float64, float32 or bfloat16 on cpu".
const char* node_dtypes(at::DeviceType device);

/// Refuses NaN and infinities, naming the first and its place: "grf_mask: f must be finite, got nan at [0, 3]". Values
/// are checked on the CPU only: reading them from a GPU would make the caller wait for it.
void check_finite(const char* op, const char* name, const at::Tensor& values);
inline void check_finite(const char* op, const char* name, double value) {
  TORCH_CHECK(std::isfinite(value), op, ": ", name, " must be finite, got ", value);
}

/// Refuses NaN and +∞, on the CPU: −∞ is what excludes a pair in an additive mask.
void check_below_infinity(const char* op, const char* name, const at::Tensor& values);

/// At the head of a backward pass that autograd cannot differentiate again: refuses create_graph, which would lose its
/// part of the second derivative.
void check_differentiated_once(const char* op);

/// The product of sizes, none of them negative. One above `most` is refused, without overflow: "OP: WHAT must be at
/// most 100, got 3 x 50".
int64_t checked_product(const char* op, const char* what, at::IntArrayRef sizes, int64_t most);

/// The most numbers that a random or dense factor of a mask may hold.
inline constexpr int64_t kMostNumbers = int64_t{1} << 40;

/// The type sums are kept in: float64 for float64, float32 for float32 and the half precisions.
inline at::ScalarType accumulation_type(at::ScalarType dtype) {
  return dtype == at::kDouble ? at::kDouble : at::kFloat;
}

}  // namespace topomask
