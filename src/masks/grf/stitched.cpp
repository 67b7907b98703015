#include <ATen/ATen.h>

#include "core/move.h"
#include "core/pull_back.h"
#include "core/tensor_cache.h"
#include "masks/grf/walk_function.h"
#include "sparse/product.h"
#include "sparse/product_estimate.h"
#include "sparse/sddmm.h"
#include "topomask/grf.h"

namespace topomask {
namespace {

/// What does not depend on f: the tables and, once asked for, the patterns of the partial products.
class Chain {
 public:
  Chain(std::vector<WalkTable> tables, const StitchOptions& options) : tables_(std::move(tables)), options_(options) {
    std::vector<PatternPtr> factors;
    for (const WalkTable& table : tables_) factors.push_back(table.pattern());
    estimate_ = estimate_product(factors);
  }

  const std::vector<WalkTable>& tables() const { return tables_; }
  const StitchOptions& options() const { return options_; }
  const ProductEstimate& estimate() const { return estimate_; }
  bool offers_sparse() const { return estimate_.entries <= static_cast<double>(options_.max_sparse_entries); }

  /// Π A_iB_iᵀ, pair by pair.
  SparseMatrix product(const std::vector<at::Tensor>& values) const {
    std::call_once(once_, [this] {
      const c10::InferenceMode ordinary(false);
      make_patterns();
    });
    SparseMatrix whole = pair(values, 0);
    for (size_t i = 1; i < pairs_.size(); ++i) {
      const SparseMatrix next = pair(values, i);
      const auto& t = next.pattern->transposed();
      whole = {whole_[i - 1],
               sparse_product(whole, {flipped_[i - 1], next.values.index_select(-1, t.index)}, *whole_[i - 1])};
    }
    return whole;
  }

 private:
  SparseMatrix pair(const std::vector<at::Tensor>& values, size_t i) const {
    const SparseMatrix a{tables_[2 * i].pattern(), values[2 * i]}, b{tables_[2 * i + 1].pattern(), values[2 * i + 1]};
    return {pairs_[i], sparse_product(a, b, *pairs_[i])};
  }

  void make_patterns() const {
    for (size_t i = 0; i < tables_.size(); i += 2) {
      pairs_.push_back(tables_[i].pattern()->product(tables_[i + 1].pattern()));
    }
    PatternPtr whole = pairs_[0];
    for (size_t i = 1; i < pairs_.size(); ++i) {
      const auto& t = pairs_[i]->transposed();
      flipped_.push_back(std::make_shared<SparsePattern>(pairs_[i]->cols(), pairs_[i]->rows(), t.offsets, t.columns));
      whole_.push_back(whole = whole->product(flipped_.back()));
    }
  }

  std::vector<WalkTable> tables_;
  StitchOptions options_;
  ProductEstimate estimate_;
  mutable std::once_flag once_;
  mutable std::vector<PatternPtr> pairs_;    // A_iB_iᵀ
  mutable std::vector<PatternPtr> flipped_;  // B_iA_iᵀ for i ≥ 1
  mutable std::vector<PatternPtr> whole_;    // the product up to pair i ≥ 1
};

class StitchedGrfMask final : public Mask {
 public:
  StitchedGrfMask(std::shared_ptr<const Chain> chain, at::Tensor f)
      : chain_(std::move(chain)), f_(std::move(f)), parameters_(walk_parameters({f_}, chain_->tables())) {}

  std::string name() const override { return "grf, stitched"; }
  int64_t size() const override { return tables().front().num_nodes(); }
  int64_t heads() const override { return function_heads(f_); }
  std::optional<at::ScalarType> dtype() const override { return f_.scalar_type(); }
  std::vector<at::Tensor> parameters() const override { return parameters_; }

  MaskCounts counts() const override {
    const auto n = static_cast<double>(size());
    double entries = 0, work = 0;
    for (const WalkTable& table : tables()) {
      entries += static_cast<double>(table.pattern()->entries());
      work += feature_work(table);
    }
    MaskCounts counts{.operator_work = entries, .dense_work = entries * n};
    if (chain_->offers_sparse()) {
      counts.sparse_entries = chain_->estimate().entries;
      counts.factor_entries = chain_->estimate().entries + n;
      counts.values_work = TensorCache::serves(parameters_) ? 0 : work + chain_->estimate().work * kScatteredUpdate;
    }
    return counts;
  }

  std::optional<SparseMatrix> sparse() const override {
    if (!chain_->offers_sparse()) return std::nullopt;
    const auto compute = [&](const std::vector<at::Tensor>& parameters) {
      SparseMatrix product = chain_->product(features(parameters));
      const std::lock_guard lock(mutex_);
      pattern_ = product.pattern;
      return std::vector<at::Tensor>{product.values};
    };
    const at::Tensor values = values_.get(compared(), compute)[0];
    const std::lock_guard lock(mutex_);
    return SparseMatrix{pattern_, values};
  }

  MaskPtr rebuild(const std::vector<at::Tensor>& parameters) const override {
    if (parameters.size() == 1) return std::make_shared<StitchedGrfMask>(chain_, parameters[0]);
    auto chain = std::make_shared<Chain>(tables_of(tables(), parameters, 1), chain_->options());
    return std::make_shared<StitchedGrfMask>(std::move(chain), parameters[0]);
  }
  MaskPtr to(const at::TensorOptions& target) const override {
    if (is_at(f_, target)) return shared_from_this();
    std::vector<WalkTable> others;
    for (const WalkTable& table : tables()) others.push_back(table.to(target));
    return std::make_shared<StitchedGrfMask>(std::make_shared<Chain>(std::move(others), chain_->options()),
                                             f_.to(target));
  }

  at::Tensor apply(const at::Tensor& x) const override {
    const auto factors = current();
    at::Tensor y = x;
    for (size_t k = factors.size(); k-- > 0;) y = factor(factors, k, y, false);
    return y;
  }

  at::Tensor apply_transposed(const at::Tensor& x) const override {
    const auto factors = current();
    at::Tensor y = x;
    for (size_t k = 0; k < factors.size(); ++k) y = factor(factors, k, y, true);
    return y;
  }

  std::vector<at::Tensor> parameter_gradients(const at::Tensor& x, const at::Tensor& grad) const override {
    const auto factors = current();
    // behind[k]: what factor k is applied to.
    std::vector<at::Tensor> behind(factors.size()), cotangents;
    at::Tensor y = x, g = grad;
    for (size_t k = factors.size(); k-- > 0;) {
      behind[k] = y;
      y = factor(factors, k, y, false);
    }
    for (size_t k = 0; k < factors.size(); ++k) {
      const SparsePattern& pattern = *tables()[k].pattern();
      cotangents.push_back(k % 2 == 0 ? sddmm(g, behind[k], pattern, heads()) : sddmm(behind[k], g, pattern, heads()));
      g = factor(factors, k, g, true);
    }
    return pull_back(parameters_, cotangents, [this](const auto& parameters) { return features(parameters); });
  }

 private:
  const std::vector<WalkTable>& tables() const { return chain_->tables(); }
  std::vector<at::Tensor> compared() const { return with_seen_loads(parameters_, tables()); }

  std::vector<at::Tensor> features(const std::vector<at::Tensor>& parameters) const {
    std::vector<at::Tensor> values;
    for (const WalkTable& table : tables_of(tables(), parameters, 1)) {
      values.push_back(feature_values(walk_features, table, parameters[0], heads()));
    }
    return values;
  }

  std::vector<at::Tensor> current() const {
    return features_.get(compared(), [this](const auto& parameters) { return features(parameters); });
  }

  /// Factor k of the product, A_i for k = 2i and B_iᵀ for k = 2i + 1, or its transpose, times x.
  at::Tensor factor(const std::vector<at::Tensor>& values, size_t k, const at::Tensor& x, bool transposed) const {
    const SparseMatrix matrix{tables()[k].pattern(), values[k]};
    return (k % 2 == 1) == transposed ? topomask::matmul(matrix, x) : topomask::matmul_transposed(matrix, x);
  }

  std::shared_ptr<const Chain> chain_;
  at::Tensor f_;
  std::vector<at::Tensor> parameters_;
  TensorCache features_, values_;
  mutable std::mutex mutex_;
  mutable PatternPtr pattern_;
};

}  // namespace

MaskPtr stitched_grf_mask(const std::vector<WalkTable>& walks, const at::Tensor& f, const StitchOptions& options) {
  TORCH_CHECK(!walks.empty() && walks.size() % 2 == 0,
              "stitched_grf_mask: walks must be an even number of tables, two for each factor, got ", walks.size());
  TORCH_CHECK(options.max_sparse_entries >= 0, "stitched_grf_mask: max_sparse_entries must be >= 0, got ",
              options.max_sparse_entries);
  for (size_t i = 0; i < walks.size(); ++i) {
    check_function("stitched_grf_mask", "f", f, walks[i]);
    TORCH_CHECK(walks[i].num_nodes() == walks[0].num_nodes(), "stitched_grf_mask: walks must all have ",
                walks[0].num_nodes(), " nodes, got ", walks[i].num_nodes(), " in table ", i);
    for (size_t j = 0; j < i; ++j) {
      TORCH_CHECK(!share_walkers(walks[i], walks[j]),
                  "stitched_grf_mask: walks must be independent tables: another seed, or walkers from another "
                  "first_walker on; got the same in tables ",
                  j, " and ", i);
    }
  }
  if (walks.size() == 2) return grf_mask(walks[0], walks[1], f);
  return std::make_shared<StitchedGrfMask>(std::make_shared<Chain>(walks, options), f);
}

}  // namespace topomask
