#include "ops/deprecated/op.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <mutex>
#include <set>
#include <string>

#include "ops/factored_product/op.h"
#include "ops/sparse_attention/op.h"
#include "ops/spmm/op.h"
#include "ops/walk_table/op.h"

// The operators as they were until 0.1, with the tensors of a pattern as arguments of their own: overloads of the same
// names, `separate`, that go with the next release. They make a list of the tensors and call the operator. That of
// sample_walks is in src/walks/op.cpp.

namespace topomask::ops::deprecated {

namespace {

/// Whether it is asked for the first time with this operator.
bool is_first(const char* op) {
  static std::mutex mutex;
  static std::set<std::string> named;
  const std::lock_guard lock(mutex);
  return named.insert(op).second;
}

}  // namespace

void warn(const char* op, const char* form) {
  // TORCH_WARN_ONCE here would be once for all operators: only the first that is called would be named.
  if (!c10::WarningUtils::get_warnAlways() && !is_first(op)) return;
  TORCH_WARN("topomask::", op, ": the tensors of a pattern are one argument now, a list ", form,
             "; the form with separate arguments will be removed");
}

namespace {

using at::Tensor;
using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;
using Optional = const std::optional<Tensor>&;

std::vector<Tensor> listed(std::initializer_list<Tensor> pattern, Optional tiles, Optional t_tiles) {
  std::vector<Tensor> list(pattern);
  if (tiles && t_tiles) list.insert(list.end(), {*tiles, *t_tiles});
  return list;
}

Tensor spmm_separate(const Tensor& values, const Tensor& x, const Tensor& offsets, const Tensor& columns,
                     const Tensor& t_offsets, const Tensor& t_columns, const Tensor& t_index) {
  warn("spmm");
  return spmm::multiply(values, x, {offsets, columns, t_offsets, t_columns, t_index});
}

Tensor spmm_transposed_separate(const Tensor& values, const Tensor& x, const Tensor& offsets, const Tensor& columns,
                                const Tensor& t_offsets, const Tensor& t_columns, const Tensor& t_index) {
  warn("spmm_transposed");
  return spmm::multiply_transposed(values, x, {offsets, columns, t_offsets, t_columns, t_index});
}

Tensor sddmm_separate(const Tensor& a, const Tensor& b, const Tensor& offsets, const Tensor& columns,
                      c10::SymInt value_heads) {
  warn("sddmm");
  return spmm::sddmm(a, b, {offsets, columns}, std::move(value_heads));
}

Two sparse_attention_separate(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values,
                              const Tensor& offsets, const Tensor& columns, const Tensor& t_offsets,
                              const Tensor& t_columns, const Tensor& t_index, double eps, Optional tiles,
                              Optional t_tiles) {
  warn("sparse_attention");
  return sparse_attention::kernel_attention(
      q, k, v, values, listed({offsets, columns, t_offsets, t_columns, t_index}, tiles, t_tiles), eps);
}

Three sparse_softmax_attention_separate(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values,
                                        const Tensor& offsets, const Tensor& columns, const Tensor& t_offsets,
                                        const Tensor& t_columns, const Tensor& t_index, double scale, double eps,
                                        Optional tiles, Optional t_tiles) {
  warn("sparse_softmax_attention");
  return sparse_attention::softmax_attention(
      q, k, v, values, listed({offsets, columns, t_offsets, t_columns, t_index}, tiles, t_tiles), scale, eps);
}

Two factored_product_separate(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& left_values,
                              const Tensor& left_offsets, const Tensor& left_columns, const Tensor& left_t_offsets,
                              const Tensor& left_t_columns, const Tensor& left_t_index, const Tensor& right_values,
                              const Tensor& right_offsets, const Tensor& right_columns, const Tensor& right_t_offsets,
                              const Tensor& right_t_columns, const Tensor& right_t_index) {
  warn("factored_product");
  return factored_product::multiply(
      q, k, v, left_values, {left_offsets, left_columns, left_t_offsets, left_t_columns, left_t_index}, right_values,
      {right_offsets, right_columns, right_t_offsets, right_t_columns, right_t_index});
}

std::vector<Tensor> walk_table_separate(const Tensor& offsets, const Tensor& columns, const Tensor& factors,
                                        Optional threshold, Optional alias, const Tensor& halt_below,
                                        const Tensor& scale, int64_t walkers, int64_t first_walker, int64_t seed,
                                        bool antithetic, int64_t ensemble) {
  warn("walk_table", "[offsets, columns]");
  return walk_table::table({offsets, columns}, factors, threshold, alias, halt_below, scale, walkers, first_walker,
                           seed, antithetic, ensemble);
}

std::vector<Tensor> walk_visits_separate(const Tensor& offsets, const Tensor& columns, const Tensor& factors,
                                         Optional threshold, Optional alias, const Tensor& halt_below,
                                         const Tensor& scale, int64_t walkers, int64_t first_walker, int64_t seed,
                                         bool antithetic, int64_t ensemble, int64_t first, int64_t count) {
  warn("walk_visits", "[offsets, columns]");
  return walk_table::visits({offsets, columns}, factors, threshold, alias, halt_below, scale, walkers, first_walker,
                            seed, antithetic, ensemble, first, count);
}

}  // namespace

void define_spmm(torch::Library& library) {
  library.def(
      "spmm.separate(Tensor values, Tensor x, Tensor offsets, Tensor columns, Tensor t_offsets, Tensor t_columns, "
      "Tensor t_index) -> Tensor");
  library.def(
      "spmm_transposed.separate(Tensor values, Tensor x, Tensor offsets, Tensor columns, Tensor t_offsets, "
      "Tensor t_columns, Tensor t_index) -> Tensor");
  library.def("sddmm.separate(Tensor a, Tensor b, Tensor offsets, Tensor columns, SymInt value_heads) -> Tensor");
}

void define_sparse_attention(torch::Library& library) {
  library.def(
      "sparse_attention.separate(Tensor q, Tensor k, Tensor v, Tensor values, Tensor offsets, Tensor columns, "
      "Tensor t_offsets, Tensor t_columns, Tensor t_index, float eps, Tensor? tiles=None, Tensor? t_tiles=None) "
      "-> (Tensor out, Tensor denominator)");
  library.def(
      "sparse_softmax_attention.separate(Tensor q, Tensor k, Tensor v, Tensor values, Tensor offsets, Tensor columns, "
      "Tensor t_offsets, Tensor t_columns, Tensor t_index, float scale, float eps, Tensor? tiles=None, "
      "Tensor? t_tiles=None) -> (Tensor out, Tensor row_max, Tensor denominator)");
}

void define_factored_product(torch::Library& library) {
  library.def(
      "factored_product.separate(Tensor q, Tensor k, Tensor v, Tensor left_values, Tensor left_offsets, "
      "Tensor left_columns, Tensor left_t_offsets, Tensor left_t_columns, Tensor left_t_index, Tensor right_values, "
      "Tensor right_offsets, Tensor right_columns, Tensor right_t_offsets, Tensor right_t_columns, "
      "Tensor right_t_index) -> (Tensor numerator, Tensor denominator)");
}

void define_walk_table(torch::Library& library) {
  library.def(
      "walk_table.separate(Tensor offsets, Tensor columns, Tensor factors, Tensor? threshold, Tensor? alias, "
      "Tensor halt_below, Tensor scale, int walkers, int first_walker, int seed, bool antithetic, int ensemble) "
      "-> Tensor[]");
  library.def(
      "walk_visits.separate(Tensor offsets, Tensor columns, Tensor factors, Tensor? threshold, Tensor? alias, "
      "Tensor halt_below, Tensor scale, int walkers, int first_walker, int seed, bool antithetic, int ensemble, "
      "int first, int count) -> Tensor[]");
}

TORCH_LIBRARY_IMPL(topomask, CompositeImplicitAutograd, m) {
  m.impl("spmm.separate", spmm_separate);
  m.impl("spmm_transposed.separate", spmm_transposed_separate);
  m.impl("sddmm.separate", sddmm_separate);
  m.impl("sparse_attention.separate", sparse_attention_separate);
  m.impl("sparse_softmax_attention.separate", sparse_softmax_attention_separate);
  m.impl("factored_product.separate", factored_product_separate);
  m.impl("walk_table.separate", walk_table_separate);
  m.impl("walk_visits.separate", walk_visits_separate);
}

}  // namespace topomask::ops::deprecated
