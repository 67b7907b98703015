#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <torch/library.h>

#include "core/checks.h"
#include "core/ordered_sums.h"
#include "core/parallel.h"
#include "core/recycled.h"
#include "ops/hop_pairs/cpu_kernel.h"
#include "ops/hop_pairs/meetings.h"
#include "ops/hop_pairs/op.h"

namespace topomask::ops::hop_pairs {

namespace {

using at::Tensor;
using at::TensorList;

/// Entries per task, and per partial sum of the gradient: fixed, so that sums do not depend on the number of threads.
constexpr int64_t kEntries = 16384;

template <class T>
Table<T> table_of(const TableTensors& t) {
  return {t.offsets.const_data_ptr<int64_t>(), t.columns.const_data_ptr<int32_t>(),
          t.features.const_data_ptr<int64_t>(), t.hops.const_data_ptr<int16_t>(), t.loads.const_data_ptr<T>()};
}

Three make_cpu(TensorList left, TensorList right, TensorList product, int64_t terms, int64_t most) {
  const MeetingTensors m = check_make(left, right, product, terms);
  const int64_t rows = m.offsets.size(0) - 1, entries = m.columns.size(0), longest = std::min<int64_t>(most, INT32_MAX);
  const int64_t* offset = m.offsets.const_data_ptr<int64_t>();
  const int32_t* column = m.columns.const_data_ptr<int32_t>();
  const int kept = static_cast<int>(terms);
  constexpr int64_t kEntryWork = 16;  // a guess at the steps of two rows side by side
  Tensor offsets = at::zeros({entries + 1}, at::kInt), pairs, sums;
  int32_t* place = offsets.mutable_data_ptr<int32_t>();
  AT_DISPATCH_FLOATING_TYPES(m.left.loads.scalar_type(), "hop_pairs", [&] {
    const auto a = table_of<scalar_t>(m.left), b = table_of<scalar_t>(m.right);
    for_row_ranges(offset, rows, 1, kEntryWork, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        for (int64_t e = offset[i]; e < offset[i + 1]; ++e) {
          place[e + 1] = pairs_of(a, i, b, column[e], kept).count();
        }
      }
    });
    int64_t total = 0;
    for (int64_t e = 0; e < entries && total <= longest; ++e) {
      total += place[e + 1];
      place[e + 1] = static_cast<int32_t>(std::min<int64_t>(total, INT32_MAX));
    }
    if (total > longest) {
      offsets = at::empty({0}, at::kInt), pairs = at::empty({0}, at::kByte),
      sums = at::empty({0}, m.left.loads.options());
      return;
    }
    pairs = at::empty({total}, at::kByte);
    sums = at::empty({total}, m.left.loads.options());
    uint8_t* pair = pairs.mutable_data_ptr<uint8_t>();
    scalar_t* sum = sums.mutable_data_ptr<scalar_t>();
    for_row_ranges(offset, rows, 1, 2 * kEntryWork, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        for (int64_t e = offset[i]; e < offset[i + 1]; ++e) {
          write_list(a, i, b, column[e], kept, pair + place[e], sum + place[e]);
        }
      }
    });
  });
  return {offsets, pairs, sums};
}

template <class T>
ListArgs<T> list_args(const Tensor& offsets, const Tensor& pairs, const Tensor& sums) {
  return {offsets.const_data_ptr<int32_t>(), pairs.const_data_ptr<uint8_t>(), sums.const_data_ptr<T>(),
          offsets.size(0) - 1, kHeadBlock};
}

/// run(task) for all, each by one thread.
template <class Run>
void for_tasks(int64_t tasks, const Run& run) {
  at::parallel_for(0, tasks, 1, [&](int64_t first, int64_t last) {
    for (int64_t task = first; task < last; ++task) run(task);
  });
}

Tensor values_cpu(const Tensor& g, const Tensor& offsets, const Tensor& pairs, const Tensor& sums) {
  check_lists("hop_pair_values", g, "g", offsets, pairs, sums);
  const int64_t heads = g.size(0), entries = offsets.size(0) - 1, count = g.size(1);
  const int64_t blocks = (heads + kHeadBlock - 1) / kHeadBlock;
  // [blocks, 256, kHeadBlock]: heads of a block side by side, and a zero for pairs missing from g.
  const Tensor arranged = at::constant_pad_nd(g, {0, 256 - count, 0, blocks * kHeadBlock - heads})
                              .view({blocks, kHeadBlock, 256})
                              .transpose(1, 2)
                              .contiguous();
  const Tensor result = recycled_empty({heads, entries}, g.options());
  AT_DISPATCH_FLOATING_TYPES(g.scalar_type(), "hop_pair_values", [&] {
    const auto shared = list_args<scalar_t>(offsets, pairs, sums);
    const auto* coefficients = arranged.const_data_ptr<scalar_t>();
    auto* out = result.mutable_data_ptr<scalar_t>();
    for_tasks((entries + kEntries - 1) / kEntries, [&](int64_t task) {
      for (int64_t b = 0; b < blocks; ++b) {
        auto args = shared;
        args.heads = std::min(kHeadBlock, heads - b * kHeadBlock);
        pair_values(args, coefficients + b * 256 * kHeadBlock, out + b * kHeadBlock * entries, task * kEntries,
                    std::min(entries, (task + 1) * kEntries));
      }
    });
  });
  return result;
}

Tensor backward_cpu(const Tensor& grad, const Tensor& offsets, const Tensor& pairs, const Tensor& sums, int64_t count) {
  const char* op = "hop_pair_values_backward";
  check_lists(op, grad, "grad", offsets, pairs, sums);
  const int64_t heads = grad.size(0), entries = offsets.size(0) - 1;
  TORCH_CHECK(grad.size(1) == entries, op, ": grad must be [H, ", entries, "], got ", describe(grad));
  TORCH_CHECK(count >= 0 && count <= 256, op, ": count must be in [0, 256], got ", count);
  const int64_t blocks = (heads + kHeadBlock - 1) / kHeadBlock, tasks = (entries + kEntries - 1) / kEntries;
  const Tensor kept = grad.contiguous(), partial = at::zeros({tasks, blocks, 256, kHeadBlock}, at::kDouble);
  AT_DISPATCH_FLOATING_TYPES(grad.scalar_type(), "hop_pair_values_backward", [&] {
    const auto shared = list_args<scalar_t>(offsets, pairs, sums);
    const auto* slopes = kept.const_data_ptr<scalar_t>();
    auto* total = partial.mutable_data_ptr<double>();
    for_tasks(tasks, [&](int64_t task) {
      for (int64_t b = 0; b < blocks; ++b) {
        auto args = shared;
        args.heads = std::min(kHeadBlock, heads - b * kHeadBlock);
        pair_gradients(args, slopes + b * kHeadBlock * entries, total + (task * blocks + b) * 256 * kHeadBlock,
                       task * kEntries, std::min(entries, (task + 1) * kEntries));
      }
    });
  });
  const Tensor all = first_sums(partial).transpose(1, 2).reshape({blocks * kHeadBlock, 256});
  return all.narrow(0, 0, heads).narrow(1, 0, count).to(grad.scalar_type()).contiguous();
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CPU, m) {
  m.impl("hop_pairs", make_cpu);
  m.impl("hop_pair_values", values_cpu);
  m.impl("hop_pair_values_backward", backward_cpu);
}

}  // namespace topomask::ops::hop_pairs
