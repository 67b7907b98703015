#include "masks/grf/debiased.h"

#include <ATen/ATen.h>

#include "core/move.h"
#include "masks/grf/product_mask.h"
#include "masks/grf/walk_function.h"
#include "walks/kept_loads.h"

namespace topomask {
namespace {

/// The number of the loads that a table has now.
int64_t loads_of(const WalkTable& walks) {
  return KeptLoads::of(walks)->current(walks.loads()).number;
}

/// The group products as a sparse matrix [N, T²]: fᵀG_i f is its row i times the vector of all f_t f_u.
struct GroupForm {
  explicit GroupForm(const WalkTable& walks) : loads(loads_of(walks)) {
    const at::Tensor hops = walks.product_hops().to(at::kLong), t = hops.select(1, 0), u = hops.select(1, 1);
    length = hops.numel() == 0 ? 1 : hops.max().item<int64_t>() + 1;
    // Pairs t < u are stored once and count twice.
    matrix = {std::make_shared<SparsePattern>(walks.num_nodes(), length * length, walks.product_offsets(),
                                              (t * length + u).to(at::kInt)),
              walks.product_values() * (1 + (t != u).to(walks.dtype()))};
  }

  /// fᵀG_i f: [N], or [H, N] for f [H, K].
  at::Tensor quadratic_form(const at::Tensor& f) const {
    const int64_t known = std::min(f.size(-1), length);
    const at::Tensor g = at::constant_pad_nd(f.narrow(-1, 0, known), {0, length - known});
    const at::Tensor pairs = (g.unsqueeze(-1) * g.unsqueeze(-2)).reshape({-1, length * length});
    const at::Tensor form = topomask::matmul(matrix, pairs.mT()).mT();
    return f.dim() == 1 ? form.squeeze(0) : form;
  }

  int64_t loads;       ///< the number of those that the products were made from
  int64_t length = 1;  ///< T: hops that occur
  SparseMatrix matrix;
};

/// Σ_c A_ic²: [N] or [H, N].
at::Tensor squared_row_norms(const PatternPtr& pattern, const at::Tensor& values) {
  std::vector<int64_t> shape = values.sizes().slice(0, values.dim() - 1).vec();
  shape.insert(shape.end(), {pattern->cols(), 1});
  const at::Tensor ones = at::ones(shape, values.options().requires_grad(false));
  return topomask::matmul({pattern, values.square()}, ones).squeeze(-1);
}

class DebiasedGrfMask final : public ProductMask {
 public:
  DebiasedGrfMask(std::string name, WalkTable walks, GroupForm products, at::Tensor f)
      : ProductMask(std::move(name), walks.pattern(), nullptr, {f}, function_heads(f)),
        walks_(std::move(walks)),
        products_(std::move(products)) {}

  MaskPtr rebuild(const std::vector<at::Tensor>& parameters) const override {
    return std::make_shared<DebiasedGrfMask>(name(), walks_, products_, parameters[0]);
  }
  MaskPtr to(const at::TensorOptions& target) const override {
    if (is_at(walks_.loads(), target)) return shared_from_this();
    const WalkTable walks = walks_.to(target);
    return std::make_shared<DebiasedGrfMask>(name(), walks, GroupForm(walks), parameters()[0].to(target));
  }

 protected:
  Parts parts(const std::vector<at::Tensor>& parameters) const override {
    TORCH_CHECK(
        loads_of(walks_) == products_.loads,
        "grf_mask: loads of walks with a debiased diagonal must be those that the mask was made with, got others; "
        "the products of groups that the diagonal takes are those of the sampled loads");
    const at::Tensor f = heads() == 1 ? parameters[0].reshape({-1}) : parameters[0];
    const at::Tensor values = feature_values(walk_features, walks_, f, heads());
    const auto n = static_cast<double>(walks_.walkers()), pairs = static_cast<double>(walks_.independent_pairs());
    const at::Tensor shared = squared_row_norms(walks_.pattern(), values);
    return {.left = values, .diagonal = shared * (n * n / pairs - 1) - products_.quadratic_form(f) / pairs};
  }
  std::vector<at::Tensor> compared() const override { return with_seen_loads(parameters(), {walks_}); }
  double parts_work() const override {
    return feature_work(walks_) +
           static_cast<double>(walks_.pattern()->entries() + products_.matrix.pattern->entries());
  }
  bool has_diagonal() const override { return true; }

 private:
  WalkTable walks_;
  GroupForm products_;
};

}  // namespace

MaskPtr debiased_grf_mask(std::string name, const WalkTable& walks, const at::Tensor& f) {
  TORCH_CHECK(walks.groups() >= 2,
              "grf_mask: the debiased diagonal must have at least two independent groups of walkers, "
              "got ",
              walks.groups(), "; use more walkers or smaller ensembles, or two independent tables");
  TORCH_CHECK(walks.has_group_products(),
              "grf_mask: the debiased diagonal must have walks sampled with group_products, got walks without");
  return std::make_shared<DebiasedGrfMask>(std::move(name), walks, GroupForm(walks), f);
}

}  // namespace topomask
