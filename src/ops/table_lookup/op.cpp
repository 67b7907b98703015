#include "ops/table_lookup/op.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include "core/checks.h"
#include "ops/call.h"

namespace topomask::ops::table_lookup {

using at::Tensor;

namespace {

void check_index(const char* op, const Tensor& index, at::Device device) {
  TORCH_CHECK(index.scalar_type() == at::kShort && index.device() == device, op, ": index must be int16 on ", device,
              ", got ", describe(index));
}

}  // namespace

void check_lookup(const Tensor& table, const Tensor& index) {
  TORCH_CHECK(table.dim() == 2 && table.size(1) >= 1 && is_real(table.scalar_type()),
              "table_lookup: table must be float32 or float64 [H, K], K >= 1, got ", describe(table));
  check_index("table_lookup", index, table.device());
}

void check_sums(const Tensor& grad, const Tensor& index, int64_t size) {
  TORCH_CHECK(is_real(grad.scalar_type()) && grad.dim() == index.dim() + 1 && grad.sizes().slice(1) == index.sizes(),
              "table_sums: grad must be float32 or float64, [H, ...] with the shape of index ", index.sizes(),
              " after the heads, got ", describe(grad));
  check_index("table_sums", index, grad.device());
  TORCH_CHECK(size >= 1, "table_sums: size must be >= 1, got ", size);
}

Tensor lookup(const Tensor& table, const Tensor& index) {
  using Signature = Tensor(const Tensor&, const Tensor&);
  return table.dim() == 1 ? call<"table_lookup", Signature>(table.unsqueeze(0), index).squeeze(0)
                          : call<"table_lookup", Signature>(table, index);
}

Tensor sums(const Tensor& grad, const Tensor& index, c10::SymInt size) {
  return call<"table_sums", Tensor(const Tensor&, const Tensor&, c10::SymInt)>(grad, index, std::move(size));
}

namespace {

Tensor table_lookup_meta(const Tensor& table, const Tensor& index) {
  return at::empty_symint(with_heads(table.sym_size(0), index.sym_sizes()), table.options());
}

Tensor table_sums_meta(const Tensor& grad, const Tensor&, c10::SymInt size) {
  return at::empty_symint({grad.sym_size(0), std::move(size)}, grad.options());
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.def("table_lookup(Tensor table, Tensor index) -> Tensor");
  m.def("table_sums(Tensor grad, Tensor index, SymInt size) -> Tensor");
}

TORCH_LIBRARY_IMPL(topomask, Meta, m) {
  m.impl("table_lookup", table_lookup_meta);
  m.impl("table_sums", table_sums_meta);
}

}  // namespace topomask::ops::table_lookup
