#include "ops/relu_qkv/op.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <limits>

#include "core/checks.h"
#include "ops/call.h"

namespace topomask::ops::relu_qkv {

using at::Tensor;

void check(const Tensor& qkv, double offset) {
  TORCH_CHECK(qkv.dim() == 5 && qkv.size(2) == 3 && qkv.is_floating_point(),
              "relu_qkv: qkv must be floating [B, N, 3, H, d], got ", describe(qkv));
  check_finite("relu_qkv", "offset", offset);
}

void check_gradients(const Tensor& grad_q, const Tensor& grad_k, const Tensor& grad_v, const Tensor& qkv) {
  check(qkv);
  const std::vector<int64_t> shape{qkv.size(0), qkv.size(3), qkv.size(1), qkv.size(4)};
  const auto check_one = [&](const char* name, const Tensor& grad) {
    TORCH_CHECK(grad.sizes() == shape && grad.scalar_type() == qkv.scalar_type() && grad.device() == qkv.device(),
                "relu_qkv_backward: ", name, " must be [B, H, N, d] = ", at::IntArrayRef(shape), " like qkv, ",
                describe(qkv), ", got ", describe(grad));
  };
  check_one("grad_q", grad_q);
  check_one("grad_k", grad_k);
  check_one("grad_v", grad_v);
}

bool supports(const Tensor& qkv) {
  return qkv.is_cuda() && is_node_dtype(qkv.scalar_type(), at::kCUDA) && qkv.is_contiguous() && qkv.size(4) % 8 == 0 &&
         qkv.numel() > 0 && qkv.numel() <= std::numeric_limits<uint32_t>::max() &&
         reinterpret_cast<uintptr_t>(qkv.const_data_ptr()) % 16 == 0;
}

Tensor forward(const Tensor& qkv, double offset) {
  return call<"relu_qkv", Tensor(const Tensor&, double)>(qkv, offset);
}

Tensor backward(const Tensor& grad_q, const Tensor& grad_k, const Tensor& grad_v, const Tensor& qkv) {
  using Signature = Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&);
  return call<"relu_qkv_backward", Signature>(grad_q, grad_k, grad_v, qkv);
}

namespace {

Tensor forward_meta(const Tensor& qkv, double) {
  return at::empty_symint({qkv.sym_size(0), qkv.sym_size(1), 2, qkv.sym_size(3), qkv.sym_size(4)}, qkv.options());
}

Tensor backward_meta(const Tensor&, const Tensor&, const Tensor&, const Tensor& qkv) {
  return at::empty_symint(qkv.sym_sizes(), qkv.options());
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.def("relu_qkv(Tensor qkv, float offset) -> Tensor");
  m.def("relu_qkv_backward(Tensor grad_q, Tensor grad_k, Tensor grad_v, Tensor qkv) -> Tensor");
}

TORCH_LIBRARY_IMPL(topomask, Meta, m) {
  m.impl("relu_qkv", forward_meta);
  m.impl("relu_qkv_backward", backward_meta);
}

}  // namespace topomask::ops::relu_qkv
