#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <memory>

namespace topomask {

// What `to(target)` of masks, graphs and tables is made of: a dtype or device that the target does not name stays.

/// Whether the tensor has the dtype and the device of the target already.
inline bool is_at(const at::Tensor& tensor, const at::TensorOptions& target) {
  return (!target.has_dtype() || tensor.dtype() == target.dtype()) &&
         (!target.has_device() || tensor.device() == target.device() ||
          (tensor.device().type() == target.device().type() && !target.device().has_index()));
}

/// For structures that are built on the CPU and whose pointers are valid only there.
inline void check_on_cpu(const char* op, const char* argument, at::Device device) {
  TORCH_CHECK(device.is_cpu(), op, ": ", argument, " must be on cpu, got one on ", device);
}

/// On the target's device, whatever its dtype: for indices and counts. Undefined stays undefined.
inline at::Tensor moved(const at::Tensor& tensor, const at::TensorOptions& target) {
  return tensor.defined() && target.has_device() ? tensor.to(target.device()) : tensor;
}

/// A structure that is shared by pointer and knows its own copies, such as a pattern. Null stays null.
template <class Structure>
std::shared_ptr<const Structure> moved(const std::shared_ptr<const Structure>& structure,
                                       const at::TensorOptions& target) {
  return structure && target.has_device() ? structure->to(target.device()) : structure;
}

}  // namespace topomask
