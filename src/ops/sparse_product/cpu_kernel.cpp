#include "ops/sparse_product/cpu_kernel.h"

namespace topomask::ops::sparse_product {

// Plain loops: rows are short. Vector gathers and scatters ran a third slower, and half of a symmetric product,
// mirrored, no faster than all of it.

template <class T>
void product_rows(const ProductArgs<T>& args, int64_t begin, int64_t end) {
  T* sum = args.workspace;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t first = args.out_offsets[i], last = args.out_offsets[i + 1];
    // Only the places that will be read are cleared: what lands elsewhere is never seen.
    for (int64_t e = first; e < last; ++e) sum[args.out_columns[e]] = 0;
    for (int64_t e = args.a_offsets[i]; e < args.a_offsets[i + 1]; ++e) {
      const T scale = args.from[e];
      const int32_t c = args.a_columns[e];
      for (int64_t k = args.bt_offsets[c]; k < args.bt_offsets[c + 1]; ++k) {
        sum[args.bt_columns[k]] += scale * args.bt_values[k];
      }
    }
    for (int64_t e = first; e < last; ++e) args.to[e] = sum[args.out_columns[e]];
  }
}

template <class T>
void product_grad_rows(const ProductArgs<T>& args, int64_t begin, int64_t end) {
  T* row = args.workspace;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t first = args.out_offsets[i], last = args.out_offsets[i + 1];
    for (int64_t e = first; e < last; ++e) row[args.out_columns[e]] = args.from[args.out_index ? args.out_index[e] : e];
    for (int64_t e = args.a_offsets[i]; e < args.a_offsets[i + 1]; ++e) {
      const int32_t c = args.a_columns[e];
      T sum = 0;
      for (int64_t k = args.bt_offsets[c]; k < args.bt_offsets[c + 1]; ++k) {
        sum += row[args.bt_columns[k]] * args.bt_values[k];
      }
      args.to[e] = sum;
    }
    for (int64_t e = first; e < last; ++e) row[args.out_columns[e]] = 0;
  }
}

template void product_rows(const ProductArgs<float>&, int64_t, int64_t);
template void product_rows(const ProductArgs<double>&, int64_t, int64_t);
template void product_grad_rows(const ProductArgs<float>&, int64_t, int64_t);
template void product_grad_rows(const ProductArgs<double>&, int64_t, int64_t);

}  // namespace topomask::ops::sparse_product
