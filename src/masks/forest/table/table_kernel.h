#pragma once

#include <cstdint>

#include "masks/forest/structure/bins.h"
#include "masks/forest/structure/decomposition.h"

// Products with a table f[depth + depth] over components on raw pointers, for float and double: some columns of one
// (batch, head) slice at a time. Rows are by position, `stride` scalars apart; bins are rows of `pitch` scalars,
// `width` rounded up to a multiple of kWidthUnit, zeros after the last column.

namespace topomask {

/// A component and its bins.
template <class T>
struct TableArgs {
  const Component* components;
  const int32_t* groups;
  const int32_t* bin;
  const int32_t* depth;
  const int32_t* total;
  const int32_t* total_depth;
  const int64_t* first;
  const int64_t* total_first;
  const int32_t* group_first;
  const T* table;
  int64_t entries;  ///< of the table: 0 from there on
  const T* x;
  T* y;
  int64_t stride;
  int64_t width;
  int64_t pitch;
  T* sums;      ///< per bin of the component, then per bin over all groups: sums of x
  T* products;  ///< the same: what a node of the bin receives
};

/// Sums of x over the bins of components begin … end−1, one component at a time; `sums` is that of the last.
void bin_sums(const TableArgs<float>& args, int64_t begin, int64_t end);
void bin_sums(const TableArgs<double>& args, int64_t begin, int64_t end);

/// y_i += products over all groups − products of the own group, for the nodes of components begin … end−1.
void spread_products(const TableArgs<float>& args, int64_t begin, int64_t end);
void spread_products(const TableArgs<double>& args, int64_t begin, int64_t end);

/// All of it for components begin … end−1: sums, Hankel products, spreading.
void table_components(const TableArgs<float>& args, int64_t begin, int64_t end);
void table_components(const TableArgs<double>& args, int64_t begin, int64_t end);

/// Bins s that are done together; `begin` is a multiple of it, since a compiler may round the rest in another way.
inline constexpr int64_t kHankelBins = 4;

/// products_s = Σ_t f[depth_s + depth_t] sums_t for s = begin … end−1, over all `count` bins t.
template <class T>
struct HankelArgs {
  const int32_t* depth;
  int64_t count;
  const T* table;
  int64_t entries;
  const T* sums;
  T* products;
  int64_t pitch;
};
void hankel_rows(const HankelArgs<float>& args, int64_t begin, int64_t end);
void hankel_rows(const HankelArgs<double>& args, int64_t begin, int64_t end);

/// gradient[depth_s + depth_t] += sign·⟨g_s, x_t⟩ for s = begin … end−1, over all `count` bins t.
template <class T>
struct HankelGradientArgs {
  const int32_t* depth;
  int64_t count;
  int64_t entries;
  const T* g;
  const T* x;
  int64_t pitch;
  double sign;
  double* gradient;
};
void hankel_gradient(const HankelGradientArgs<float>& args, int64_t begin, int64_t end);
void hankel_gradient(const HankelGradientArgs<double>& args, int64_t begin, int64_t end);

}  // namespace topomask
