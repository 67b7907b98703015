#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "core/checks.h"
#include "ops/tree_table/cuda_kernel.h"

namespace topomask::ops::tree_table {

namespace {

using at::Tensor;

void check_rows(const char* op, const char* name, const Tensor& rows) {
  TORCH_CHECK(rows.dim() == 4 && is_real(rows.scalar_type()) && rows.is_contiguous(), op, ": ", name,
              " must be contiguous float32 or float64 [B, H, N, C], got ", describe(rows));
}

Tensor row_sums_cuda(const Tensor& x, const Tensor& offsets, const Tensor& items) {
  const Tensor from = x.contiguous();
  check_rows("tree_row_sums", "x", from);
  const c10::cuda::CUDAGuard guard(x.device());
  const int64_t rows = offsets.size(0) - 1;
  const Tensor to = at::empty({x.size(0), x.size(1), rows, x.size(3)}, x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "tree_row_sums", [&] {
    cuda::row_sums(cuda::RowSumArgs<scalar_t>{.offsets = offsets.const_data_ptr<int64_t>(),
                                              .items = items.const_data_ptr<int32_t>(),
                                              .from = from.const_data_ptr<scalar_t>(),
                                              .to = to.mutable_data_ptr<scalar_t>(),
                                              .rows = rows,
                                              .from_rows = x.size(2),
                                              .columns = x.size(3),
                                              .slices = x.size(0) * x.size(1)},
                   c10::cuda::getCurrentCUDAStream());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return to;
}

Tensor& spread_cuda(Tensor& y, const Tensor& products, const Tensor& place, double sign) {
  check_rows("tree_spread_", "y", y);
  check_rows("tree_spread_", "products", products);
  const c10::cuda::CUDAGuard guard(y.device());
  AT_DISPATCH_FLOATING_TYPES(y.scalar_type(), "tree_spread_", [&] {
    cuda::spread(cuda::SpreadArgs<scalar_t>{.place = place.const_data_ptr<int32_t>(),
                                            .from = products.const_data_ptr<scalar_t>(),
                                            .y = y.mutable_data_ptr<scalar_t>(),
                                            .sign = static_cast<scalar_t>(sign),
                                            .rows = y.size(2),
                                            .from_rows = products.size(2),
                                            .columns = y.size(3),
                                            .slices = y.size(0) * y.size(1)},
                 c10::cuda::getCurrentCUDAStream());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

/// per_entry: a table, or its gradient.
cuda::HankelShape shape_of(const char* op, const Tensor& rows, const Tensor& depth, const Tensor& tiles,
                           const Tensor& per_entry) {
  constexpr int64_t kLongest = int64_t{1} << 31;
  TORCH_CHECK(per_entry.dim() == 2 && per_entry.is_contiguous() && per_entry.size(1) >= 1 &&
                  per_entry.size(1) <= kLongest && (per_entry.size(0) == 1 || per_entry.size(0) == rows.size(1)),
              op, ": the table must be contiguous [1 or H, 1 to 2^31], got ", describe(per_entry));
  TORCH_CHECK(tiles.dim() == 2 && tiles.size(1) == 4, op, ": tiles must be int32 [tiles, 4], got ", describe(tiles));
  return {.depth = depth.const_data_ptr<int32_t>(),
          .tiles = reinterpret_cast<const cuda::HankelTile*>(tiles.const_data_ptr<int32_t>()),
          .tile_count = tiles.size(0),
          .entries = per_entry.size(1) - 1,
          .heads = per_entry.size(0),
          .rows = rows.size(2),
          .columns = rows.size(3),
          .slices = rows.size(0) * rows.size(1)};
}

Tensor hankel_cuda(const Tensor& table, const Tensor& sums, const Tensor& depth, const Tensor& tiles) {
  check_rows("hankel", "sums", sums);
  const c10::cuda::CUDAGuard guard(sums.device());
  const Tensor plain = table.contiguous(), products = at::empty_like(sums);
  const cuda::HankelShape shape = shape_of("hankel", sums, depth, tiles, plain);
  AT_DISPATCH_FLOATING_TYPES(sums.scalar_type(), "hankel", [&] {
    cuda::hankel_products(shape, plain.const_data_ptr<scalar_t>(), sums.const_data_ptr<scalar_t>(),
                          products.mutable_data_ptr<scalar_t>(), c10::cuda::getCurrentCUDAStream());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return products;
}

Tensor& hankel_gradient_cuda(Tensor& gradient, const Tensor& g, const Tensor& x, const Tensor& depth,
                             const Tensor& tiles, double sign) {
  check_rows("hankel_gradient_", "g", g);
  check_rows("hankel_gradient_", "x", x);
  const c10::cuda::CUDAGuard guard(x.device());
  const cuda::HankelShape shape = shape_of("hankel_gradient_", x, depth, tiles, gradient);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "hankel_gradient_", [&] {
    cuda::hankel_gradient(shape, g.const_data_ptr<scalar_t>(), x.const_data_ptr<scalar_t>(), sign,
                          gradient.mutable_data_ptr<double>(), c10::cuda::getCurrentCUDAStream());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return gradient;
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CUDA, m) {
  m.impl("tree_row_sums", row_sums_cuda);
  m.impl("tree_spread_", spread_cuda);
  m.impl("hankel", hankel_cuda);
  m.impl("hankel_gradient_", hankel_gradient_cuda);
}

}  // namespace topomask::ops::tree_table
