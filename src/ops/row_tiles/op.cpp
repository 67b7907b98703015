#include "ops/row_tiles/op.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include "ops/call.h"

namespace topomask::ops::row_tiles {

at::Tensor make(at::TensorList pattern) {
  return call<"row_tiles", at::Tensor(at::TensorList)>(pattern);
}

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.set_python_module("topomask.fake");  // sizes depend on data: the fake kernel is there
  m.def("row_tiles(Tensor[] pattern) -> Tensor");
}

}  // namespace topomask::ops::row_tiles
