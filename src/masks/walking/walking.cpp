#include <ATen/ATen.h>
#include <ATen/Dispatch.h>

#include "core/move.h"
#include "core/simd.h"
#include "masks/grf/walk_function.h"
#include "masks/walking/cuda_visits.h"
#include "masks/walking/visit_kernel.h"
#include "masks/walking/visits.h"
#include "ops/pattern.h"
#include "topomask/walking_mask.h"

namespace topomask {
namespace {

/// What masks of one graph and one set of options share.
struct Walking {
  Walking(const Graph& graph, const WalkOptions& options)
      : graph(graph), options(options), plan("walking_mask", options) {
    if (graph.device().is_cpu()) {
      steps.emplace("walking_mask", graph, options);
    } else {
      cuda.emplace(graph, options);
    }
  }

  Graph graph;
  WalkOptions options;
  WalkPlan plan;
  std::optional<WalkSteps> steps;  // on the CPU
  std::optional<CudaVisits> cuda;  // on a GPU
};

/// [B, H, N, C] zeros in the kernels' layout.
at::Tensor zeros_for(const at::Tensor& x, int64_t width) {
  return at::zeros({x.size(0), x.size(1), x.size(2), ops::padded_width(width)}, x.options());
}

/// One call's sums over visits for the slices of x [B, H, N, C], coefficients f [H, K]/n.
template <class T>
class VisitSums {
 public:
  VisitSums(const Walking& walking, const at::Tensor& f) : walking_(walking), f_(f.contiguous()) {}

  /// f(slice) inside each group of parts, for every slice.
  template <class F>
  void for_slices(int64_t slices, const F& f) {
    const int64_t first = walking_.options.first_walker;
    for_visits<T>(walking_.plan, *walking_.steps, first, first + walking_.options.walkers,
                  [&](std::vector<Visits<T>>& parts) {
                    parts_ = &parts;
                    for (int64_t slice = 0; slice < slices; ++slice) f(slice);
                  });
  }

  /// g(part) in parallel: a part owns its rows.
  template <class G>
  void in_parts(const G& g) {
    at::parallel_for(0, static_cast<int64_t>(parts_->size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) g((*parts_)[p]);
    });
  }

  /// f_hop·load/n of the slice's head.
  void coefficients(Visits<T>& part, int64_t slice, std::vector<T>& weight) const {
    const int64_t heads = f_.size(0), terms = f_.size(1);
    const T* f = f_.const_data_ptr<T>() + slice % heads * terms;
    for (int64_t e = 0; e < part.size(); ++e) weight[e] = part.hop[e] < terms ? f[part.hop[e]] * part.load[e] : T(0);
  }

  static void dots(Visits<T>& part, const at::Tensor& a, const at::Tensor& b, int64_t slice, std::vector<T>& dots) {
    visit_dots({part.start.data(), part.node.data(), rows(a, slice), rows(b, slice), a.size(3), dots.data()}, 0,
               part.size());
  }

  /// y_i += Σ weight x_j over the visits of a part.
  static void gather(Visits<T>& part, const std::vector<T>& weight, const at::Tensor& x, const at::Tensor& y,
                     int64_t slice) {
    visit_add(
        {part.start.data(), part.node.data(), weight.data(), rows(x, slice), rows(y, slice), x.size(3), 0, x.size(3)},
        0, part.size());
  }

  /// y_j += Σ weight x_i over all parts: a task owns some columns, so nodes that many rows visit need no atomics.
  void scatter(int which, const at::Tensor& x, const at::Tensor& y, int64_t slice) {
    at::parallel_for(0, x.size(3) / kWidthUnit, 1, [&](int64_t begin, int64_t end) {
      for (Visits<T>& part : *parts_) {
        visit_add({part.node.data(), part.start.data(), part.weight[which].data(), rows(x, slice), rows(y, slice),
                   x.size(3), begin * kWidthUnit, end * kWidthUnit},
                  0, part.size());
      }
    });
  }

  /// gradient[head, hop] += Σ load/n·value over the visits; parts one after the other.
  void add_to_function(const at::Tensor& gradient, int64_t slice, int which) {
    const int64_t terms = f_.size(1);
    T* target = gradient.mutable_data_ptr<T>() + slice % f_.size(0) * terms;
    for (Visits<T>& part : *parts_) {
      for (int64_t e = 0; e < part.size(); ++e) {
        if (part.hop[e] < terms) target[part.hop[e]] += part.load[e] * part.dots[which][e];
      }
    }
  }

 private:
  static T* rows(const at::Tensor& x, int64_t slice) { return x.mutable_data_ptr<T>() + slice * x.size(2) * x.size(3); }

  const Walking& walking_;
  at::Tensor f_;
  std::vector<Visits<T>>* parts_ = nullptr;
};

class WalkingMask final : public Mask {
 public:
  WalkingMask(std::shared_ptr<const Walking> walking, at::Tensor f) : walking_(std::move(walking)), f_(std::move(f)) {}

  std::string name() const override { return "walking"; }
  int64_t size() const override { return walking_->graph.num_nodes(); }
  int64_t heads() const override { return function_heads(f_); }
  std::optional<at::ScalarType> dtype() const override { return f_.scalar_type(); }
  std::vector<at::Tensor> parameters() const override { return {f_}; }

  MaskCounts counts() const override {
    return {.operator_work = visits(), .dense_work = visits() * static_cast<double>(size())};
  }

  std::optional<double> masked_product_work(int64_t features, int64_t value_dim) const override {
    constexpr double kVisit = 200;  // a step of a walk, in multiply-adds
    return visits() * (static_cast<double>(features + value_dim) + kVisit);
  }

  MaskPtr rebuild(const std::vector<at::Tensor>& parameters) const override {
    return std::make_shared<WalkingMask>(walking_, parameters[0]);
  }
  MaskPtr to(const at::TensorOptions& target) const override {
    if (is_at(f_, target)) return shared_from_this();
    return walking_mask(walking_->graph.to(target), f_.to(target), walking_->options);
  }

  at::Tensor apply(const at::Tensor& x) const override { return product(x, false); }
  at::Tensor apply_transposed(const at::Tensor& x) const override { return product(x, true); }

  std::vector<at::Tensor> parameter_gradients(const at::Tensor& x, const at::Tensor& grad) const override {
    if (walking_->cuda) return {per_walker(walking_->cuda->function_gradient(coefficients(), x, grad))};
    const at::Tensor in = ops::to_kernel_layout(x), out = ops::to_kernel_layout(grad),
                     gradient = at::zeros_like(coefficients());
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "walking_mask", [&] {
      VisitSums<scalar_t> sums(*walking_, coefficients());
      sums.for_slices(x.size(0) * x.size(1), [&](int64_t slice) {
        sums.in_parts([&](Visits<scalar_t>& part) { sums.dots(part, out, in, slice, part.dots[0]); });
        sums.add_to_function(gradient, slice, 0);
      });
    });
    return {per_walker(gradient)};
  }

  at::Tensor masked_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c,
                            bool transposed) const override {
    if (walking_->cuda) return walking_->cuda->masked_product(coefficients(), a, b, c, transposed);
    const at::Tensor left = ops::to_kernel_layout(a), right = ops::to_kernel_layout(b),
                     values = ops::to_kernel_layout(c);
    const at::Tensor out = zeros_for(c, c.size(3));
    AT_DISPATCH_FLOATING_TYPES(a.scalar_type(), "walking_mask", [&] {
      VisitSums<scalar_t> sums(*walking_, coefficients());
      sums.for_slices(a.size(0) * a.size(1), [&](int64_t slice) {
        sums.in_parts([&](Visits<scalar_t>& part) {
          sums.dots(part, transposed ? right : left, transposed ? left : right, slice, part.dots[0]);
          sums.coefficients(part, slice, part.weight[0]);
          for (int64_t e = 0; e < part.size(); ++e) part.weight[0][e] *= part.dots[0][e];
          if (!transposed) sums.gather(part, part.weight[0], values, out, slice);
        });
        if (transposed) sums.scatter(0, values, out, slice);
      });
    });
    return ops::from_kernel_layout(out, c.size(3), c.scalar_type());
  }

  /// With s = a_i·b_j and p = g_i·c_j at a visit of coefficient w: ∂a_i = Σ w p b_j, ∂b_j = Σ w p a_i, ∂c_j = Σ w s g_i
  /// and ∂f_t = Σ load/n s p. The walks are sampled once for all four.
  MaskedProductGradients masked_product_backward(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c,
                                                 const at::Tensor& grad, bool want_parameters) const override {
    if (walking_->cuda) {
      auto made = walking_->cuda->masked_product_backward(coefficients(), a, b, c, grad);
      made.parameters = {per_walker(made.parameters[0])};
      return made;
    }
    const at::Tensor left = ops::to_kernel_layout(a), right = ops::to_kernel_layout(b),
                     values = ops::to_kernel_layout(c), out = ops::to_kernel_layout(grad);
    const at::Tensor grad_a = zeros_for(a, a.size(3)), grad_b = zeros_for(b, b.size(3)),
                     grad_c = zeros_for(c, c.size(3));
    const at::Tensor gradient = at::zeros_like(coefficients());
    AT_DISPATCH_FLOATING_TYPES(a.scalar_type(), "walking_mask", [&] {
      VisitSums<scalar_t> sums(*walking_, coefficients());
      sums.for_slices(a.size(0) * a.size(1), [&](int64_t slice) {
        sums.in_parts([&](Visits<scalar_t>& part) {
          sums.dots(part, left, right, slice, part.dots[0]);
          sums.dots(part, out, values, slice, part.dots[1]);
          sums.coefficients(part, slice, part.weight[0]);
          for (int64_t e = 0; e < part.size(); ++e) {
            const scalar_t w = part.weight[0][e], s = part.dots[0][e], p = part.dots[1][e];
            part.weight[0][e] = w * p;
            part.weight[1][e] = w * s;
            part.dots[0][e] = s * p;
          }
          sums.gather(part, part.weight[0], right, grad_a, slice);
        });
        sums.scatter(0, left, grad_b, slice);
        sums.scatter(1, out, grad_c, slice);
        if (want_parameters) sums.add_to_function(gradient, slice, 0);
      });
    });
    MaskedProductGradients result{ops::from_kernel_layout(grad_a, a.size(3), a.scalar_type()),
                                  ops::from_kernel_layout(grad_b, b.size(3), b.scalar_type()),
                                  ops::from_kernel_layout(grad_c, c.size(3), c.scalar_type())};
    if (want_parameters) result.parameters = {per_walker(gradient)};
    return result;
  }

 private:
  /// Expected visits, over all nodes.
  double visits() const {
    double per_walker = 0, alive = 1;
    for (const double survival : walking_->plan.survival) per_walker += alive *= survival;
    return static_cast<double>(size()) * (1 + static_cast<double>(walking_->options.walkers) * per_walker);
  }

  /// [H, K], divided by n.
  at::Tensor coefficients() const { return (f_.detach() / walking_->options.walkers).reshape({heads(), f_.size(-1)}); }
  at::Tensor per_walker(const at::Tensor& gradient) const {
    return (gradient / walking_->options.walkers).reshape(f_.sizes());
  }

  at::Tensor product(const at::Tensor& x, bool transposed) const {
    if (walking_->cuda) return walking_->cuda->product(coefficients(), x, transposed);
    const at::Tensor in = ops::to_kernel_layout(x), out = zeros_for(x, x.size(3));
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "walking_mask", [&] {
      VisitSums<scalar_t> sums(*walking_, coefficients());
      sums.for_slices(x.size(0) * x.size(1), [&](int64_t slice) {
        sums.in_parts([&](Visits<scalar_t>& part) {
          sums.coefficients(part, slice, part.weight[0]);
          if (!transposed) sums.gather(part, part.weight[0], in, out, slice);
        });
        if (transposed) sums.scatter(0, in, out, slice);
      });
    });
    return ops::from_kernel_layout(out, x.size(3), x.scalar_type());
  }

  std::shared_ptr<const Walking> walking_;
  at::Tensor f_;
};

}  // namespace

MaskPtr walking_mask(const Graph& graph, const at::Tensor& f, const WalkOptions& walks) {
  const auto walking = std::make_shared<Walking>(graph, walks);
  check_function("walking_mask", "f", f, graph.weights(), "the graph's weights", walking->plan.max_hops);
  TORCH_CHECK(!walks.group_products,
              "walking_mask: walks.group_products must be false: there is no table to keep them");
  return std::make_shared<WalkingMask>(walking, f);
}

}  // namespace topomask
