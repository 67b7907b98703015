#include "core/tensor_cache.h"

#include <ATen/ATen.h>

#include <cstring>

namespace topomask {
namespace {

bool is_plain_on_cpu(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.layout() == at::kStrided && !tensor.is_inference();
}

/// Bytes, not numbers: NaN equals itself, and −0 differs from 0.
bool same_bytes(const at::Tensor& tensor, const at::Tensor& copy) {
  if (tensor.scalar_type() != copy.scalar_type() || tensor.sizes() != copy.sizes()) return false;
  const at::Tensor plain = tensor.detach().resolve_neg().contiguous();
  return copy.nbytes() == 0 || std::memcmp(plain.const_data_ptr(), copy.const_data_ptr(), copy.nbytes()) == 0;
}

}  // namespace

bool TensorCache::serves(const std::vector<at::Tensor>& parameters) {
  return std::all_of(parameters.begin(), parameters.end(),
                     [](const at::Tensor& p) { return is_plain_on_cpu(p) && !p.requires_grad(); });
}

bool TensorCache::comparable(const std::vector<at::Tensor>& parameters) {
  return std::all_of(parameters.begin(), parameters.end(), [](const at::Tensor& p) {
    const bool recorded = p.requires_grad() && at::GradMode::is_enabled();
    return is_plain_on_cpu(p) && !recorded;
  });
}

std::vector<at::Tensor> TensorCache::copied(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& p : parameters) copies.push_back(p.detach().resolve_neg().clone(at::MemoryFormat::Contiguous));
  return copies;
}

size_t TensorCache::bytes(const std::vector<at::Tensor>& tensors) {
  size_t sum = 0;
  for (const at::Tensor& tensor : tensors) sum += tensor.defined() ? tensor.nbytes() : 0;
  return sum;
}

bool TensorCache::holds(const std::vector<at::Tensor>& parameters) const {
  return !results_.empty() &&
         std::equal(parameters.begin(), parameters.end(), parameters_.begin(), parameters_.end(), same_bytes);
}

}  // namespace topomask
