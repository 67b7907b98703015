#include "masks/toeplitz/windows.h"

#include <ATen/ATen.h>

#include <numeric>

namespace topomask {
namespace {

/// 1 … d: the grid axes after the heads.
std::vector<int64_t> grid_axes(size_t axes) {
  std::vector<int64_t> result(axes);
  std::iota(result.begin(), result.end(), 1);
  return result;
}

std::vector<int64_t> windows_shape(int64_t heads, const std::vector<int64_t>& dims) {
  std::vector<int64_t> shape{heads};
  for (int side = 0; side < 2; ++side) shape.insert(shape.end(), dims.begin(), dims.end());
  return shape;
}

}  // namespace

at::Tensor reversed_windows(const at::Tensor& g, const std::vector<int64_t>& dims) {
  at::Tensor windows = g.flip(grid_axes(dims.size()));
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    windows = windows.unfold(static_cast<int64_t>(axis) + 1, dims[axis], 1);
  }
  return windows;
}

at::Tensor window_sums(const at::Tensor& w, int64_t windows, int64_t axes) {
  at::Tensor sums = w;
  for (int64_t place = w.dim() - axes - 1; windows > 0; --windows, --place) {
    std::vector<int64_t> shape = sums.sizes().vec();
    const int64_t width = shape.back();
    shape.pop_back();
    shape[place] += width - 1;
    sums = at::unfold_backward(sums, shape, place, width, 1);
  }
  return sums;
}

at::Tensor toeplitz_dense(const at::Tensor& g, const std::vector<int64_t>& dims) {
  const int64_t nodes = c10::multiply_integers(dims);
  if (nodes == 0) return at::zeros({g.size(0), 0, 0}, g.options());
  return reversed_windows(g, dims).flip(grid_axes(dims.size())).reshape({g.size(0), nodes, nodes});
}

at::Tensor toeplitz_dense_gradient(const at::Tensor& grad, const std::vector<int64_t>& dims) {
  const auto axes = static_cast<int64_t>(dims.size());
  const at::Tensor reversed = grad.flip(1).reshape(windows_shape(grad.size(0), dims));
  return window_sums(reversed, axes, axes).flip(grid_axes(dims.size()));
}

}  // namespace topomask
