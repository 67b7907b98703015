#pragma once

#include <cstdint>

// The two passes of exp(a·dist + b) over a rooted forest on raw pointers, for float and double: some columns of one
// (batch, head) slice at a time. Entries are those of RootedOrder; rows are by node, or by entry, `stride` scalars
// apart.

namespace topomask {

template <class T>
struct TreePassArgs {
  const int32_t* node;
  const int32_t* parent;  ///< the row of the parent, or −1
  const T* edge;          ///< e_v = exp(a·w_v), by node
  T* y;
  int64_t stride;
  int64_t width;
  bool by_entry = false;  ///< row i of y is that of entry i, else that of a node
};

/// Some columns of a matrix by node, to and from rows by entry.
template <class T>
struct TreeRowsArgs {
  const int32_t* node;
  const T* from;
  T* to;
  int64_t from_stride, to_stride;
  int64_t width;
  T scale;
  bool streaming;  ///< write `to` past the caches; its rows are aligned to 64 bytes
};

/// to[i] = scale·from[node[i]] for entries begin … end−1.
void tree_gather(const TreeRowsArgs<float>& args, int64_t begin, int64_t end);
void tree_gather(const TreeRowsArgs<double>& args, int64_t begin, int64_t end);
/// to[node[i]] = from[i].
void tree_scatter(const TreeRowsArgs<float>& args, int64_t begin, int64_t end);
void tree_scatter(const TreeRowsArgs<double>& args, int64_t begin, int64_t end);

/// Towards the roots, entries end−1 … begin, x in y becoming S: S_v = x_v + Σ_{children c} e_c S_c.
void tree_up(const TreePassArgs<float>& args, int64_t begin, int64_t end);
void tree_up(const TreePassArgs<double>& args, int64_t begin, int64_t end);

/// Away from the roots, entries begin … end−1, S in y becoming R: R_v = e_v R_p + (1 − e_v²)S_v. For e_v ≤ 1.
void tree_down(const TreePassArgs<float>& args, int64_t begin, int64_t end);
void tree_down(const TreePassArgs<double>& args, int64_t begin, int64_t end);

/// What tree_down does in place and by a subtraction, without both: O_v = R_v − S_v, what comes from outside the
/// subtree of v, as O_v = e_v(x_p + O_p + Σ_{siblings s} e_s S_s).
template <class T>
struct OutsideArgs {
  const int32_t* preorder;
  const int32_t* preorder_parent;
  const int32_t* child_offset;
  const int32_t* children;
  const T* edge;
  T scale;  ///< e^b, which x has yet to be multiplied with and S has been
  const T* x;
  const T* inside;  ///< S
  T* outside;       ///< O
  int64_t stride;
  int64_t width;
  T* buffer;  ///< width scalars
};

/// Places begin … end−1 of the preorder; whole trees.
void tree_outside(const OutsideArgs<float>& args, int64_t begin, int64_t end);
void tree_outside(const OutsideArgs<double>& args, int64_t begin, int64_t end);

/// For nodes begin … end−1: edges[v] += ⟨Sx_v, Og_v⟩ + ⟨Sg_v, Ox_v⟩, which is ∂/∂(log e_v), and nodes[v] += ⟨g_v,
/// Rx_v⟩.
template <class T>
struct EdgeGradientArgs {
  const int32_t* parent;
  const T* edge;
  const T* inside_x;
  const T* inside_g;
  const T* other_x;  ///< O, or R
  const T* other_g;
  const T* g;
  int64_t width;
  double* edges;
  double* nodes;
};

/// From O.
void edge_gradients(const EdgeGradientArgs<float>& args, int64_t begin, int64_t end);
void edge_gradients(const EdgeGradientArgs<double>& args, int64_t begin, int64_t end);

/// From R, where e_v ≤ 1: O_v = e_v(R_p − e_v S_v).
void edge_gradients_from_totals(const EdgeGradientArgs<float>& args, int64_t begin, int64_t end);
void edge_gradients_from_totals(const EdgeGradientArgs<double>& args, int64_t begin, int64_t end);

}  // namespace topomask
