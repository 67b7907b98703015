#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>

#include "core/checks.h"
#include "core/move.h"
#include "core/recycled.h"
#include "walks/sample.h"

namespace topomask {
namespace {

constexpr int64_t kResampledRows = 4096;

/// Which rows of two graphs differ: columns, or the weights or proposals of these.
std::vector<uint8_t> changed_rows(const Graph& before, const Graph& after, const std::vector<at::Tensor>& values_before,
                                  const std::vector<at::Tensor>& values_after) {
  const int64_t* from = before.offsets().const_data_ptr<int64_t>();
  const int64_t* to = after.offsets().const_data_ptr<int64_t>();
  std::vector<uint8_t> changed(static_cast<size_t>(before.num_nodes()));
  at::parallel_for(0, before.num_nodes(), kResampledRows, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t degree = from[i + 1] - from[i];
      bool differs = to[i + 1] - to[i] != degree;
      for (size_t k = 0; k < values_before.size() && !differs; ++k) {
        const auto size = static_cast<int64_t>(values_before[k].element_size());
        const auto* a = static_cast<const char*>(values_before[k].const_data_ptr()) + from[i] * size;
        const auto* b = static_cast<const char*>(values_after[k].const_data_ptr()) + to[i] * size;
        differs = std::memcmp(a, b, static_cast<size_t>(degree * size)) != 0;
      }
      changed[i] = differs;
    }
  });
  return changed;
}

std::vector<uint32_t> rows_that_visit(const WalkTable& table, const std::vector<uint8_t>& marked) {
  const int64_t* offsets = table.pattern()->offsets().const_data_ptr<int64_t>();
  const int32_t* columns = table.pattern()->columns().const_data_ptr<int32_t>();
  std::vector<uint8_t> visits(static_cast<size_t>(table.num_nodes()));
  at::parallel_for(0, table.num_nodes(), kResampledRows, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      visits[i] = std::any_of(columns + offsets[i], columns + offsets[i + 1], [&](int32_t j) { return marked[j]; });
    }
  });
  std::vector<uint32_t> rows;
  for (int64_t i = 0; i < table.num_nodes(); ++i) {
    if (visits[i]) rows.push_back(static_cast<uint32_t>(i));
  }
  return rows;
}

/// Puts fresh rows in the place of kept ones, array by array.
class RowSplice {
 public:
  RowSplice(const std::vector<uint32_t>& rows, const at::Tensor& kept_offsets, const at::Tensor& fresh_offsets)
      : kept_(kept_offsets), fresh_(fresh_offsets), source_(static_cast<size_t>(kept_offsets.size(0) - 1), -1) {
    for (size_t r = 0; r < rows.size(); ++r) source_[rows[r]] = static_cast<int64_t>(r);
    offsets = recycled_empty({kept_.size(0)}, at::kLong);
    int64_t* offset = offsets.mutable_data_ptr<int64_t>();
    offset[0] = 0;
    for (size_t i = 0; i < source_.size(); ++i) offset[i + 1] = offset[i] + length(static_cast<int64_t>(i));
  }

  /// kept and fresh: [entries] or [entries, …].
  at::Tensor values(const at::Tensor& kept, const at::Tensor& fresh) const {
    const int64_t* offset = offsets.const_data_ptr<int64_t>();
    std::vector<int64_t> shape = kept.sizes().vec();
    const auto size =
        static_cast<int64_t>(kept.element_size()) * c10::multiply_integers(shape.begin() + 1, shape.end());
    shape[0] = offset[source_.size()];
    at::Tensor result = recycled_empty(shape, kept.options());
    const auto* old_data = static_cast<const char*>(kept.const_data_ptr());
    const auto* new_data = static_cast<const char*>(fresh.const_data_ptr());
    auto* out = static_cast<char*>(result.mutable_data_ptr());
    at::parallel_for(0, static_cast<int64_t>(source_.size()), kResampledRows, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (length(i) == 0) continue;
        const char* from = source_[i] < 0 ? old_data + at(kept_, i) * size : new_data + at(fresh_, source_[i]) * size;
        std::memcpy(out + offset[i] * size, from, static_cast<size_t>(length(i) * size));
      }
    });
    return result;
  }

  at::Tensor offsets;

 private:
  static int64_t at(const at::Tensor& offsets, int64_t i) { return offsets.const_data_ptr<int64_t>()[i]; }
  int64_t length(int64_t i) const {
    return source_[i] < 0 ? at(kept_, i + 1) - at(kept_, i) : at(fresh_, source_[i] + 1) - at(fresh_, source_[i]);
  }

  at::Tensor kept_, fresh_;
  std::vector<int64_t> source_;  ///< per row: its place among the fresh ones, or −1
};

WalkTable::Arrays replaced(const WalkTable& table, const std::vector<uint32_t>& rows, const WalkTable::Arrays& fresh) {
  const RowSplice triples(rows, table.offsets(), fresh.offsets);
  WalkTable::Arrays arrays{triples.offsets, triples.values(table.columns(), fresh.columns),
                           triples.values(table.hops(), fresh.hops), triples.values(table.loads(), fresh.loads),
                           triples.values(table.counts(), fresh.counts)};
  if (table.has_group_products()) {
    const RowSplice products(rows, table.product_offsets(), fresh.product_offsets);
    arrays.product_offsets = products.offsets;
    arrays.product_hops = products.values(table.product_hops(), fresh.product_hops);
    arrays.product_values = products.values(table.product_values(), fresh.product_values);
  }
  return arrays;
}

}  // namespace

void check_sampled_on(const char* op, const char* argument, const WalkTable& table, const Graph& graph) {
  TORCH_CHECK(!table.loads().requires_grad(), op,
              ": table must have loads that do not require grad, got loads that do: what is made of them here has no "
              "gradient; sample on a graph whose weights are detached");
  TORCH_CHECK(table.sampled(), op, ": table must come from sample_walks, not from given walks");
  TORCH_CHECK(graph.num_nodes() == table.num_nodes() && graph.weights().scalar_type() == table.dtype(), op, ": ",
              argument, " must have ", table.num_nodes(), " nodes and ", table.dtype(),
              " weights as the table has, got ", graph.num_nodes(), " and ", graph.weights().scalar_type());
}

ResampledWalks resample_walks(const WalkTable& table, const Graph& before, const Graph& after,
                              const at::Tensor& proposal_weights) {
  check_on_cpu("resample_walks", "table", table.device());
  check_on_cpu("resample_walks", "before", before.device());
  check_on_cpu("resample_walks", "after", after.device());
  const char* op = "resample_walks";
  check_sampled_on(op, "before", table, before);
  check_sampled_on(op, "after", table, after);
  WalkOptions options = table.options();
  options.proposal_weights = proposal_weights;
  const WalkPlan plan(op, options);
  const WalkSteps steps(op, after, options);
  std::vector<at::Tensor> old_values = {before.columns(), before.weights().detach().contiguous()};
  std::vector<at::Tensor> new_values = {after.columns(), after.weights().detach().contiguous()};
  if (options.proposal == Proposal::given) {
    const at::Tensor& old_proposal = table.options().proposal_weights;
    TORCH_CHECK(old_proposal.size(0) == before.num_entries(), op, ": before must have ", old_proposal.size(0),
                " entries, as many as the table's proposal_weights, got ", before.num_entries());
    old_values.push_back(old_proposal.detach().to(at::kDouble).contiguous());
    new_values.push_back(proposal_weights.detach().to(at::kDouble).contiguous());
  }
  const auto rows = rows_that_visit(table, changed_rows(before, after, old_values, new_values));
  const WalkTable::Arrays fresh = sample_rows(plan, steps, options, {.starts = &rows});
  return {{replaced(table, rows, fresh), options, plan.max_hops, /*sampled=*/true}, static_cast<int64_t>(rows.size())};
}

}  // namespace topomask
