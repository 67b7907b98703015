#include <ATen/ATen.h>

#include "attention/routes.h"
#include "core/checks.h"

namespace topomask {

namespace {

/// What tensor cores take without a detour: rows of multiples of 16 bytes, and bfloat16 as it comes. The weights are
/// then rounded to bfloat16 between the two products, as fused softmax attention does.
struct DenseForm {
  explicit DenseForm(const at::Tensor& q)
      : device(q.device()),
        type(q.is_cuda() && q.scalar_type() == at::kBFloat16 ? at::kBFloat16 : accumulation_type(q.scalar_type())),
        padding(q.is_cuda() ? (8 - q.size(-2) % 8) % 8 : 0) {}

  at::Tensor keys(const at::Tensor& x) const { return padded(x.to(type), {0, 0, 0, padding}); }
  at::Tensor mask(const at::Tensor& m) const { return padded(m.to(device, type), {0, padding}); }

  at::Device device;
  at::ScalarType type;
  int64_t padding;

 private:
  at::Tensor padded(const at::Tensor& x, at::IntArrayRef by) const {
    return padding > 0 ? at::constant_pad_nd(x, by) : x;
  }
};

}  // namespace

at::Tensor dense_route(const Problem& problem) {
  const DenseForm form(problem.q);
  const at::Tensor k = form.keys(problem.k), v = form.keys(problem.v);
  const at::Tensor weights = at::matmul(problem.q.to(form.type), k.mT()) * form.mask(problem.mask->dense());
  return normalise(at::matmul(weights, v), weights.sum(-1), problem.eps).to(problem.v.scalar_type());
}

}  // namespace topomask
