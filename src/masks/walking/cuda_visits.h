#pragma once

#include "topomask/mask.h"
#include "walks/cuda_walks.h"

namespace topomask {

/// The sums over visits of a walking mask on a GPU: walks are sampled again for some rows at a time (and, where they
/// are very many, some of the walkers of a row), whose visits are the entries of a sparse matrix that lives as long as
/// they take. x [B, H, N, C]; f [H, K], divided by the walkers.
class CudaVisits {
 public:
  CudaVisits(const Graph& graph, const WalkOptions& options);

  at::Tensor product(const at::Tensor& f, const at::Tensor& x, bool transposed) const;
  /// ∂⟨grad, M·x⟩/∂f
  at::Tensor function_gradient(const at::Tensor& f, const at::Tensor& x, const at::Tensor& grad) const;
  /// (M ⊙ A Bᵀ) C, with Mᵀ where `transposed`.
  at::Tensor masked_product(const at::Tensor& f, const at::Tensor& a, const at::Tensor& b, const at::Tensor& c,
                            bool transposed) const;
  /// In A, B, C and f.
  MaskedProductGradients masked_product_backward(const at::Tensor& f, const at::Tensor& a, const at::Tensor& b,
                                                 const at::Tensor& c, const at::Tensor& grad) const;

 private:
  struct Rows;
  template <class F>
  void for_rows(const F& f) const;

  CudaWalks walks_;
  int64_t nodes_;
  int64_t walkers_;
  int64_t rows_at_once_, walkers_at_once_;
};

}  // namespace topomask
