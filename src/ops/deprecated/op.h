#pragma once

#include <torch/library.h>

namespace topomask::ops::deprecated {

/// Define the overloads `separate`. An operator calls its function after its own definition: Python tries the overloads
/// of a name in the order of their definitions, and words the mismatch of each one before the right one with the
/// contents of every argument, which waits for the device.
void define_spmm(torch::Library& library);
void define_sparse_attention(torch::Library& library);
void define_factored_product(torch::Library& library);
void define_walk_table(torch::Library& library);

/// Says once for each `op` that the tensors of a pattern are one argument of it now, the list `form`.
void warn(const char* op, const char* form = "[offsets, columns, t_offsets, t_columns, t_index]");

}  // namespace topomask::ops::deprecated
