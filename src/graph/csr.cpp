#include "graph/csr.h"

#include <ATen/TensorIterator.h>

#include <atomic>
#include <limits>

#include "core/checks.h"

namespace topomask {

void check_node_count(const char* op, const char* argument, int64_t nodes) {
  TORCH_CHECK(nodes >= 0 && nodes <= std::numeric_limits<int32_t>::max(), op, ": ", argument,
              " must be in [0, 2^31-1], got ", nodes);
}

void check_entry_count(const char* op, int64_t entries) {
  TORCH_CHECK(entries <= kMaxEntries, op, ": the graph must have at most 2^33 = ", kMaxEntries, " entries, got ",
              entries);
}

void accumulate_offsets(const char* op, const at::Tensor& offsets) {
  int64_t* offset = offsets.mutable_data_ptr<int64_t>();
  const int64_t rows = offsets.size(0) - 1;
  for (int64_t i = 0; i < rows; ++i) offset[i + 1] += offset[i];
  check_entry_count(op, offset[rows]);
}

namespace {

template <class Id>
int64_t narrow_ids(const Id* in, int32_t* out, int64_t length, int64_t lowest, int64_t nodes) {
  std::atomic<int64_t> first_bad{length};
  at::parallel_for(0, length, at::internal::GRAIN_SIZE, [&](int64_t begin, int64_t end) {
    for (int64_t e = begin; e < end; ++e) {
      if (in[e] < lowest || in[e] >= nodes) {
        int64_t seen = first_bad.load();
        while (e < seen && !first_bad.compare_exchange_weak(seen, e)) {
        }
        return;
      }
      out[e] = static_cast<int32_t>(in[e]);
    }
  });
  return first_bad.load();
}

}  // namespace

at::Tensor checked_node_ids(const char* op, const char* argument, const at::Tensor& ids, int64_t lowest,
                            int64_t nodes) {
  TORCH_CHECK(ids.defined() && (ids.scalar_type() == at::kLong || ids.scalar_type() == at::kInt) && ids.dim() == 1 &&
                  ids.device().is_cpu(),
              op, ": ", argument, " must be int64 or int32 of one dimension on cpu, got ", describe(ids));
  const at::Tensor given = ids.contiguous();
  const int64_t length = given.size(0);
  at::Tensor narrow = at::empty({length}, at::kInt);
  int32_t* out = narrow.mutable_data_ptr<int32_t>();
  const bool wide = given.scalar_type() == at::kLong;
  const int64_t bad = wide ? narrow_ids(given.const_data_ptr<int64_t>(), out, length, lowest, nodes)
                           : narrow_ids(given.const_data_ptr<int32_t>(), out, length, lowest, nodes);
  if (bad < length) {
    const int64_t id = wide ? given.const_data_ptr<int64_t>()[bad] : given.const_data_ptr<int32_t>()[bad];
    TORCH_CHECK(false, op, ": ", argument, "[", bad, "] must be a node in [", lowest, ", ", nodes, "), got ", id);
  }
  return narrow;
}

}  // namespace topomask
