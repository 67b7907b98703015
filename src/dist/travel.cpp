#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/checks.h"
#include "topomask/dist.h"
#include "walks/repelling.h"
#include "walks/sample.h"
#include "walks/step_kernel.h"
#include "walks/table_builder.h"

namespace topomask {
namespace {

/// Walkers in the arrays that the samplers work on.
template <class T>
struct WalkerArrays {
  explicit WalkerArrays(size_t count) : start(count), number(count), position(count), load(count) {}

  std::vector<uint32_t> start, number, position;
  std::vector<T> load;

  Walkers<T> view() { return {start.data(), number.data(), position.data(), load.data()}; }
};

void check_travellers(const char* op, const Travellers& walkers, int64_t nodes, at::ScalarType dtype) {
  const int64_t count = walkers.starts.defined() ? walkers.starts.size(0) : 0;
  for (const at::Tensor* x : {&walkers.starts, &walkers.numbers, &walkers.positions}) {
    TORCH_CHECK(x->defined() && x->dim() == 1 && x->size(0) == count && x->scalar_type() == at::kLong && x->is_cpu(),
                op, ": starts, numbers and positions must be Long [", count, "] on cpu, got ", describe(*x));
  }
  TORCH_CHECK(walkers.loads.defined() && walkers.loads.dim() == 1 && walkers.loads.size(0) == count &&
                  walkers.loads.scalar_type() == dtype && walkers.loads.is_cpu(),
              op, ": loads must be ", dtype, " [", count, "] on cpu, got ", describe(walkers.loads));
  const at::Tensor positions = walkers.positions.contiguous();
  const int64_t* position = positions.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < count; ++i) {
    TORCH_CHECK(position[i] >= 0 && position[i] < nodes, op, ": positions must be in [0, ", nodes, "), got ",
                position[i]);
  }
}

template <class T>
WalkerArrays<T> arrays_of(const Travellers& walkers) {
  const auto count = static_cast<size_t>(walkers.starts.size(0));
  WalkerArrays<T> made(count);
  const auto take = [&](const at::Tensor& from, auto& to) {
    using To = typename std::decay_t<decltype(to)>::value_type;
    const at::Tensor plain = from.contiguous();
    if constexpr (std::is_floating_point_v<To>) {
      std::copy_n(plain.const_data_ptr<To>(), count, to.begin());
    } else {
      const int64_t* source = plain.const_data_ptr<int64_t>();
      std::transform(source, source + count, to.begin(), [](int64_t x) { return static_cast<To>(x); });
    }
  };
  take(walkers.starts, made.start);
  take(walkers.numbers, made.number);
  take(walkers.positions, made.position);
  take(walkers.loads, made.load);
  return made;
}

template <class T>
Travellers travellers_of(const WalkerArrays<T>& walkers, int64_t count, at::ScalarType dtype) {
  const auto give = [&](const auto& from, at::ScalarType type) {
    at::Tensor made = at::empty({count}, type);
    if (type == at::kLong) {
      std::copy_n(from.begin(), count, made.mutable_data_ptr<int64_t>());
    } else {
      std::copy_n(from.begin(), count, made.mutable_data_ptr<T>());
    }
    return made;
  };
  return {give(walkers.start, at::kLong), give(walkers.number, at::kLong), give(walkers.position, at::kLong),
          give(walkers.load, dtype)};
}

template <class T>
Travellers hop_of(const WalkPlan& plan, const WalkSteps& steps, int64_t first, int64_t hop, const Travellers& walkers,
                  at::ScalarType dtype) {
  WalkerArrays<T> from = arrays_of<T>(walkers);
  const size_t alive = from.start.size();
  WalkerArrays<T> to(alive);
  std::vector<uint32_t> words[4], origin(alive), to_origin(alive), survivor(alive);
  for (auto& each : words) each.resize(alive);
  std::iota(origin.begin(), origin.end(), 0u);
  walk_words({from.start.data(),
              from.number.data(),
              static_cast<uint32_t>(hop / 2),
              plan.key,
              plan.antithetic,
              {{words[0].data(), words[2].data()}, {words[1].data(), words[3].data()}}},
             0, static_cast<int64_t>(alive));
  const size_t odd = static_cast<size_t>(hop % 2);
  const bool uniform = !steps.threshold.defined();
  WalkHopArgs<T> args{
      .from = from.view(),
      .to = to.view(),
      .survivor = survivor.data(),
      .origin = origin.data(),
      .to_origin = to_origin.data(),
      .direction = words[2 * odd + 1].data(),
      .offsets = steps.offsets.const_data_ptr<int64_t>(),
      .columns = steps.columns.const_data_ptr<int32_t>(),
      .factors = steps.factors.template const_data_ptr<T>(),
      .threshold =
          uniform ? nullptr : reinterpret_cast<const uint32_t*>(steps.threshold.template const_data_ptr<int32_t>()),
      .alias = uniform ? nullptr : steps.alias.template const_data_ptr<int32_t>(),
      .scale = static_cast<T>(1 / plan.survival[static_cast<size_t>(hop)])};
  args.count = walk_survivors(words[2 * odd].data(), origin.data(), static_cast<int64_t>(alive),
                              plan.halt_below[static_cast<size_t>(hop)], survivor.data());
  const int64_t arrived = plan.repelling ? RepellingHop(plan, steps)(args, hop, first) : walk_hop(args);
  return travellers_of(to, arrived, dtype);
}

/// Visits in the order of a batch: by start, hop and walker; [row_first[r], row_first[r + 1]) are those of row r.
template <class T>
class SortedVisits {
 public:
  SortedVisits(const at::Tensor& rows, const Travellers& visits, const at::Tensor& hops, int64_t first_walker)
      : walkers_(arrays_of<T>(visits)), order_(walkers_.start.size()), first_walker_(first_walker) {
    const at::Tensor plain = hops.contiguous();
    const int64_t* hop = plain.const_data_ptr<int64_t>();
    hop_.assign(hop, hop + plain.size(0));
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::sort(order_.begin(), order_.end(), [&](size_t a, size_t b) {
      return std::tuple(walkers_.start[a], hop_[a], walkers_.number[a]) <
             std::tuple(walkers_.start[b], hop_[b], walkers_.number[b]);
    });
    const int64_t* row = rows.const_data_ptr<int64_t>();
    size_t at = 0;
    for (int64_t r = 0; r < rows.size(0); ++r) {
      row_first_.push_back(at);
      starts_.push_back(static_cast<uint32_t>(row[r]));
      while (at < order_.size() && walkers_.start[order_[at]] == starts_.back()) ++at;
    }
    row_first_.push_back(at);
    TORCH_CHECK(at == order_.size(), "table_of_visits: starts must be among the rows, got ",
                walkers_.start[order_[std::min(at, order_.size() - 1)]]);
  }

  const std::vector<uint32_t>& starts() const { return starts_; }

  void fill(const uint32_t* starts, int64_t rows, WalkerRange range, WalkBatch<T>& batch) const {
    batch.clear();
    const int64_t low = first_walker_ + range.first, high = first_walker_ + range.last;
    std::vector<size_t> next, end;  // of each row: its visits from here on
    size_t left = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const auto row =
          static_cast<size_t>(std::lower_bound(starts_.begin(), starts_.end(), starts[r]) - starts_.begin());
      next.push_back(row_first_[row]);
      end.push_back(row_first_[row + 1]);
      left += end.back() - next.back();
    }
    for (int64_t hop = 0; left > 0; ++hop) {
      const Walkers<T> to = batch.next_hop(static_cast<int64_t>(left));
      int64_t count = 0;
      for (size_t r = 0; r < next.size(); ++r) {
        for (; next[r] < end[r] && hop_[order_[next[r]]] == hop; ++next[r], --left) {
          const size_t v = order_[next[r]];
          if (walkers_.number[v] < low || walkers_.number[v] >= high) continue;
          to.start[count] = walkers_.start[v];
          to.number[count] = walkers_.number[v];
          to.position[count] = walkers_.position[v];
          to.load[count++] = walkers_.load[v];
        }
      }
      batch.commit(count);
    }
  }

 private:
  WalkerArrays<T> walkers_;
  std::vector<int64_t> hop_;
  std::vector<size_t> order_, row_first_;
  std::vector<uint32_t> starts_;
  int64_t first_walker_;
};

}  // namespace

struct TravelGround::Prepared {
  Prepared(const Graph& rows, const WalkOptions& options)
      : nodes(rows.num_nodes()),
        dtype(rows.weights().scalar_type()),
        first_walker(options.first_walker),
        plan(kOp, options),
        steps(kOp, rows, options) {}

  static constexpr const char* kOp = "travel";
  int64_t nodes;
  at::ScalarType dtype;
  int64_t first_walker;
  WalkPlan plan;
  WalkSteps steps;
};

TravelGround::TravelGround(const Graph& rows, const WalkOptions& options) {
  TORCH_CHECK(rows.device().is_cpu(), Prepared::kOp, ": rows must be on cpu, got ", rows.device());
  prepared_ = std::make_shared<const Prepared>(rows, options);
}

Travellers TravelGround::travel(int64_t hop, const Travellers& walkers) const {
  const Prepared& p = *prepared_;
  check_travellers(Prepared::kOp, walkers, p.nodes, p.dtype);
  TORCH_CHECK(hop >= 0 && hop < p.plan.max_hops, Prepared::kOp, ": hop must be in [0, ", p.plan.max_hops, "), got ",
              hop);
  Travellers moved;
  AT_DISPATCH_FLOATING_TYPES(p.dtype, Prepared::kOp,
                             [&] { moved = hop_of<scalar_t>(p.plan, p.steps, p.first_walker, hop, walkers, p.dtype); });
  return moved;
}

Travellers travel(const Graph& rows, const WalkOptions& options, int64_t hop, const Travellers& walkers) {
  return TravelGround(rows, options).travel(hop, walkers);
}

WalkTable::Arrays table_of_visits(const at::Tensor& rows, int64_t nodes, const WalkOptions& options,
                                  const Travellers& visits, const at::Tensor& hops) {
  constexpr const char* kOp = "table_of_visits";
  const at::ScalarType dtype = visits.loads.scalar_type();
  check_travellers(kOp, visits, nodes, dtype);
  TORCH_CHECK(hops.defined() && hops.sizes() == visits.starts.sizes() && hops.scalar_type() == at::kLong, kOp,
              ": hops must be Long [", visits.starts.size(0), "], got ", describe(hops));
  const WalkPlan plan(kOp, options);
  WalkTable::Arrays arrays;
  AT_DISPATCH_FLOATING_TYPES(dtype, kOp, [&] {
    const SortedVisits<scalar_t> sorted(rows.contiguous(), visits, hops, options.first_walker);
    const TableSource source{.rows = rows.size(0),
                             .nodes = nodes,
                             .walkers = options.walkers,
                             .visits_per_row = static_cast<double>(visits.starts.size(0)) /
                                               static_cast<double>(std::max<int64_t>(rows.size(0), 1)),
                             .indivisible = plan.group,
                             .starts = sorted.starts().data()};
    arrays = build_table<scalar_t>(source, [&]() -> BatchFiller<scalar_t> {
      return [&sorted](const uint32_t* starts, int64_t count, WalkerRange range, WalkBatch<scalar_t>& batch) {
        sorted.fill(starts, count, range, batch);
      };
    });
  });
  return arrays;
}

}  // namespace topomask
