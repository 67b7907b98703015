#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include "core/ordered_sums.h"
#include "core/recycled.h"
#include "ops/walk_features/cpu_kernel.h"
#include "ops/walk_features/triples.h"

namespace topomask::ops::walk_features {

namespace {

using at::Tensor;

/// Entries per task, and per partial sum of the gradient: fixed, so that sums do not depend on the number of threads.
constexpr int64_t kEntries = 8192;

template <class T>
WalkFeaturesArgs<T> kernel_args(const TripleTensors& triples, int64_t terms, double scale) {
  return {triples.offsets.const_data_ptr<int64_t>(), triples.hops.const_data_ptr<int16_t>(),
          triples.loads.const_data_ptr<T>(), terms, static_cast<T>(scale)};
}

Tensor walk_features_cpu(const Tensor& f, const Tensor& hops, const Tensor& loads, const Tensor& feature_offsets,
                         double scale) {
  const TripleTensors triples("walk_features", f, "f", hops, loads, feature_offsets);
  const int64_t heads = f.size(0), entries = triples.entries();
  const Tensor padded = at::constant_pad_nd(f, {0, 1}).contiguous();
  const Tensor values = recycled_empty({heads, entries}, f.options());
  AT_DISPATCH_FLOATING_TYPES(f.scalar_type(), "walk_features", [&] {
    const auto args = kernel_args<scalar_t>(triples, f.size(1), scale);
    const auto* functions = padded.const_data_ptr<scalar_t>();
    auto* out = values.mutable_data_ptr<scalar_t>();
    // Heads inside: the triples of a task are in the cache from the second one on.
    at::parallel_for(0, (entries + kEntries - 1) / kEntries, 1, [&](int64_t first, int64_t last) {
      for (int64_t task = first; task < last; ++task) {
        for (int64_t h = 0; h < heads; ++h) {
          walk_features_entries(args, functions + h * (args.terms + 1), out + h * entries, task * kEntries,
                                std::min(entries, (task + 1) * kEntries));
        }
      }
    });
  });
  return values;
}

Tensor walk_features_backward_cpu(const Tensor& grad, const Tensor& hops, const Tensor& loads,
                                  const Tensor& feature_offsets, int64_t terms, double scale) {
  const TripleTensors triples("walk_features_backward", grad, "grad", hops, loads, feature_offsets);
  const int64_t heads = grad.size(0), entries = triples.entries();
  TORCH_CHECK(grad.size(1) == entries, "walk_features_backward: grad must be [H, ", entries, "], got ", describe(grad));
  TORCH_CHECK(terms >= 0, "walk_features_backward: terms must be >= 0, got ", terms);
  const Tensor kept = grad.contiguous();
  const int64_t tasks = (entries + kEntries - 1) / kEntries;
  const Tensor partial = at::zeros({tasks, heads, terms + 1}, at::kDouble);
  AT_DISPATCH_FLOATING_TYPES(grad.scalar_type(), "walk_features_backward", [&] {
    const auto args = kernel_args<scalar_t>(triples, terms, scale);
    const auto* grads = kept.const_data_ptr<scalar_t>();
    auto* sums = partial.mutable_data_ptr<double>();
    at::parallel_for(0, tasks, 1, [&](int64_t first, int64_t last) {
      for (int64_t task = first; task < last; ++task) {
        for (int64_t h = 0; h < heads; ++h) {
          walk_features_backward_entries(args, grads + h * entries, sums + (task * heads + h) * (terms + 1),
                                         task * kEntries, std::min(entries, (task + 1) * kEntries));
        }
      }
    });
  });
  return first_sums(partial).narrow(1, 0, terms).mul_(scale).to(grad.scalar_type()).contiguous();
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CPU, m) {
  m.impl("walk_features", walk_features_cpu);
  m.impl("walk_features_backward", walk_features_backward_cpu);
}

}  // namespace topomask::ops::walk_features
