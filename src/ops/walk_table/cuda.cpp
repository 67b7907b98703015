#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <limits>

#include "core/checks.h"
#include "core/cuda/dispatch.h"
#include "ops/pattern.h"
#include "ops/walk_table/cuda_kernel.h"

namespace topomask::ops::walk_table {

namespace {

using at::Tensor;

/// Visits of walks, row by row.
struct Visits {
  Tensor row_offsets, keys, loads;
  int64_t longest = 0;  // row
};

uint64_t* words(const Tensor& t) {
  return reinterpret_cast<uint64_t*>(t.mutable_data_ptr<int64_t>());
}

/// By walker and then hop.
template <class T>
Visits walked(const cuda::WalkArgs<T>& args, bool fixed_length, const at::TensorOptions& like) {
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  const int64_t walks = args.nodes * args.walkers;
  TORCH_CHECK(walks < std::numeric_limits<int32_t>::max(), "sample_walks: there must be fewer than 2^31 walks on ",
              like.device(), ", got ", args.nodes, " nodes of ", args.walkers,
              " walkers; sample fewer walkers at a time, or on cpu");
  const Tensor visits = at::full({walks}, args.max_hops + 1, like.dtype(at::kInt));
  if (!fixed_length) cuda::count_visits(args, visits.mutable_data_ptr<int32_t>(), stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  const Tensor ends = visits.cumsum(0, at::kLong);
  const Tensor ends_by_row = ends.view({args.nodes, args.walkers}).select(1, args.walkers - 1);
  Visits made;
  int64_t total = 0;
  if (walks > 0) {
    const Tensor first = at::zeros({1}, ends.options());
    const Tensor sizes = at::stack({ends[walks - 1], ends_by_row.diff(1, 0, first).max()}).cpu();
    total = sizes[0].item<int64_t>();
    made.longest = sizes[1].item<int64_t>();
  }
  TORCH_CHECK(total < std::numeric_limits<int32_t>::max(), "sample_walks: walks must make fewer than 2^31 visits on ",
              like.device(), ", got ", total, "; sample fewer walkers at a time, or on cpu");
  made.row_offsets = at::zeros({args.nodes + 1}, like.dtype(at::kLong));
  made.row_offsets.narrow(0, 1, args.nodes).copy_(ends_by_row);
  made.keys = at::empty({total}, like.dtype(at::kLong));
  made.loads = at::empty({total}, like);
  cuda::write_visits(args, ends.const_data_ptr<int64_t>(), visits.const_data_ptr<int32_t>(), words(made.keys),
                     made.loads.mutable_data_ptr<T>(), stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return made;
}

/// By column and then hop in each row, those of one place by walker.
template <class T>
Visits sorted(const Visits& visits) {
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  const int64_t rows = visits.row_offsets.size(0) - 1;
  const int64_t* row_offsets = visits.row_offsets.const_data_ptr<int64_t>();
  Visits made{visits.row_offsets, at::empty_like(visits.keys), at::empty_like(visits.loads), visits.longest};
  const T* loads = visits.loads.const_data_ptr<T>();
  T* sorted_loads = made.loads.mutable_data_ptr<T>();
  if (visits.longest <= cuda::kShortRow) {
    cuda::sort_short_rows(words(visits.keys), words(made.keys), loads, sorted_loads, rows, row_offsets, visits.longest,
                          stream);
  } else {
    const auto sort = [&](void* temporary, size_t bytes) {
      return cuda::sort_visits(temporary, bytes, words(visits.keys), words(made.keys), loads, sorted_loads,
                               visits.keys.size(0), rows, row_offsets, stream);
    };
    const size_t bytes = sort(nullptr, 0);
    const Tensor temporary = at::empty({static_cast<int64_t>(bytes) + 1}, visits.keys.options().dtype(at::kByte));
    sort(temporary.mutable_data_ptr<uint8_t>(), bytes);
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return made;
}

template <class T>
std::vector<Tensor> collected(const Visits& visits, const at::TensorOptions& like) {
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  const int64_t rows = visits.row_offsets.size(0) - 1, total = visits.keys.size(0);
  const auto* keys = reinterpret_cast<const uint64_t*>(visits.keys.const_data_ptr<int64_t>());
  const int64_t* row_offsets = visits.row_offsets.const_data_ptr<int64_t>();
  const Tensor marks = at::empty({total}, like.dtype(at::kLong));
  cuda::mark_heads(keys, row_offsets, rows, marks.mutable_data_ptr<int64_t>(), stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  const Tensor heads = marks.cumsum(0);
  const int64_t both = total == 0 ? 0 : heads[total - 1].item<int64_t>();
  const int64_t triples = both >> 32, entries = both & 0xFFFFFFFF;
  const auto empty = [&](int64_t size, at::ScalarType dtype) { return at::empty({size}, like.dtype(dtype)); };
  std::vector<Tensor> table{empty(rows + 1, at::kLong), empty(triples, at::kInt),     empty(triples, at::kShort),
                            at::empty({triples}, like), empty(triples, at::kInt),     empty(rows + 1, at::kLong),
                            empty(entries, at::kInt),   empty(entries + 1, at::kLong)};
  cuda::collect_table(cuda::TableArgs<T>{.keys = keys,
                                         .visit_loads = visits.loads.const_data_ptr<T>(),
                                         .heads = heads.const_data_ptr<int64_t>(),
                                         .row_offsets = row_offsets,
                                         .rows = rows,
                                         .triples = triples,
                                         .entries = entries,
                                         .offsets = table[0].mutable_data_ptr<int64_t>(),
                                         .columns = table[1].mutable_data_ptr<int32_t>(),
                                         .hops = table[2].mutable_data_ptr<int16_t>(),
                                         .loads = table[3].mutable_data_ptr<T>(),
                                         .counts = table[4].mutable_data_ptr<int32_t>(),
                                         .entry_offsets = table[5].mutable_data_ptr<int64_t>(),
                                         .entry_columns = table[6].mutable_data_ptr<int32_t>(),
                                         .feature_offsets = table[7].mutable_data_ptr<int64_t>()},
                      stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return table;
}

/// f(arguments of the kernels, whether all walks are equally long, options of loads) for float or double.
template <class F>
void with_walks(const PatternTensors& pattern, const Tensor& factors, const std::optional<Tensor>& threshold,
                const std::optional<Tensor>& alias, const Tensor& halt_below, const Tensor& scale, int64_t walkers,
                int64_t first_walker, int64_t seed, bool antithetic, int64_t ensemble, int64_t first, int64_t count,
                const F& f) {
  const c10::cuda::CUDAGuard guard(factors.device());
  TORCH_CHECK(is_real(factors.scalar_type()) && scale.scalar_type() == factors.scalar_type(),
              "walk_table: scale must be ", factors.scalar_type(), " as factors are, got ", describe(scale));
  // Walks that neither halt nor meet a dead end need not be counted before they are written.
  const bool fixed_length = (halt_below == 0).all().logical_and((pattern.offsets.diff() > 0).all()).item<bool>();
  cuda::with_real(factors.scalar_type(), [&]<class T>(T) {
    TORCH_CHECK(ensemble <= cuda::largest_ensemble<T>(), "sample_walks: ensemble must be at most ",
                cuda::largest_ensemble<T>(), " repelling walkers on ", factors.device(), ", got ", ensemble);
    f(cuda::WalkArgs<T>{.offsets = pattern.offsets.const_data_ptr<int64_t>(),
                        .columns = pattern.columns.const_data_ptr<int32_t>(),
                        .factors = factors.const_data_ptr<T>(),
                        .threshold = threshold ? reinterpret_cast<const uint32_t*>(threshold->const_data_ptr<int32_t>())
                                               : nullptr,
                        .alias = alias ? alias->const_data_ptr<int32_t>() : nullptr,
                        .halt_below = reinterpret_cast<const uint32_t*>(halt_below.const_data_ptr<int32_t>()),
                        .scale = scale.const_data_ptr<T>(),
                        .first_node = first,
                        .nodes = count,
                        .walkers = walkers,
                        .ensemble = ensemble,
                        .first_walker = static_cast<uint32_t>(first_walker),
                        .max_hops = static_cast<int>(halt_below.size(0)),
                        .key = philox_key(static_cast<uint64_t>(seed)),
                        .antithetic = antithetic},
      fixed_length, factors.options().requires_grad(false));
  });
}

std::vector<Tensor> walk_table_cuda(at::TensorList given, const Tensor& factors, const std::optional<Tensor>& threshold,
                                    const std::optional<Tensor>& alias, const Tensor& halt_below, const Tensor& scale,
                                    int64_t walkers, int64_t first_walker, int64_t seed, bool antithetic,
                                    int64_t ensemble) {
  const PatternTensors pattern("walk_table", "pattern", given, PatternTensors::kRows);
  std::vector<Tensor> table;
  with_walks(pattern, factors, threshold, alias, halt_below, scale, walkers, first_walker, seed, antithetic, ensemble,
             0, pattern.rows(), [&]<class T>(const cuda::WalkArgs<T>& args, bool fixed_length, const auto& like) {
               table = collected<T>(sorted<T>(walked(args, fixed_length, like)), like);
             });
  return table;
}

std::vector<Tensor> walk_visits_cuda(at::TensorList given, const Tensor& factors,
                                     const std::optional<Tensor>& threshold, const std::optional<Tensor>& alias,
                                     const Tensor& halt_below, const Tensor& scale, int64_t walkers,
                                     int64_t first_walker, int64_t seed, bool antithetic, int64_t ensemble,
                                     int64_t first, int64_t count) {
  const PatternTensors pattern("walk_visits", "pattern", given, PatternTensors::kRows);
  TORCH_CHECK(first >= 0 && count >= 0 && first + count <= pattern.rows(),
              "walk_visits: first and count must be rows of the ", pattern.rows(), " of pattern, got ", first, " and ",
              count);
  Visits visits;
  with_walks(pattern, factors, threshold, alias, halt_below, scale, walkers, first_walker, seed, antithetic, ensemble,
             first, count, [&]<class T>(const cuda::WalkArgs<T>& args, bool fixed_length, const auto& like) {
               visits = walked(args, fixed_length, like);
             });
  return {visits.row_offsets, visits.keys.bitwise_right_shift(cuda::kHopBits).to(at::kInt),
          visits.keys.bitwise_and((1 << cuda::kHopBits) - 1), visits.loads};
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CUDA, m) {
  m.impl("walk_table", walk_table_cuda);
  m.impl("walk_visits", walk_visits_cuda);
}

}  // namespace topomask::ops::walk_table
