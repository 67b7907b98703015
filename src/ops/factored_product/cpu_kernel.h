#pragma once

#include <cstdint>

#include "core/internal_api.h"

// The two kernels behind (M ⊙ q kᵀ)v with M = Φ₁Φ₂ᵀ and its gradients, on raw pointers, one (batch, head) slice and one
// slice S of the features at a time, for float and double. Widths are multiples of kWidthUnit, rows contiguous.

namespace TOPOMASK_INTERNAL_API topomask {
namespace ops::factored_product {

inline constexpr int64_t kMaxFeatureCount = 8;

/// z_a[s, :] = Σ_e w_e f[columns[e], s] x[columns[e], :] for s in S, over the entries e of row a.
template <class T>
struct OuterGatherArgs {
  const int64_t* offsets;
  const int32_t* columns;
  const int64_t* index;  ///< w_e = values[index[e]]
  const T* values;
  const T* features;  ///< f, rows of feature_stride scalars, already at the first feature of S
  int64_t feature_stride;
  int64_t feature_count;  ///< |S| ≤ kMaxFeatureCount
  const T* x;
  int64_t width;
  T* z;             ///< [rows, |S|, width]
  T* weights;       ///< one scalar per entry of the longest row, padded
  T* row_features;  ///< likewise
};
void outer_gather_rows(const OuterGatherArgs<float>& args, int64_t begin, int64_t end);
void outer_gather_rows(const OuterGatherArgs<double>& args, int64_t begin, int64_t end);

/// With y_i[s, :] = Σ_e values[e] z[columns[e], s, :] over the entries of row i, whichever of these are asked for:
///   product_i       += Σ_s f_is y_i[s, :]
///   grad_features_is = y_i[s, :] · x_i
///   grad_values_e   += Σ_s f_is z[columns[e], s, :] · x_i
template <class T>
struct GatherContractArgs {
  const int64_t* offsets;
  const int32_t* columns;
  const T* values;
  const T* features;  ///< f, like OuterGatherArgs::features
  int64_t feature_stride;
  int64_t feature_count;
  const T* z;
  const T* x;  ///< [rows, width]; read for the gradients only
  int64_t width;
  T* product;               ///< null, or [rows, width]
  T* grad_features;         ///< null, or laid out like f
  T* grad_values;           ///< null, or [entries]
  bool accumulate_product;  ///< add to product instead of writing it
  bool accumulate_values;   ///< add to grad_values instead of writing it
  T* gathered;              ///< 2·|S|·width scalars
  T* dots;                  ///< one scalar per entry of the longest row, and not less than |S|, padded
};
void gather_contract_rows(const GatherContractArgs<float>& args, int64_t begin, int64_t end);
void gather_contract_rows(const GatherContractArgs<double>& args, int64_t begin, int64_t end);

}  // namespace ops::factored_product
}  // namespace topomask
