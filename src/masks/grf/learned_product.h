#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "core/internal_api.h"
#include "topomask/sparse.h"
#include "topomask/walks.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// Values of Φ̂Φ̂ᵀ over one table of walks while f is learned, from what stays the same meanwhile: lists of hop pairs
/// (ops/hop_pairs) where walks meet in few of them, with no product of sparse matrices; otherwise, on a GPU, the places
/// of products (ops/placed_gram).
///
/// Either is made when the first values with a gradient are asked for, and takes about as long as one product and its
/// gradient; making it later would change values by rounding in the middle of training. It belongs to the table and not
/// to a mask, because models make a mask over the same table in every forward pass.
class LearnedProduct {
 public:
  /// `loads`: values that lists are made from; nobody else writes to them.
  explicit LearnedProduct(at::Tensor loads) : loads_(std::move(loads)) {}

  /// Whether masks Φ̂Φ̂ᵀ over `walks` with `terms` coefficients can be served: loads are constant, terms are few.
  static bool supports(const WalkTable& walks, int64_t terms);

  /// That of the table and the values its loads have (walks/kept_loads.h), made at the first call. It is dropped by the
  /// next call once the table is gone or its loads have changed.
  static std::shared_ptr<LearnedProduct> of(const WalkTable& walks, int64_t terms);

  /// Values at the entries of `product` for f [K] or [H, K], recording a gradient: [entries] or [H, entries]. Undefined
  /// where they are to come from sparse_gram, because lists or places would take more memory than the
  /// pattern of the product with its transpose does.
  at::Tensor values(const WalkTable& walks, const SparsePattern& product, const at::Tensor& f);

  bool has_lists() const { return state_ == State::lists; }
  bool has_places() const { return state_ == State::places; }

 private:
  enum class State { waiting, lists, places, refused };
  State prepared(const WalkTable& walks, const SparsePattern& product, int64_t terms);

  std::mutex mutex_;
  std::atomic<State> state_ = State::waiting;
  at::Tensor loads_;                   // until lists are made or refused
  at::Tensor offsets_, pairs_, sums_;  // lists
  at::Tensor starts_, places_;
};

}  // namespace topomask
