#include <ATen/ATen.h>
#include <ATen/Dispatch.h>

#include <mutex>

#include "core/move.h"
#include "core/parallel.h"
#include "graph/weights.h"
#include "masks/grf/walk_function.h"
#include "masks/power_series/hop_basis.h"
#include "topomask/grf.h"

namespace topomask {
namespace {

/// The rows of a range, one after the other.
template <class T>
struct Chunk {
  int64_t begin = 0, end = 0;
  std::vector<int32_t> columns, counts, feature_columns;
  std::vector<int16_t> hops, product_hops;
  std::vector<T> loads, product_values;
  std::vector<int64_t> triples, features, feature_triples, products;  // how many: per row, row, feature, row
};

template <class T>
class HeadAndTail {
 public:
  HeadAndTail(const WalkTable& walks, const HopBasis& head)
      : walks_(walks),
        exact_(head.powers.size(0)),
        entries_(head.pattern->entries()),
        head_offset_(head.pattern->offsets().const_data_ptr<int64_t>()),
        head_column_(head.pattern->columns().const_data_ptr<int32_t>()),
        power_(head.powers.const_data_ptr<T>()),
        offset_(walks.offsets().const_data_ptr<int64_t>()),
        column_(walks.columns().const_data_ptr<int32_t>()),
        hop_(walks.hops().const_data_ptr<int16_t>()),
        load_(walks.loads().const_data_ptr<T>()),
        count_(walks.counts().const_data_ptr<int32_t>()),
        hops_(walks.max_hops() + 1) {}

  Chunk<T> rows(int64_t begin, int64_t end) const {
    Chunk<T> chunk{begin, end};
    std::vector<T> products(exact_ * std::max(exact_, hops_));
    for (int64_t i = begin; i < end; ++i) {
      merge_row(i, chunk);
      if (walks_.has_group_products()) add_products(i, chunk, products);
    }
    return chunk;
  }

 private:
  /// Triples by column and then hop: exact hops first, as many as walkers would sum to.
  void merge_row(int64_t i, Chunk<T>& chunk) const {
    const size_t triples_before = chunk.columns.size(), features_before = chunk.feature_columns.size();
    const auto scale = static_cast<T>(walks_.walkers());
    int64_t e = head_offset_[i], p = offset_[i];
    while (e < head_offset_[i + 1] || p < offset_[i + 1]) {
      const int32_t from_head = e < head_offset_[i + 1] ? head_column_[e] : std::numeric_limits<int32_t>::max();
      const int32_t from_tail = p < offset_[i + 1] ? column_[p] : std::numeric_limits<int32_t>::max();
      const int32_t column = std::min(from_head, from_tail);
      const size_t before = chunk.columns.size();
      if (from_head == column) {
        for (int64_t t = 0; t < exact_; ++t) {
          if (power(t, e) != T(0)) push(chunk, column, static_cast<int16_t>(t), scale * power(t, e), 0);
        }
        ++e;
      }
      for (; p < offset_[i + 1] && column_[p] == column; ++p) {
        if (hop_[p] >= exact_) push(chunk, column, hop_[p], load_[p], count_[p]);
      }
      if (chunk.columns.size() == before) continue;
      chunk.feature_columns.push_back(column);
      chunk.feature_triples.push_back(static_cast<int64_t>(chunk.columns.size() - before));
    }
    chunk.triples.push_back(static_cast<int64_t>(chunk.columns.size() - triples_before));
    chunk.features.push_back(static_cast<int64_t>(chunk.feature_columns.size() - features_before));
  }

  /// G of head plus tail: every walker of group k carries the same head, so R_t^k = |k|·W^t for the exact hops t.
  void add_products(int64_t i, Chunk<T>& chunk, std::vector<T>& sums) const {
    const int64_t n = walks_.walkers(), size = n / walks_.groups(), width = std::max(exact_, hops_);
    const auto same_group = static_cast<T>(n * n - walks_.independent_pairs());
    std::fill(sums.begin(), sums.end(), T(0));
    int64_t p = offset_[i];
    for (int64_t e = head_offset_[i]; e < head_offset_[i + 1]; ++e) {
      while (p < offset_[i + 1] && column_[p] < head_column_[e]) ++p;
      for (int64_t t = 0; t < exact_; ++t) {
        for (int64_t u = t; u < exact_; ++u) sums[t * width + u] += same_group * power(t, e) * power(u, e);
        for (int64_t q = p; q < offset_[i + 1] && column_[q] == head_column_[e]; ++q) {
          if (hop_[q] >= exact_) sums[t * width + hop_[q]] += static_cast<T>(size) * power(t, e) * load_[q];
        }
      }
    }
    const size_t before = chunk.product_values.size();
    for (int64_t t = 0; t < exact_; ++t) {
      for (int64_t u = t; u < width; ++u) {
        if (sums[t * width + u] != T(0)) push_product(chunk, t, u, sums[t * width + u]);
      }
    }
    const int64_t* product = walks_.product_offsets().const_data_ptr<int64_t>();
    const int16_t* hops = walks_.product_hops().const_data_ptr<int16_t>();
    const T* value = walks_.product_values().const_data_ptr<T>();
    for (int64_t g = product[i]; g < product[i + 1]; ++g) {
      if (hops[2 * g] >= exact_) push_product(chunk, hops[2 * g], hops[2 * g + 1], value[g]);
    }
    chunk.products.push_back(static_cast<int64_t>(chunk.product_values.size() - before));
  }

  T power(int64_t t, int64_t e) const { return power_[t * entries_ + e]; }

  static void push(Chunk<T>& chunk, int32_t column, int16_t hop, T load, int32_t count) {
    chunk.columns.push_back(column);
    chunk.hops.push_back(hop);
    chunk.loads.push_back(load);
    chunk.counts.push_back(count);
  }

  static void push_product(Chunk<T>& chunk, int64_t t, int64_t u, T value) {
    chunk.product_hops.push_back(static_cast<int16_t>(t));
    chunk.product_hops.push_back(static_cast<int16_t>(u));
    chunk.product_values.push_back(value);
  }

  const WalkTable& walks_;
  int64_t exact_;    // K₀ + 1 hops, from 0 on
  int64_t entries_;  // of the head
  const int64_t* head_offset_;
  const int32_t* head_column_;
  const T* power_;
  const int64_t* offset_;
  const int32_t* column_;
  const int16_t* hop_;
  const T* load_;
  const int32_t* count_;
  int64_t hops_;
};

/// One member of all chunks, end to end.
template <class Chunks, class Member>
at::Tensor joined(const Chunks& chunks, Member member, at::ScalarType dtype) {
  using Value = typename std::decay_t<decltype(chunks[0].*member)>::value_type;
  int64_t size = 0;
  for (const auto& chunk : chunks) size += static_cast<int64_t>((chunk.*member).size());
  at::Tensor result = at::empty({size}, dtype);
  Value* out = result.template mutable_data_ptr<Value>();
  for (const auto& chunk : chunks) out = std::copy((chunk.*member).begin(), (chunk.*member).end(), out);
  return result;
}

at::Tensor offsets_of(const at::Tensor& counts) {
  return at::cat({at::zeros({1}, at::kLong), counts.cumsum(0)});
}

template <class T>
WalkTable::Arrays merge(const WalkTable& walks, const HopBasis& head) {
  const HeadAndTail<T> both(walks, head);
  std::vector<Chunk<T>> chunks;
  std::mutex mutex;
  const int64_t* offset = walks.offsets().const_data_ptr<int64_t>();
  for_row_ranges(offset, walks.num_nodes(), 1, 32, [&](int64_t, int64_t begin, int64_t end) {
    Chunk<T> chunk = both.rows(begin, end);
    const std::lock_guard lock(mutex);
    chunks.push_back(std::move(chunk));
  });
  std::sort(chunks.begin(), chunks.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  using C = Chunk<T>;
  WalkTable::Arrays arrays;
  arrays.offsets = offsets_of(joined(chunks, &C::triples, at::kLong));
  arrays.columns = joined(chunks, &C::columns, at::kInt);
  arrays.hops = joined(chunks, &C::hops, at::kShort);
  arrays.loads = joined(chunks, &C::loads, walks.dtype());
  arrays.counts = joined(chunks, &C::counts, at::kInt);
  arrays.feature_offsets = offsets_of(joined(chunks, &C::feature_triples, at::kLong));
  arrays.pattern = std::make_shared<SparsePattern>(walks.num_nodes(), walks.num_nodes(),
                                                   offsets_of(joined(chunks, &C::features, at::kLong)),
                                                   joined(chunks, &C::feature_columns, at::kInt));
  if (walks.has_group_products()) {
    arrays.product_offsets = offsets_of(joined(chunks, &C::products, at::kLong));
    arrays.product_hops = joined(chunks, &C::product_hops, at::kShort).view({-1, 2});
    arrays.product_values = joined(chunks, &C::product_values, walks.dtype());
  }
  return arrays;
}

}  // namespace

WalkTable with_exact_head(const WalkTable& walks, const Graph& graph) {
  if (!walks.device().is_cpu()) return with_exact_head(walks.to(at::kCPU), graph.to(at::kCPU)).to(walks.device());
  check_constant_weights("with_exact_head", "graph", graph, "the exact head has no gradient in them");
  TORCH_CHECK(!walks.loads().requires_grad(),
              "with_exact_head: walks must have loads that do not require grad, got loads that do; sample on a graph "
              "whose weights are detached");
  TORCH_CHECK(graph.num_nodes() == walks.num_nodes(), "with_exact_head: graph must have ", walks.num_nodes(),
              " nodes as the walks have, got ", graph.num_nodes());
  TORCH_CHECK(graph.weights().scalar_type() == walks.dtype(), "with_exact_head: graph must have weights of ",
              walks.dtype(), " as the walks' loads are, got ", graph.weights().scalar_type());
  TORCH_CHECK(!walks.has_group_products() || walks.walkers() % walks.groups() == 0,
              "with_exact_head: walks with group_products must come in groups of one size, got ", walks.walkers(),
              " antithetic walkers");
  const HopBasis head = build_hop_basis(graph, walks.options().exact_hops + 1);
  WalkTable::Arrays arrays = walks.dtype() == at::kFloat ? merge<float>(walks, head) : merge<double>(walks, head);
  return {std::move(arrays), walks.options(), walks.max_hops(), /*sampled=*/false};
}

MaskPtr hybrid_grf_mask(const WalkTable& walks, const Graph& graph, const at::Tensor& f, const GrfOptions& options) {
  check_function("hybrid_grf_mask", "f", f, walks);
  return grf_mask(with_exact_head(walks, graph), f, options);
}

}  // namespace topomask
