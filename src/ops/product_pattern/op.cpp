#include "ops/product_pattern/op.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include "ops/call.h"

namespace topomask::ops::product_pattern {

Two make(at::TensorList a, at::TensorList b) {
  return call<"product_pattern", Two(at::TensorList, at::TensorList)>(a, b);
}

Factors check(at::TensorList a, at::TensorList b) {
  constexpr const char* kOp = "product_pattern";
  Factors factors{{kOp, "a", a, PatternTensors::kRows}, {kOp, "b", b, PatternTensors::kBoth}};
  TORCH_CHECK(factors.b.offsets.device() == factors.a.offsets.device(), kOp, ": b must be on ",
              factors.a.offsets.device(), " as a is, got ", factors.b.offsets.device());
  return factors;
}

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.set_python_module("topomask.fake");  // sizes depend on data: the fake kernel is there
  m.def("product_pattern(Tensor[] a, Tensor[] b) -> (Tensor offsets, Tensor columns)");
}

}  // namespace topomask::ops::product_pattern
