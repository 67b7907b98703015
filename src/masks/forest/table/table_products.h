#pragma once

#include <ATen/core/Tensor.h>

#include "masks/forest/structure/bins.h"
#include "masks/forest/structure/decomposition.h"
#include "masks/forest/table/hankel_fft.h"

namespace topomask {

/// The far pairs of a forest under a table over integer distances: what of it does not depend on the table's values.
class TableProducts {
 public:
  /// `entries` K: the table is 0 from there on. Both are kept by reference.
  TableProducts(const Decomposition& decomposition, const Bins& bins, int64_t entries);

  /// y += M_far·x for table [1 or H, K], x and y [B, H, N, C] by position.
  void add_products(const at::Tensor& table, const at::Tensor& x, const at::Tensor& y) const;
  /// ∂⟨g, M_far·x⟩/∂table: float64 [heads, K], summed over heads where `heads` is 1.
  at::Tensor table_gradient(const at::Tensor& x, const at::Tensor& g, int64_t heads) const;

  double work() const { return work_; }  ///< multiply-adds per column

 private:
  /// Some bins that meet each other: those of a group, or those of a component over all groups.
  struct Meeting {
    const int32_t* depth;
    int64_t count;
    int64_t first_row;  ///< in the sums of the component
    bool total;
    std::span<const int32_t> within(int64_t entries) const;  ///< depths that the table reaches
  };

  template <class Visit>
  void for_meetings(int64_t component, const Visit& visit) const;
  double pairs(const Meeting& meeting) const;
  bool by_fft(const Meeting& meeting) const;
  int64_t rows(int64_t component) const;  ///< bins of a component, and those over all groups

  template <class T>
  struct Kernel;
  template <class T>
  void add_tall(const at::Tensor& x, const at::Tensor& y, const at::Tensor& table, std::vector<HankelFft>& ffts,
                int64_t component) const;
  template <class T>
  void add_gradient(int64_t component, const at::Tensor& x, const at::Tensor& g, int64_t slice, bool parallel,
                    std::vector<T>& buffer, double* gradient) const;

  const Decomposition& decomposition_;
  const Bins& bins_;
  int64_t entries_;
  std::vector<bool> tall_;  ///< per component: has a product by FFT
  Schedule schedule_;
  double work_ = 0;
};

}  // namespace topomask
