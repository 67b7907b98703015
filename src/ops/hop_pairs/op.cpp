#include "ops/hop_pairs/op.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include "core/checks.h"
#include "ops/call.h"

namespace topomask::ops::hop_pairs {

using at::Tensor;
using at::TensorList;

TableTensors::TableTensors(const char* name, TensorList tensors) {
  const char* op = "hop_pairs";
  TORCH_CHECK(tensors.size() == 5, op, ": ", name,
              " must be a list of 5 tensors (offsets, columns, feature_offsets, hops, loads), got ", tensors.size());
  const at::Device device = tensors[4].device();
  const auto check = [&](const Tensor& t, const char* part, at::ScalarType dtype, int64_t size) {
    TORCH_CHECK(t.dim() == 1 && t.scalar_type() == dtype && t.device() == device && (size < 0 || t.size(0) == size), op,
                ": ", part, " of ", name, " must be ", dtype, " [", size < 0 ? "any" : std::to_string(size), "] on ",
                device, ", got ", describe(t));
    return t.contiguous();
  };
  TORCH_CHECK(is_real(tensors[4].scalar_type()), op, ": loads of ", name, " must be float32 or float64, got ",
              describe(tensors[4]));
  loads = check(tensors[4], "loads", tensors[4].scalar_type(), -1);
  hops = check(tensors[3], "hops", at::kShort, loads.size(0));
  columns = check(tensors[1], "columns", at::kInt, -1);
  features = check(tensors[2], "feature_offsets", at::kLong, columns.size(0) + 1);
  offsets = check(tensors[0], "offsets", at::kLong, -1);
  TORCH_CHECK(offsets.size(0) >= 1, op, ": offsets of ", name, " must be [rows + 1], got ", describe(offsets));
}

MeetingTensors check_make(TensorList left, TensorList right, TensorList product, int64_t terms) {
  const char* op = "hop_pairs";
  TORCH_CHECK(supports(terms), op, ": terms must be in [1, ", kMostTerms, "], got ", terms);
  TORCH_CHECK(product.size() >= 2, op, ": product must be a list of offsets and columns, got ", product.size());
  MeetingTensors m{{"left", left}, {"right", right}, product[0].contiguous(), product[1].contiguous()};
  TORCH_CHECK(m.left.loads.options().type_equal(m.right.loads.options()), op,
              ": right must have loads as left has, got ", describe(m.right.loads));
  TORCH_CHECK(m.offsets.scalar_type() == at::kLong && m.offsets.sizes() == m.left.offsets.sizes() &&
                  m.offsets.device() == m.left.loads.device(),
              op, ": product must have int64 offsets [", m.left.offsets.size(0), "] on ", m.left.loads.device(),
              ", as the rows of left say, got ", describe(m.offsets));
  TORCH_CHECK(m.columns.dim() == 1 && m.columns.scalar_type() == at::kInt && m.columns.device() == m.offsets.device(),
              op, ": product must have int32 columns on ", m.offsets.device(), ", got ", describe(m.columns));
  return m;
}

void check_lists(const char* op, const Tensor& like, const char* name, const Tensor& offsets, const Tensor& pairs,
                 const Tensor& sums) {
  TORCH_CHECK(like.dim() == 2 && is_real(like.scalar_type()), op, ": ", name,
              " must be float32 or float64 with two dimensions, got ", describe(like));
  TORCH_CHECK(offsets.dim() == 1 && offsets.scalar_type() == at::kInt && offsets.size(0) >= 1 &&
                  offsets.device() == like.device() && offsets.is_contiguous(),
              op, ": offsets must be contiguous int32 [entries + 1] on ", like.device(), ", got ", describe(offsets));
  TORCH_CHECK(
      pairs.dim() == 1 && pairs.scalar_type() == at::kByte && pairs.device() == like.device() && pairs.is_contiguous(),
      op, ": pairs must be contiguous uint8 on ", like.device(), ", got ", describe(pairs));
  TORCH_CHECK(sums.sizes() == pairs.sizes() && sums.scalar_type() == like.scalar_type() &&
                  sums.device() == like.device() && sums.is_contiguous(),
              op, ": sums must be contiguous ", like.scalar_type(), " [", pairs.size(0), "] on ", like.device(),
              ", got ", describe(sums));
}

Three make(TensorList left, TensorList right, TensorList product, int64_t terms, int64_t most) {
  using Signature = Three(TensorList, TensorList, TensorList, int64_t, int64_t);
  return call<"hop_pairs", Signature>(left, right, product, terms, most);
}

Tensor values(const Tensor& g, const Tensor& offsets, const Tensor& pairs, const Tensor& sums) {
  using Signature = Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&);
  return call<"hop_pair_values", Signature>(g, offsets, pairs, sums);
}

Tensor backward(const Tensor& grad, const Tensor& offsets, const Tensor& pairs, const Tensor& sums, c10::SymInt count) {
  using Signature = Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&, c10::SymInt);
  return call<"hop_pair_values_backward", Signature>(grad, offsets, pairs, sums, std::move(count));
}

Tensor pair_products(const Tensor& f, double scale) {
  const int64_t terms = f.size(-1);
  const Tensor both = at::tril_indices(terms, terms, 0, at::TensorOptions(at::kLong).device(f.device()));
  return f.index_select(-1, both[0]) * f.index_select(-1, both[1]) * scale;
}

namespace {

Tensor values_meta(const Tensor& g, const Tensor& offsets, const Tensor&, const Tensor&) {
  return at::empty_symint({g.sym_size(0), offsets.sym_size(0) - 1}, g.options());
}

Tensor backward_meta(const Tensor& grad, const Tensor&, const Tensor&, const Tensor&, c10::SymInt count) {
  return at::empty_symint({grad.sym_size(0), std::move(count)}, grad.options());
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.def(
      "hop_pairs(Tensor[] left, Tensor[] right, Tensor[] product, int terms, int most) "
      "-> (Tensor offsets, Tensor pairs, Tensor sums)");
  m.def("hop_pair_values(Tensor g, Tensor offsets, Tensor pairs, Tensor sums) -> Tensor");
  m.def("hop_pair_values_backward(Tensor grad, Tensor offsets, Tensor pairs, Tensor sums, SymInt count) -> Tensor");
}

TORCH_LIBRARY_IMPL(topomask, Meta, m) {
  m.impl("hop_pair_values", values_meta);
  m.impl("hop_pair_values_backward", backward_meta);
}

}  // namespace topomask::ops::hop_pairs
