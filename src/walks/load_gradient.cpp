#include "walks/load_gradient.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "walks/batch.h"

namespace topomask {
namespace {

/// What it takes to walk again.
struct WalkRecord : torch::CustomClassHolder {
  WalkRecord(WalkPlan p, WalkSteps s, WalkOptions o) : plan(std::move(p)), steps(std::move(s)), options(std::move(o)) {}
  WalkPlan plan;
  WalkSteps steps;
  WalkOptions options;
};

/// A table's triples, to look them up by row, column and hop.
template <class T>
struct TripleGradients {
  const int64_t* offset;
  const int32_t* column;
  const int16_t* hop;
  const T* grad;

  T operator()(uint32_t row, uint32_t node, int64_t hops) const {
    int64_t low = offset[row], high = offset[row + 1];
    const auto target = std::pair(static_cast<int64_t>(node), hops);
    while (low < high) {
      const int64_t middle = std::midpoint(low, high);
      if (std::pair<int64_t, int64_t>(column[middle], hop[middle]) < target) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return grad[low];
  }
};

/// Adds ∂⟨grad, loads⟩/∂W for the walks of some start nodes. From the last hop back, the cotangent of a walker's load
/// is the gradient where it stands, and what its next load, load·W_e·c, hands back.
template <class T>
class LoadGradient {
 public:
  LoadGradient(const WalkRecord& record, const TripleGradients<T>& grads)
      : record_(record), grads_(grads), sampler_(record.plan, record.steps) {}

  void add(int64_t begin, int64_t end, double* gradient) {
    constexpr int64_t kBatchOfWalkers = 512;
    const WalkOptions& options = record_.options;
    const int64_t rows = std::max<int64_t>(1, kBatchOfWalkers / options.walkers);
    starts_.resize(static_cast<size_t>(rows));
    for (int64_t first = begin; first < end; first += rows) {
      const int64_t count = std::min(rows, end - first);
      std::iota(starts_.begin(), starts_.begin() + count, static_cast<uint32_t>(first));
      sampler_.sample(starts_.data(), count, options.first_walker, options.first_walker + options.walkers, batch_);
      add_batch(gradient);
    }
  }

 private:
  void add_batch(double* gradient) {
    after_.clear();
    for (int64_t hop = batch_.hops() - 1; hop >= 0; --hop) {
      const Walkers<T> here = batch_.at(hop);
      now_.resize(static_cast<size_t>(batch_.count(hop)));
      for (int64_t j = 0; j < batch_.count(hop); ++j) now_[j] = grads_(here.start[j], here.position[j], hop);
      if (hop + 1 < batch_.hops()) hand_back(hop, gradient);
      std::swap(now_, after_);
    }
  }

  /// Walkers keep their order from hop to hop, so that those of the next one are met in passing.
  void hand_back(int64_t hop, double* gradient) {
    const int64_t* offset = record_.steps.offsets.const_data_ptr<int64_t>();
    const int32_t* column = record_.steps.columns.const_data_ptr<int32_t>();
    const T* weight = record_.steps.factors.const_data_ptr<T>();
    const Walkers<T> here = batch_.at(hop), next = batch_.at(hop + 1);
    int64_t j = 0;
    for (int64_t k = 0; k < batch_.count(hop + 1); ++k) {
      while (here.start[j] != next.start[k] || here.number[j] != next.number[k]) ++j;
      const int32_t *row = column + offset[here.position[j]], *row_end = column + offset[here.position[j] + 1];
      const int64_t entry = std::lower_bound(row, row_end, static_cast<int32_t>(next.position[k])) - column;
      const double scale = static_cast<double>(row_end - row) / record_.plan.survival[hop] * after_[k];
      gradient[entry] += here.load[j] * scale;
      now_[j] += weight[entry] * scale;
    }
  }

  const WalkRecord& record_;
  const TripleGradients<T>& grads_;
  WalkSampler<T> sampler_;
  WalkBatch<T> batch_;
  std::vector<uint32_t> starts_;
  std::vector<double> now_, after_;  // cotangents of the loads at a hop and at the next
};

/// In parts, each over its start nodes in order, and as many as their sums take no more memory than the table: the
/// same for any number of threads.
at::Tensor weight_gradient(const WalkRecord& record, const at::Tensor& offsets, const at::Tensor& columns,
                           const at::Tensor& hops, const at::Tensor& grad) {
  constexpr int64_t kMostParts = 16;
  const int64_t nodes = offsets.size(0) - 1, entries = record.steps.columns.size(0);
  const int64_t parts = std::clamp<int64_t>(hops.size(0) / std::max<int64_t>(1, entries), 1, kMostParts);
  const at::Tensor sums = at::zeros({parts, entries}, at::kDouble), kept = grad.contiguous();
  AT_DISPATCH_FLOATING_TYPES(grad.scalar_type(), "walk_loads_backward", [&] {
    const TripleGradients<scalar_t> grads{offsets.const_data_ptr<int64_t>(), columns.const_data_ptr<int32_t>(),
                                          hops.const_data_ptr<int16_t>(), kept.const_data_ptr<scalar_t>()};
    double* sum = sums.mutable_data_ptr<double>();
    at::parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
      LoadGradient<scalar_t> walks(record, grads);
      for (int64_t part = begin; part < end; ++part) {
        walks.add(part * nodes / parts, (part + 1) * nodes / parts, sum + part * entries);
      }
    });
  });
  at::Tensor total = sums[0];
  for (int64_t part = 1; part < parts; ++part) total += sums[part];
  return total.to(grad.scalar_type());
}

/// The loads as they were made: what the function returns, not one of its inputs.
struct MadeLoads {
  at::Tensor tensor;
};

struct WalkLoads : torch::autograd::Function<WalkLoads> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& weights, const MadeLoads& loads,
                            const c10::intrusive_ptr<WalkRecord>& record, const WalkTable::Arrays& arrays) {
    // The weights are saved so that an in-place change before the backward pass is noticed.
    ctx->save_for_backward({weights, arrays.offsets, arrays.columns, arrays.hops});
    ctx->saved_data["record"] = c10::IValue::make_capsule(record);
    return loads.tensor;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 const torch::autograd::variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const auto holder = ctx->saved_data["record"].toCapsule();
    const auto& record = static_cast<const WalkRecord&>(*holder);
    return {weight_gradient(record, saved[1], saved[2], saved[3], grads[0]), {}, {}, {}};
  }
};

}  // namespace

at::Tensor loads_of_weights(const at::Tensor& weights, const WalkPlan& plan, const WalkSteps& steps,
                            const WalkOptions& options, const WalkTable::Arrays& arrays) {
  return WalkLoads::apply(weights, MadeLoads{arrays.loads}, c10::make_intrusive<WalkRecord>(plan, steps, options),
                          arrays);
}

}  // namespace topomask
