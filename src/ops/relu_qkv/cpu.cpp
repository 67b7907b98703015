#include <ATen/ATen.h>
#include <torch/library.h>

#include "ops/relu_qkv/op.h"

namespace topomask::ops::relu_qkv {

namespace {

using at::Tensor;

Tensor forward_cpu(const Tensor& qkv, double offset) {
  check(qkv, offset);
  return qkv.narrow(2, 0, 2).relu().add_(offset).contiguous();
}

Tensor backward_cpu(const Tensor& grad_q, const Tensor& grad_k, const Tensor& grad_v, const Tensor& qkv) {
  check_gradients(grad_q, grad_k, grad_v, qkv);
  const Tensor grad = at::stack({grad_q.transpose(1, 2), grad_k.transpose(1, 2), grad_v.transpose(1, 2)}, 2);
  grad.narrow(2, 0, 2).masked_fill_(qkv.narrow(2, 0, 2) <= 0, 0);
  return grad;
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CPU, m) {
  m.impl("relu_qkv", forward_cpu);
  m.impl("relu_qkv_backward", backward_cpu);
}

}  // namespace topomask::ops::relu_qkv
