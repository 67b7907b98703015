#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>

#include "core/ordered_sums.h"
#include "masks/power_series/hop_basis.h"

namespace topomask {
namespace {

constexpr int64_t kPowerGrain = 256;  // rows per task

struct CsrTensors {
  at::Tensor offsets, columns;
};

/// The rows of W^0, W^1, … over the pattern of their union, one row at a time: row i of W^k is row i of W^{k−1} times
/// W.
template <class T>
class PowerRows {
 public:
  /// What powers are limited to: where W^k overflows, α_k may be 0, and 0·∞ would be NaN.
  static constexpr T kLargest = std::numeric_limits<T>::max();

  PowerRows(const CsrTensors& edges, const CsrTensors& hops, const at::Tensor& weights, int64_t terms)
      : edge_offset_(edges.offsets.const_data_ptr<int64_t>()),
        edge_column_(edges.columns.const_data_ptr<int32_t>()),
        offset_(hops.offsets.const_data_ptr<int64_t>()),
        column_(hops.columns.const_data_ptr<int32_t>()),
        weight_(weights.const_data_ptr<T>()),
        entries_(hops.columns.size(0)),
        terms_(terms),
        slot_(hops.offsets.size(0) - 1) {}

  /// Row i of `powers` [terms, entries], which is zero there before.
  void powers(int64_t i, T* powers) {
    enter(i);
    powers += offset_[i];
    powers[slot_[i]] = T(1);
    for (int64_t k = 1; k < terms_; ++k) {
      const T* from = powers + (k - 1) * entries_;
      T* to = powers + k * entries_;
      for (int64_t c = 0; c < count_; ++c) {
        if (from[c] == T(0)) continue;
        for_edges(c, [&](int64_t e, int32_t v) { to[v] += from[c] * weight_[e]; });
      }
      for (int64_t c = 0; c < count_; ++c) to[c] = std::clamp(to[c], -kLargest, kLargest);
    }
  }

  /// Adds what row i contributes to ∂⟨grad, powers⟩/∂W. From the highest power down, ḡ_{k−1} = grad_{k−1} + ḡ_k Wᵀ and
  /// ∂W_uv += (W^{k−1})_iu ḡ_k[v].
  void add_gradient(int64_t i, const T* powers, const T* grad, double* gradient) {
    enter(i);
    find_levels(i);
    powers += offset_[i];
    grad += offset_[i];
    above_.assign(grad + (terms_ - 1) * entries_, grad + (terms_ - 1) * entries_ + count_);
    for (int64_t k = terms_ - 1; k > 0; --k) {
      const T* from = powers + (k - 1) * entries_;
      below_.assign(grad + (k - 1) * entries_, grad + (k - 1) * entries_ + count_);
      for (int64_t c = 0; c < count_; ++c) {
        // A zero power is no reason to skip a node: an edge of weight 0 that leads there has a gradient.
        if (level_[c] >= k) continue;
        for_edges(c, [&](int64_t e, int32_t v) {
          gradient[e] += static_cast<double>(from[c]) * above_[v];
          below_[c] += weight_[e] * above_[v];
        });
      }
      std::swap(above_, below_);
    }
  }

 private:
  void enter(int64_t i) {
    columns_ = column_ + offset_[i];
    count_ = offset_[i + 1] - offset_[i];
    for (int64_t c = 0; c < count_; ++c) slot_[columns_[c]] = static_cast<int32_t>(c);
  }

  /// f(entry of W, place of its column in the row) for the edges of the node in place c, which are all in the row
  /// where c is less than terms−1 hops away.
  template <class F>
  void for_edges(int64_t c, const F& f) const {
    const int32_t u = columns_[c];
    for (int64_t e = edge_offset_[u]; e < edge_offset_[u + 1]; ++e) f(e, slot_[edge_column_[e]]);
  }

  /// How many hops each place of row i is away from i.
  void find_levels(int64_t i) {
    level_.assign(count_, terms_);
    frontier_.assign(1, slot_[i]);
    level_[slot_[i]] = 0;
    for (size_t head = 0; head < frontier_.size(); ++head) {
      const int32_t c = frontier_[head];
      if (level_[c] + 1 >= terms_) break;
      for_edges(c, [&](int64_t, int32_t v) {
        if (level_[v] < terms_) return;
        level_[v] = level_[c] + 1;
        frontier_.push_back(v);
      });
    }
  }

  const int64_t* edge_offset_;
  const int32_t* edge_column_;
  const int64_t* offset_;
  const int32_t* column_;
  const T* weight_;
  int64_t entries_, terms_;
  std::vector<int32_t> slot_;  // the place of a node in the row
  const int32_t* columns_ = nullptr;
  int64_t count_ = 0;
  std::vector<int64_t> level_;
  std::vector<int32_t> frontier_;
  std::vector<T> above_, below_;
};

/// Whether matrix products of the whole W give the powers sooner than its entries one by one: the union is full, and W
/// itself not far from it.
bool better_dense(const CsrTensors& edges, const CsrTensors& hops) {
  constexpr double kGain = 16;  // multiply-adds of a matrix product in the time of one that is scattered
  const auto nodes = static_cast<double>(hops.offsets.size(0) - 1);
  return static_cast<double>(hops.columns.size(0)) == nodes * nodes &&
         kGain * static_cast<double>(edges.columns.size(0)) >= nodes * nodes;
}

/// W^0 … W^(terms−1), [terms, N·N].
at::Tensor dense_powers(const CsrTensors& edges, const at::Tensor& weights, int64_t terms) {
  const int64_t nodes = edges.offsets.size(0) - 1;
  const at::Tensor place = at::repeat_interleave(edges.offsets.diff()) * nodes + edges.columns;
  const auto options = weights.options().requires_grad(false);
  const at::Tensor w = at::zeros({nodes * nodes}, options).index_copy_(0, place, weights.detach()).view({nodes, nodes});
  at::Tensor powers = at::empty({terms, nodes, nodes}, options);
  powers[0].copy_(at::eye(nodes, options));
  AT_DISPATCH_FLOATING_TYPES(weights.scalar_type(), "dense_powers", [&] {
    constexpr scalar_t kLargest = PowerRows<scalar_t>::kLargest;
    for (int64_t k = 1; k < terms; ++k) powers[k].copy_(ordered_matmul(powers[k - 1], w)).clamp_(-kLargest, kLargest);
  });
  return powers.view({terms, nodes * nodes});
}

at::Tensor powers_of(const CsrTensors& edges, const CsrTensors& hops, const at::Tensor& weights, int64_t terms) {
  const int64_t rows = terms > 0 ? hops.offsets.size(0) - 1 : 0;
  if (rows > 0 && better_dense(edges, hops)) return dense_powers(edges, weights, terms);
  const at::Tensor powers = at::zeros({terms, hops.columns.size(0)}, weights.options().requires_grad(false));
  AT_DISPATCH_FLOATING_TYPES(weights.scalar_type(), "hop_powers", [&] {
    scalar_t* power = powers.mutable_data_ptr<scalar_t>();
    at::parallel_for(0, rows, kPowerGrain, [&](int64_t begin, int64_t end) {
      PowerRows<scalar_t> row(edges, hops, weights, terms);
      for (int64_t i = begin; i < end; ++i) row.powers(i, power);
    });
  });
  return powers;
}

/// Rows meet in the edges of W. They are summed in parts, each over its rows in order: as many parts as their sums take
/// no more memory than the powers, whatever the number of threads.
at::Tensor gradient_of(const CsrTensors& edges, const CsrTensors& hops, const at::Tensor& weights,
                       const at::Tensor& powers, const at::Tensor& grad) {
  constexpr int64_t kMostParts = 16;
  const int64_t terms = powers.size(0), rows = terms > 0 ? hops.offsets.size(0) - 1 : 0, count = weights.size(0);
  const int64_t parts = std::clamp<int64_t>(powers.numel() / std::max<int64_t>(1, count), 1, kMostParts);
  const at::Tensor sums = at::zeros({parts, count}, at::kDouble);
  const at::Tensor kept = grad.contiguous();
  AT_DISPATCH_FLOATING_TYPES(weights.scalar_type(), "hop_powers_backward", [&] {
    const scalar_t *power = powers.const_data_ptr<scalar_t>(), *cotangent = kept.const_data_ptr<scalar_t>();
    double* sum = sums.mutable_data_ptr<double>();
    at::parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
      PowerRows<scalar_t> row(edges, hops, weights, terms);
      for (int64_t part = begin; part < end; ++part) {
        for (int64_t i = part * rows / parts; i < (part + 1) * rows / parts; ++i) {
          row.add_gradient(i, power, cotangent, sum + part * count);
        }
      }
    });
  });
  at::Tensor total = sums[0];
  for (int64_t part = 1; part < parts; ++part) total += sums[part];
  return total.to(weights.scalar_type());
}

struct HopPowers : torch::autograd::Function<HopPowers> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& weights, const CsrTensors& edges,
                            const CsrTensors& hops, int64_t terms) {
    const at::Tensor powers = powers_of(edges, hops, weights, terms);
    ctx->save_for_backward({weights, powers, edges.offsets, edges.columns, hops.offsets, hops.columns});
    return powers;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 const torch::autograd::variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    return {gradient_of({saved[2], saved[3]}, {saved[4], saved[5]}, saved[0], saved[1], grads[0]), {}, {}, {}};
  }
};

}  // namespace

at::Tensor hop_powers(const SparsePattern& edges, const SparsePattern& hops, const at::Tensor& weights, int64_t terms) {
  return HopPowers::apply(weights.contiguous(), CsrTensors{edges.offsets(), edges.columns()},
                          CsrTensors{hops.offsets(), hops.columns()}, terms);
}

}  // namespace topomask
