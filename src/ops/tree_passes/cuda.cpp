#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "core/checks.h"
#include "ops/tree_passes/cuda_kernel.h"

namespace topomask::ops::tree_passes {

namespace {

using at::Tensor;

std::tuple<Tensor, Tensor> tree_passes_cuda(const Tensor& x, const Tensor& edge, at::TensorList paths,
                                            at::IntArrayRef levels) {
  TORCH_CHECK(paths.size() == 6, "tree_passes: paths must be a list of 6 tensors, got ", paths.size());
  TORCH_CHECK(x.dim() == 4 && is_real(x.scalar_type()) && edge.dim() == 2 && edge.size(0) == x.size(1) &&
                  edge.size(1) == x.size(2) && edge.scalar_type() == x.scalar_type() && edge.device() == x.device(),
              "tree_passes: edge must be like x ", describe(x), ", [H, N], got ", describe(edge));
  const c10::cuda::CUDAGuard guard(x.device());
  const Tensor source = x.contiguous(), edges = edge.contiguous();
  const Tensor inside = at::empty_like(source), beside = at::empty_like(source), outside = at::empty_like(source);
  if (x.numel() == 0) return {inside, outside};
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  const auto index = [&](int which) { return paths[which].const_data_ptr<int32_t>(); };
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "tree_passes", [&] {
    const cuda::TreeArgs<scalar_t> args{.nodes = index(0),
                                        .offsets = index(1),
                                        .parent = index(2),
                                        .heavy = index(3),
                                        .light_offsets = index(4),
                                        .light_children = index(5),
                                        .edge = edges.const_data_ptr<scalar_t>(),
                                        .x = source.const_data_ptr<scalar_t>(),
                                        .inside = inside.mutable_data_ptr<scalar_t>(),
                                        .beside = beside.mutable_data_ptr<scalar_t>(),
                                        .outside = outside.mutable_data_ptr<scalar_t>(),
                                        .size = x.size(2),
                                        .columns = x.size(3),
                                        .slices = x.size(0) * x.size(1),
                                        .heads = x.size(1)};
    const auto last = static_cast<int64_t>(levels.size()) - 1;
    for (int64_t l = last; l-- > 0;) cuda::tree_inside(args, levels[l], levels[l + 1], stream);
    cuda::tree_beside(args, stream);
    for (int64_t l = 0; l < last; ++l) cuda::tree_outside(args, levels[l], levels[l + 1], stream);
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {inside, outside};
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CUDA, m) {
  m.impl("tree_passes", tree_passes_cuda);
}

}  // namespace topomask::ops::tree_passes
