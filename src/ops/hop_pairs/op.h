#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "core/internal_api.h"

// The values of Φ̂Φ̂ᵀ as a quadratic form in f. With Φ̂ = Σ_t f_t R_t an entry is Σ f_t f_u Σ_c R_t[i, c] R_u[j, c]. The
// inner sums do not depend on f, and short walks meet in few pairs of hops {t, u}: two an entry with four walkers that
// halt at every other node. The lists of an entry's pairs with their sums are made once, by `make`; after that values
// and gradients are one pass over them, for all heads, and neither Φ̂ nor its gradient is formed.

namespace TOPOMASK_INTERNAL_API topomask {
namespace ops::hop_pairs {

/// The number of the unordered pair {t, u} among all, by its larger hop: the same however many hops there are.
constexpr int64_t pair_number(int64_t t, int64_t u) {
  return t < u ? u * (u + 1) / 2 + t : t * (t + 1) / 2 + u;
}
constexpr int64_t pair_count(int64_t terms) {
  return terms * (terms + 1) / 2;
}
/// The most coefficients that f may have: pairs are stored as bytes.
inline constexpr int64_t kMostTerms = 22;
/// Whether the operators take an f of so many coefficients.
constexpr bool supports(int64_t terms) {
  return terms >= 1 && terms <= kMostTerms;
}

/// Offsets int32 [entries + 1], numbers of pairs uint8 [L] and their sums [L] for each entry of `product`, offsets and
/// columns of a pattern. A side is a table of walks: offsets int64 [rows + 1] and columns int32 of its features, the
/// triples of each by feature_offsets int64, hops int16 and loads [T]. Hops from `terms` on are left out. Where the
/// lists would be longer than `most` in all, they are not made, and all three come back empty. Their length is read
/// back where they are on a GPU. The operator `hop_pairs`.
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
Three make(at::TensorList left, at::TensorList right, at::TensorList product, int64_t terms, int64_t most);

/// Σ g[h, pair]·sum over the list of each entry: g [H, pairs] → [H, entries]. Linear in g and differentiable once
/// there; the same for any number of threads. The operator `hop_pair_values`.
at::Tensor values(const at::Tensor& g, const at::Tensor& offsets, const at::Tensor& pairs, const at::Tensor& sums);

/// The gradient in g, [H, count], for grad [H, entries]: the operator `hop_pair_values_backward`.
at::Tensor backward(const at::Tensor& grad, const at::Tensor& offsets, const at::Tensor& pairs, const at::Tensor& sums,
                    c10::SymInt count);

/// g [H, pairs] of f [H, terms]: scale·f_t·f_u. Differentiable.
at::Tensor pair_products(const at::Tensor& f, double scale);

// What the implementations share.

struct TableTensors {
  TableTensors(const char* name, at::TensorList tensors);
  at::Tensor offsets, columns, features, hops, loads;
};
struct MeetingTensors {
  TableTensors left, right;
  at::Tensor offsets, columns;  ///< of the product
};
MeetingTensors check_make(at::TensorList left, at::TensorList right, at::TensorList product, int64_t terms);
void check_lists(const char* op, const at::Tensor& like, const char* name, const at::Tensor& offsets,
                 const at::Tensor& pairs, const at::Tensor& sums);

}  // namespace ops::hop_pairs
}  // namespace topomask
