#pragma once

#include <cstdint>

// Sums over the visits of walks, on raw pointers: visit e goes from row i = start[e] to node j = node[e]. Widths are
// multiples of kWidthUnit, rows contiguous.

namespace topomask {

/// dots[e] = a_i · b_j
template <class T>
struct VisitDotArgs {
  const uint32_t* start;
  const uint32_t* node;
  const T* a;
  const T* b;
  int64_t width;
  T* dots;
};
void visit_dots(const VisitDotArgs<float>& args, int64_t begin, int64_t end);
void visit_dots(const VisitDotArgs<double>& args, int64_t begin, int64_t end);

/// y[to[e]] += weight[e] x[from[e]], on the columns `first` … `last`-1 of rows of `width`.
template <class T>
struct VisitAddArgs {
  const uint32_t* to;
  const uint32_t* from;
  const T* weight;
  const T* x;
  T* y;
  int64_t width, first, last;
};
void visit_add(const VisitAddArgs<float>& args, int64_t begin, int64_t end);
void visit_add(const VisitAddArgs<double>& args, int64_t begin, int64_t end);

}  // namespace topomask
