#include "ops/factored_product/cpu_kernel.h"

#include "ops/row_primitives.h"

namespace topomask::ops::factored_product {

namespace {

/// Reads the blocks of y one after the other; there are at most eight.
constexpr int32_t kOrder[kMaxFeatureCount] = {0, 1, 2, 3, 4, 5, 6, 7};

template <class S>
TOPOMASK_INLINE void outer_gather_rows_body(const OuterGatherArgs<typename S::Scalar>& args, int64_t begin,
                                            int64_t end) {
  for (int64_t a = begin; a < end; ++a) {
    const int64_t first = args.offsets[a], count = args.offsets[a + 1] - first;
    const int32_t* columns = args.columns + first;
    auto* z = args.z + a * args.feature_count * args.width;
    for (int64_t e = 0; e < count; ++e) args.weights[e] = args.values[args.index[first + e]];
    for (int64_t s = 0; s < args.feature_count; ++s) {
      for (int64_t e = 0; e < count; ++e) {
        args.row_features[e] = args.weights[e] * args.features[columns[e] * args.feature_stride + s];
      }
      gather_row<S>(args.row_features, args.x, args.width, columns, count, 1, z + s * args.width);
    }
  }
}

/// product (+)= Σ_s f_s y[s, :].
template <class S>
TOPOMASK_INLINE void contract(const typename S::Scalar* features, int64_t feature_count, const typename S::Scalar* y,
                              int64_t width, bool accumulate, typename S::Scalar* product) {
  for (int64_t t = 0; t < width; t += S::kLanes) {
    auto sum = accumulate ? S::load(product + t) : typename S::Vector{};
    for (int64_t s = 0; s < feature_count; ++s) sum += features[s] * S::load(y + s * width + t);
    S::store(product + t, sum);
  }
}

/// y[s, :] = f_s x.
template <class S>
TOPOMASK_INLINE void outer(const typename S::Scalar* features, int64_t feature_count, const typename S::Scalar* x,
                           int64_t width, typename S::Scalar* y) {
  for (int64_t s = 0; s < feature_count; ++s) {
    for (int64_t t = 0; t < width; t += S::kLanes) S::store(y + s * width + t, features[s] * S::load(x + t));
  }
}

template <class S>
TOPOMASK_INLINE void gather_contract_rows_body(const GatherContractArgs<typename S::Scalar>& args, int64_t begin,
                                               int64_t end) {
  using T = typename S::Scalar;
  const int64_t block = args.feature_count * args.width;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t first = args.offsets[i], count = args.offsets[i + 1] - first;
    const int32_t* columns = args.columns + first;
    const T* features = args.features + i * args.feature_stride;
    const T* x = args.x + i * args.width;
    if (args.product || args.grad_features) {
      gather_row<S>(args.values + first, args.z, block, columns, count, 1, args.gathered);
    }
    if (args.product) {
      contract<S>(features, args.feature_count, args.gathered, args.width, args.accumulate_product,
                  args.product + i * args.width);
    }
    if (args.grad_features) {
      row_dots<S>(x, args.gathered, args.width, kOrder, args.feature_count, args.dots);
      T* grad_features = args.grad_features + i * args.feature_stride;
      for (int64_t s = 0; s < args.feature_count; ++s) grad_features[s] = args.dots[s];
    }
    if (args.grad_values) {
      outer<S>(features, args.feature_count, x, args.width, args.gathered + block);
      row_dots<S>(args.gathered + block, args.z, block, columns, count, args.dots);
      T* grad_values = args.grad_values + first;
      for (int64_t e = 0; e < count; ++e) {
        grad_values[e] = args.accumulate_values ? grad_values[e] + args.dots[e] : args.dots[e];
      }
    }
  }
}

}  // namespace

TOPOMASK_SIMD_KERNEL(outer_gather_rows, OuterGatherArgs)
TOPOMASK_SIMD_KERNEL(gather_contract_rows, GatherContractArgs)

}  // namespace topomask::ops::factored_product
