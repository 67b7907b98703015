#pragma once

#include <cstdint>

// Between features and the columns that a mask is applied to, node by node, on raw pointers, for float and double:
// a [nodes, stride] holds `features` scalars per node, b [nodes, width], x [nodes, features, width].

namespace topomask {

template <class T>
struct ColumnsArgs {
  T* a;
  int64_t stride;
  int64_t features;
  T* b;
  int64_t width;
  T* x;
};

/// x = a ⊗ b.
void outer_columns_rows(const ColumnsArgs<float>& args, int64_t begin, int64_t end);
void outer_columns_rows(const ColumnsArgs<double>& args, int64_t begin, int64_t end);

/// b += Σ_s a_s x[s, :].
void contract_features_rows(const ColumnsArgs<float>& args, int64_t begin, int64_t end);
void contract_features_rows(const ColumnsArgs<double>& args, int64_t begin, int64_t end);

/// a_s = x[s, :] · b.
void contract_values_rows(const ColumnsArgs<float>& args, int64_t begin, int64_t end);
void contract_values_rows(const ColumnsArgs<double>& args, int64_t begin, int64_t end);

}  // namespace topomask
