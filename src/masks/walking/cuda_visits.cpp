#include "masks/walking/cuda_visits.h"

#include <ATen/ATen.h>

#include "sparse/sddmm.h"

namespace topomask {

using at::Tensor;

/// Some rows of M: the visits of their walks.
struct CudaVisits::Rows {
  int64_t first, count;
  PatternPtr pattern;  // a node that is visited twice is two entries
  Tensor hops, loads;

  Tensor of(const Tensor& x) const { return x.narrow(-2, first, count); }

  /// f_hop·load, [H, V].
  Tensor weights(const Tensor& f) const {
    return at::constant_pad_nd(f, {0, 1}).index_select(1, hops.clamp_max(f.size(1))) * loads;
  }

  /// gradient[h, t] += Σ load·value over the visits of hop t; value [H, V].
  void add_to_function(const Tensor& values, Tensor& gradient) const {
    const Tensor sums = at::zeros({gradient.size(0), gradient.size(1) + 1}, gradient.options());
    gradient += sums.index_add(1, hops.clamp_max(gradient.size(1)), values * loads).narrow(1, 0, gradient.size(1));
  }
};

CudaVisits::CudaVisits(const Graph& graph, const WalkOptions& options)
    : walks_("walking_mask", graph, options), nodes_(graph.num_nodes()), walkers_(options.walkers) {
  constexpr double kVisitsAtOnce = 1 << 24;
  double per_walker = 1, alive = 1;
  for (const double survival : walks_.plan().survival) per_walker += alive *= survival;
  const int64_t together = walks_.plan().repelling ? walks_.plan().group : 1;
  const auto walkers = static_cast<int64_t>(kVisitsAtOnce / per_walker);
  walkers_at_once_ = std::min(walkers_, std::max<int64_t>(1, walkers / together) * together);
  rows_at_once_ = std::max<int64_t>(1, walkers / walkers_);
}

template <class F>
void CudaVisits::for_rows(const F& f) const {
  for (int64_t first = 0; first < nodes_; first += rows_at_once_) {
    const int64_t count = std::min(rows_at_once_, nodes_ - first);
    for (int64_t skipped = 0; skipped < walkers_; skipped += walkers_at_once_) {
      const int64_t walkers = std::min(walkers_at_once_, walkers_ - skipped);
      const CudaWalks::Visits visits = walks_.visits(first, count, skipped, walkers);
      f(Rows{first, count, std::make_shared<SparsePattern>(count, nodes_, visits.offsets, visits.columns), visits.hops,
             visits.loads});
    }
  }
}

Tensor CudaVisits::product(const Tensor& f, const Tensor& x, bool transposed) const {
  Tensor y = at::zeros_like(x);
  for_rows([&](const Rows& rows) {
    const SparseMatrix m{rows.pattern, rows.weights(f)};
    if (transposed) {
      y += topomask::matmul_transposed(m, rows.of(x));
    } else {
      rows.of(y).add_(topomask::matmul(m, x));
    }
  });
  return y;
}

Tensor CudaVisits::function_gradient(const Tensor& f, const Tensor& x, const Tensor& grad) const {
  Tensor gradient = at::zeros_like(f);
  for_rows(
      [&](const Rows& rows) { rows.add_to_function(sddmm(rows.of(grad), x, *rows.pattern, f.size(0)), gradient); });
  return gradient;
}

namespace {

/// [B, H, N, C] as [1, B·H, N, C]: what differs by batch counts as heads.
Tensor flat(const Tensor& x) {
  return x.reshape({1, x.size(0) * x.size(1), x.size(2), x.size(3)});
}

}  // namespace

Tensor CudaVisits::masked_product(const Tensor& f, const Tensor& a, const Tensor& b, const Tensor& c,
                                  bool transposed) const {
  const Tensor left = flat(transposed ? b : a), right = flat(transposed ? a : b), values = flat(c);
  Tensor out = at::zeros_like(values);
  for_rows([&](const Rows& rows) {
    const Tensor dots = sddmm(rows.of(left), right, *rows.pattern, left.size(1));
    const SparseMatrix m{rows.pattern, dots * rows.weights(f).repeat({a.size(0), 1})};
    if (transposed) {
      out += topomask::matmul_transposed(m, rows.of(values));
    } else {
      rows.of(out).add_(topomask::matmul(m, values));
    }
  });
  return out.view(c.sizes());
}

MaskedProductGradients CudaVisits::masked_product_backward(const Tensor& f, const Tensor& a, const Tensor& b,
                                                           const Tensor& c, const Tensor& grad) const {
  const Tensor fa = flat(a), fb = flat(b), fc = flat(c), fg = flat(grad);
  Tensor da = at::zeros_like(fa), db = at::zeros_like(fb), dc = at::zeros_like(fc), df = at::zeros_like(f);
  for_rows([&](const Rows& rows) {
    const Tensor s = sddmm(rows.of(fa), fb, *rows.pattern, fa.size(1));
    const Tensor p = sddmm(rows.of(fg), fc, *rows.pattern, fa.size(1));
    const Tensor w = rows.weights(f).repeat({a.size(0), 1});
    const SparseMatrix wp{rows.pattern, w * p}, ws{rows.pattern, w * s};
    rows.of(da).add_(topomask::matmul(wp, fb));
    db += topomask::matmul_transposed(wp, rows.of(fa));
    dc += topomask::matmul_transposed(ws, rows.of(fg));
    rows.add_to_function((s * p).view({a.size(0), f.size(0), -1}).sum(0), df);
  });
  return {da.view(a.sizes()), db.view(b.sizes()), dc.view(c.sizes()), {df}};
}

}  // namespace topomask
