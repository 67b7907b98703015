#include "topomask/global_tokens.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "core/checks.h"
#include "core/ordered_sums.h"
#include "masks/global_tokens/bordered.h"
#include "masks/interface/mask_answers.h"

namespace topomask {
namespace {

/// Bordered patterns of the forms, which do not depend on the parameters.
struct Borders {
  BorderedPattern sparse, left, right;
};

class GlobalTokensMask final : public Mask {
 public:
  GlobalTokensMask(MaskPtr inner, int64_t tokens, std::shared_ptr<const Borders> borders)
      : inner_(std::move(inner)), tokens_(tokens), borders_(std::move(borders)) {}

  std::string name() const override { return inner_->name() + "+global_tokens"; }
  int64_t size() const override { return tokens_ + inner_->size(); }
  int64_t heads() const override { return inner_->heads(); }
  std::optional<at::ScalarType> dtype() const override { return inner_->dtype(); }
  std::vector<at::Tensor> parameters() const override { return inner_->parameters(); }

  MaskCounts counts() const override {
    const auto n = static_cast<double>(size()), g = static_cast<double>(tokens_);
    MaskCounts counts = inner_->counts();
    counts.operator_work += 2 * n;
    if (counts.sparse_entries) {
      counts.values_work += *counts.sparse_entries;
      *counts.sparse_entries += 2 * g * n - g * g;
    }
    if (counts.factor_entries) *counts.factor_entries += counts.dense_factors ? 4 * n : 2 * n + 2 * g;
    counts.dense_work += n * n;
    return counts;
  }

  std::optional<SparseMatrix> sparse() const override {
    const auto matrix = inner_->sparse();
    if (!matrix) return std::nullopt;
    std::vector<int32_t> before(tokens_);
    for (int64_t t = 0; t < tokens_; ++t) before[t] = static_cast<int32_t>(t);
    return borders_->sparse.extend(*matrix,
                                   {.rows = tokens_, .cols = tokens_, .full_columns = size(), .before = before});
  }

  std::optional<Factors> factors() const override {
    const auto factors = inner_->factors();
    if (!factors) return std::nullopt;
    // [1 1; 1 M] = (1,0)(1,1)ᵀ + (0,1)(1,0)ᵀ + (0,Φ₁)(0,Φ₂)ᵀ: two more features.
    if (factors->left.sparse) {
      return Factors{{borders_->left.extend(*factors->left.sparse, {tokens_, 2, 1, {1}}), {}},
                     {borders_->right.extend(*factors->right.sparse, {tokens_, 2, 2, {0}}), {}}};
    }
    return Factors{{std::nullopt, bordered_dense(factors->left.dense, tokens_, {1, 0}, {0, 1})},
                   {std::nullopt, bordered_dense(factors->right.dense, tokens_, {1, 1}, {1, 0})}};
  }

  std::optional<MaskTiles> tiles() const override {
    auto tiles = inner_->tiles();
    if (tiles) tiles->globals += tokens_;
    return tiles;
  }

  std::optional<double> masked_product_work(int64_t features, int64_t value_dim) const override {
    const auto inner = inner_->masked_product_work(features, value_dim);
    if (!inner) return std::nullopt;
    return *inner +
           2.0 * static_cast<double>(tokens_) * static_cast<double>(size()) * static_cast<double>(features + value_dim);
  }

  at::Tensor masked_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c,
                            bool transposed) const override {
    const at::Tensor out = border_product(a, b, c);
    add_to_nodes(out, inner_->masked_product(nodes(a), nodes(b), nodes(c), transposed));
    return out;
  }

  MaskedProductGradients masked_product_backward(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c,
                                                 const at::Tensor& grad, bool want_parameters) const override {
    MaskedProductGradients result{border_product(grad, c, b), border_product(c, grad, a), border_product(b, a, grad)};
    auto inner = inner_->masked_product_backward(nodes(a), nodes(b), nodes(c), nodes(grad), want_parameters);
    add_to_nodes(result.a, inner.a);
    add_to_nodes(result.b, inner.b);
    add_to_nodes(result.c, inner.c);
    result.parameters = std::move(inner.parameters);
    return result;
  }

  at::Tensor dense() const override { return at::constant_pad_nd(inner_->dense(), {tokens_, 0, tokens_, 0}, 1); }

  std::optional<at::Device> device() const override { return inner_->device(); }
  MaskPtr rebuild(const std::vector<at::Tensor>& parameters) const override {
    const MaskPtr inner = inner_->rebuild(parameters);
    return inner ? std::make_shared<GlobalTokensMask>(inner, tokens_, borders_) : nullptr;
  }
  MaskPtr to(const at::TensorOptions& target) const override { return with_global_tokens(inner_->to(target), tokens_); }
  at::Tensor apply(const at::Tensor& x) const override { return bordered(x, MaskAnswers::apply(*inner_, nodes(x))); }
  at::Tensor apply_transposed(const at::Tensor& x) const override {
    return bordered(x, MaskAnswers::apply_transposed(*inner_, nodes(x)));
  }
  at::Tensor rows(int64_t first, int64_t count, const at::TensorOptions& like) const override {
    const at::Tensor rows = at::ones({heads(), count, size()}, like);
    const int64_t above = std::clamp<int64_t>(tokens_ - first, 0, count), below = count - above;
    if (below > 0) {
      rows.narrow(1, above, below)
          .narrow(2, tokens_, inner_->size())
          .copy_(MaskAnswers::rows(*inner_, first + above - tokens_, below, like));
    }
    return rows;
  }
  std::vector<at::Tensor> parameter_gradients(const at::Tensor& x, const at::Tensor& grad) const override {
    return MaskAnswers::parameter_gradients(*inner_, nodes(x), nodes(grad));
  }

 private:
  at::Tensor nodes(const at::Tensor& x) const { return x.narrow(-2, tokens_, inner_->size()).contiguous(); }

  void add_to_nodes(const at::Tensor& all, const at::Tensor& inner) const {
    all.narrow(-2, tokens_, inner_->size()).add_(inner);
  }

  /// (E ⊙ A Bᵀ) C for E = [1 1; 1 0], the ones around the inner mask.
  at::Tensor border_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c) const {
    const auto tokens = [this](const at::Tensor& x) { return x.narrow(-2, 0, tokens_); };
    const at::Tensor above = ordered_matmul(ordered_matmul(tokens(a), b.mT()), c);
    return at::cat({above, ordered_matmul(ordered_matmul(nodes(a), tokens(b).mT()), tokens(c))}, -2);
  }

  at::Tensor bordered(const at::Tensor& x, const at::Tensor& inner) const {
    const at::Tensor total = column_sums(x).expand({x.size(0), x.size(1), tokens_, x.size(3)});
    return at::cat({total, inner + column_sums(x.narrow(-2, 0, tokens_))}, -2);
  }

  MaskPtr inner_;
  int64_t tokens_;
  std::shared_ptr<const Borders> borders_;
};

}  // namespace

MaskPtr with_global_tokens(const MaskPtr& mask, int64_t tokens) {
  TORCH_CHECK(mask != nullptr, "with_global_tokens: mask must be given, got none");
  TORCH_CHECK(tokens >= 0, "with_global_tokens: tokens must be >= 0, got ", tokens);
  constexpr int64_t kMostNodes = std::numeric_limits<int32_t>::max();
  TORCH_CHECK(tokens <= kMostNodes - mask->size(),
              "with_global_tokens: tokens must leave at most 2^31-1 nodes in all, got ", tokens, " in addition to ",
              mask->size(), " nodes");
  return tokens == 0 ? mask : std::make_shared<GlobalTokensMask>(mask, tokens, std::make_shared<Borders>());
}

}  // namespace topomask
