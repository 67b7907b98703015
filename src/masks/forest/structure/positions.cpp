#include "masks/forest/structure/positions.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include "core/recycled.h"

namespace topomask {
namespace {

/// Blocks per task: a task should outlast its start.
int64_t block_grain(int64_t columns) {
  return std::max<int64_t>(1, 32768 / (16 * std::max<int64_t>(1, columns)));
}

}  // namespace

Positions::Positions(const Decomposition& decomposition) : decomposition_(decomposition) {
  const auto nodes = static_cast<int64_t>(decomposition.order.size());
  order_ = at::empty({nodes}, at::kInt);
  std::copy(decomposition.order.begin(), decomposition.order.end(), order_.mutable_data_ptr<int32_t>());
  inverse_ = at::empty({nodes}, at::kInt);
  for (int64_t i = 0; i < nodes; ++i) {
    inverse_.mutable_data_ptr<int32_t>()[decomposition.order[i]] = static_cast<int32_t>(i);
  }
}

at::Tensor Positions::near_products(const at::Tensor& values, const at::Tensor& x) const {
  at::Tensor y = recycled_empty(x.sizes(), x.options());
  const int64_t slices = x.size(0) * x.size(1), rows = x.size(2) * x.size(3), heads = values.size(0);
  const auto blocks = static_cast<int64_t>(decomposition_.blocks.size());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "near_products", [&] {
    for (int64_t slice = 0; slice < slices; ++slice) {
      const BlockArgs<scalar_t> args{
          decomposition_.blocks.data(), values.const_data_ptr<scalar_t>() + slice % heads * values.size(1),
          x.const_data_ptr<scalar_t>() + slice * rows, y.mutable_data_ptr<scalar_t>() + slice * rows, x.size(3)};
      at::parallel_for(0, blocks, block_grain(x.size(3)),
                       [&](int64_t begin, int64_t end) { block_products(args, begin, end); });
    }
  });
  return y;
}

at::Tensor Positions::near_dots(const at::Tensor& g, const at::Tensor& x, int64_t heads) const {
  at::Tensor dots = at::zeros({heads, static_cast<int64_t>(decomposition_.near.size())}, at::kDouble);
  const int64_t slices = x.size(0) * x.size(1), rows = x.size(2) * x.size(3);
  const auto blocks = static_cast<int64_t>(decomposition_.blocks.size());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "near_dots", [&] {
    for (int64_t slice = 0; slice < slices; ++slice) {
      const BlockDotArgs<scalar_t> args{decomposition_.blocks.data(), g.const_data_ptr<scalar_t>() + slice * rows,
                                        x.const_data_ptr<scalar_t>() + slice * rows, x.size(3),
                                        dots.mutable_data_ptr<double>() + slice % heads * dots.size(1)};
      at::parallel_for(0, blocks, block_grain(x.size(3)),
                       [&](int64_t begin, int64_t end) { block_dots(args, begin, end); });
    }
  });
  return dots;
}

}  // namespace topomask
