#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "core/checks.h"
#include "core/ordered_sums.h"
#include "core/recycled.h"
#include "walks/features_kernel.h"
#include "walks/triple_tensors.h"

namespace topomask {
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

Tensor walk_features_meta(const Tensor& f, const Tensor&, const Tensor&, const Tensor& feature_offsets, double) {
  return at::empty_symint({f.sym_size(0), feature_offsets.sym_size(0) - 1}, f.options());
}

Tensor walk_features_backward_meta(const Tensor& grad, const Tensor&, const Tensor&, const Tensor&, c10::SymInt terms,
                                   double) {
  return at::empty_symint({grad.sym_size(0), std::move(terms)}, grad.options());
}

using ForwardSignature = Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&, double);
using BackwardSignature = Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&, c10::SymInt, double);

Tensor call_forward(const Tensor& f, const Tensor& hops, const Tensor& loads, const Tensor& offsets, double scale) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("topomask::walk_features", "").typed<ForwardSignature>();
  return op.call(f, hops, loads, offsets, scale);
}

Tensor call_backward(const Tensor& grad, const Tensor& hops, const Tensor& loads, const Tensor& offsets,
                     c10::SymInt terms, double scale) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("topomask::walk_features_backward", "").typed<BackwardSignature>();
  return op.call(grad, hops, loads, offsets, std::move(terms), scale);
}

/// ∂⟨grad, features⟩/∂loads: f_hop times the gradient of its entry, for each triple, summed over the heads in order.
Tensor load_gradients(const Tensor& grad, const Tensor& f, const Tensor& hops, const Tensor& offsets, double scale) {
  const Tensor counts = offsets.diff(), entry = at::repeat_interleave(counts);
  const Tensor padded = at::constant_pad_nd(f, {0, 1}), term = hops.to(at::kLong).clamp_max_(f.size(1));
  Tensor total = at::zeros(hops.sizes(), grad.options());
  for (int64_t h = 0; h < f.size(0); ++h) {
    total.addcmul_(grad[h].index_select(0, entry), padded[h].index_select(0, term), scale);
  }
  return total;
}

/// The features are linear in f, so each of the two is the other's gradient.
class WalkFeatures : public torch::autograd::Function<WalkFeatures> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& f, const Tensor& hops, const Tensor& loads,
                        const Tensor& offsets, double scale) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({hops, loads, offsets, loads.requires_grad() ? f : Tensor()});
    ctx->saved_data["terms"] = f.sym_size(1);
    ctx->saved_data["scale"] = scale;
    return call_forward(f, hops, loads, offsets, scale);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 const torch::autograd::variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const double scale = ctx->saved_data["scale"].toDouble();
    Tensor of_function, of_loads;
    if (ctx->needs_input_grad(0)) {
      of_function = call_backward(grads[0], saved[0], saved[1], saved[2], ctx->saved_data["terms"].toSymInt(), scale);
    }
    if (ctx->needs_input_grad(2)) of_loads = load_gradients(grads[0], saved[3], saved[0], saved[2], scale);
    return {of_function, {}, of_loads, {}, {}};
  }
};

class WalkFeaturesBackward : public torch::autograd::Function<WalkFeaturesBackward> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& grad, const Tensor& hops,
                        const Tensor& loads, const Tensor& offsets, const c10::SymInt& terms, double scale) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({hops, loads, offsets});
    ctx->saved_data["scale"] = scale;
    return call_backward(grad, hops, loads, offsets, terms, scale);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 const torch::autograd::variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    return {
        call_forward(grads[0], saved[0], saved[1], saved[2], ctx->saved_data["scale"].toDouble()), {}, {}, {}, {}, {}};
  }
};

Tensor walk_features_autograd(const Tensor& f, const Tensor& hops, const Tensor& loads, const Tensor& feature_offsets,
                              double scale) {
  return WalkFeatures::apply(f, hops, loads, feature_offsets, scale);
}

Tensor walk_features_backward_autograd(const Tensor& grad, const Tensor& hops, const Tensor& loads,
                                       const Tensor& feature_offsets, c10::SymInt terms, double scale) {
  return WalkFeaturesBackward::apply(grad, hops, loads, feature_offsets, terms, scale);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.def("walk_features(Tensor f, Tensor hops, Tensor loads, Tensor feature_offsets, float scale) -> Tensor");
  m.def(
      "walk_features_backward(Tensor grad, Tensor hops, Tensor loads, Tensor feature_offsets, SymInt terms, "
      "float scale) -> Tensor");
}

TORCH_LIBRARY_IMPL(topomask, CPU, m) {
  m.impl("walk_features", walk_features_cpu);
  m.impl("walk_features_backward", walk_features_backward_cpu);
}

TORCH_LIBRARY_IMPL(topomask, Meta, m) {
  m.impl("walk_features", walk_features_meta);
  m.impl("walk_features_backward", walk_features_backward_meta);
}

TORCH_LIBRARY_IMPL(topomask, Autograd, m) {
  m.impl("walk_features", walk_features_autograd);
  m.impl("walk_features_backward", walk_features_backward_autograd);
}

}  // namespace topomask
