#include "topomask/per_head.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <mutex>

#include "masks/interface/mask_answers.h"

namespace topomask {
namespace {

/// Where the entries of several patterns over the same rows stand in their union.
struct Union {
  PatternPtr pattern;
  std::vector<at::Tensor> places;  // int64 [entries] of each
};

/// row·cols + column of every entry: ascending, as patterns are ordered.
at::Tensor keys(const SparsePattern& pattern) {
  const at::Tensor rows = at::arange(pattern.rows(), pattern.offsets().options());
  return rows.repeat_interleave(pattern.offsets().diff()) * pattern.cols() + pattern.columns();
}

/// What tiles of several masks have in common, where they are of one kind over one structure.
struct CommonTiles {
  TileKind kind;
  double rank;
};

/// What does not depend on the parameters, made on first use and shared by every mask over the same structures.
struct Shared {
  std::mutex mutex;
  std::optional<Union> joined;
  std::optional<std::optional<CommonTiles>> tiles;
};

Union unite(const std::vector<SparseMatrix>& matrices) {
  const int64_t rows = matrices[0].pattern->rows(), cols = matrices[0].pattern->cols();
  std::vector<at::Tensor> all;
  for (const SparseMatrix& matrix : matrices) all.push_back(keys(*matrix.pattern));
  const at::Tensor merged = std::get<0>(at::_unique2(at::cat(all)));  // sorted
  const at::Tensor counts = at::bincount(merged.div(cols, "floor"), {}, rows);
  Union result;
  for (const at::Tensor& k : all) result.places.push_back(at::searchsorted(merged, k));
  result.pattern = std::make_shared<SparsePattern>(rows, cols, at::constant_pad_nd(counts.cumsum(0), {1, 0}),
                                                   merged.remainder(cols).to(at::kInt));
  return result;
}

std::optional<CommonTiles> common_tiles(const std::vector<MaskPtr>& masks) {
  const auto first = masks[0]->tiles();
  if (!first) return std::nullopt;
  const auto alike = [](const at::Tensor& a, const at::Tensor& b, bool equal) {
    if (!a.defined() || !b.defined()) return a.defined() == b.defined();
    return a.sizes() == b.sizes() && (!equal || a.is_same(b) || a.equal(b));
  };
  for (size_t h = 1; h < masks.size(); ++h) {
    const auto own = masks[h]->tiles();
    if (!own || own->kind != first->kind || own->shift != first->shift || own->globals != first->globals ||
        !alike(own->values, first->values, false) || !alike(own->right, first->right, false) ||
        !alike(own->index, first->index, true)) {
      return std::nullopt;
    }
  }
  const bool factors = first->kind == TileKind::factors;
  return CommonTiles{first->kind, factors ? static_cast<double>(first->values.size(-1)) : 0.0};
}

/// The dtype or device of the first mask that has one; the others follow it.
template <class Property>
auto first_given(const std::vector<MaskPtr>& masks, const Property& property) {
  auto given = property(*masks[0]);
  for (size_t h = 1; h < masks.size() && !given; ++h) given = property(*masks[h]);
  return given;
}

template <class Property>
void check_alike(const char* what, const std::vector<MaskPtr>& masks, const Property& property) {
  const auto given = first_given(masks, property);
  for (size_t h = 0; h < masks.size(); ++h) {
    const auto own = property(*masks[h]);
    TORCH_CHECK(!own || *own == *given, "per_head_mask: masks must have one ", what, ", got ", *given, " and ", *own,
                " in masks[", h, "]");
  }
}

class PerHeadMask final : public Mask {
 public:
  PerHeadMask(std::vector<MaskPtr> masks, std::shared_ptr<Shared> shared)
      : masks_(std::move(masks)), shared_(std::move(shared)) {}

  std::string name() const override { return masks_[0]->name() + " per head"; }
  int64_t size() const override { return masks_[0]->size(); }
  int64_t heads() const override { return std::ssize(masks_); }
  std::optional<at::ScalarType> dtype() const override {
    return first_given(masks_, [](const Mask& mask) { return mask.dtype(); });
  }
  std::optional<at::Device> device() const override {
    return first_given(masks_, [](const Mask& mask) { return mask.device(); });
  }

  std::vector<at::Tensor> parameters() const override {
    std::vector<at::Tensor> all;
    for (const MaskPtr& mask : masks_) {
      const auto own = mask->parameters();
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }

  MaskCounts counts() const override {
    const auto h = static_cast<double>(heads()), n = static_cast<double>(size());
    MaskCounts mean;
    double entries = 0;
    bool sparse = true;
    for (const MaskPtr& mask : masks_) {
      const MaskCounts own = mask->counts();
      mean.operator_work += own.operator_work / h;
      mean.values_work += own.values_work / h;
      mean.dense_work += own.dense_work / h + n * n / h;
      sparse = sparse && own.sparse_entries;
      entries += own.sparse_entries.value_or(0);
    }
    if (sparse) {
      const std::lock_guard lock(shared_->mutex);
      // Patterns of one kind over one graph overlap, and no union is larger than the matrix.
      mean.sparse_entries = shared_->joined ? static_cast<double>(shared_->joined->pattern->entries())
                                            : std::min(entries / h * 1.5, n * n);
      mean.factor_entries = *mean.sparse_entries + n;  // M and I
      mean.values_work += *mean.sparse_entries;
    }
    if (const auto tiles = tiles_in_common()) {
      mean.tiles = tiles->kind;
      mean.tile_rank = tiles->rank;
    }
    return mean;
  }

  std::optional<MaskTiles> tiles() const override {
    if (!tiles_in_common()) return std::nullopt;
    MaskTiles all = *masks_[0]->tiles();
    std::vector<at::Tensor> values{all.values}, right{all.right};
    for (size_t h = 1; h < masks_.size(); ++h) {
      const MaskTiles own = *masks_[h]->tiles();
      values.push_back(own.values);
      right.push_back(own.right);
    }
    if (all.values.defined()) all.values = at::cat(values);
    if (all.right.defined()) all.right = at::cat(right);
    return all;
  }

  std::optional<SparseMatrix> sparse() const override {
    std::vector<SparseMatrix> matrices;
    for (const MaskPtr& mask : masks_) {
      auto matrix = mask->sparse();
      if (!matrix) return std::nullopt;
      matrices.push_back(*std::move(matrix));
    }
    const Union& joined = united(matrices);
    std::vector<at::Tensor> values;
    for (size_t h = 0; h < matrices.size(); ++h) {
      const at::Tensor own = like_the_others(matrices[h].values.reshape({-1}));
      const at::Tensor zeros = at::zeros({joined.pattern->entries()}, own.options().requires_grad(false));
      values.push_back(zeros.index_copy(0, joined.places[h], own));
    }
    return SparseMatrix{joined.pattern, at::stack(values)};
  }

  at::Tensor dense() const override {
    std::vector<at::Tensor> matrices;
    for (const MaskPtr& mask : masks_) matrices.push_back(like_the_others(mask->dense()).reshape({size(), size()}));
    return at::stack(matrices);
  }

  MaskPtr rebuild(const std::vector<at::Tensor>& parameters) const override {
    std::vector<MaskPtr> rebuilt;
    auto first = parameters.begin();
    for (const MaskPtr& mask : masks_) {
      const auto last = first + std::ssize(mask->parameters());
      rebuilt.push_back(mask->rebuild({first, last}));
      if (!rebuilt.back()) return nullptr;
      first = last;
    }
    return std::make_shared<PerHeadMask>(std::move(rebuilt), shared_);
  }
  MaskPtr to(const at::TensorOptions& target) const override {
    std::vector<MaskPtr> moved;
    for (const MaskPtr& mask : masks_) moved.push_back(mask->to(target));
    return moved == masks_ ? shared_from_this() : per_head_mask(moved);
  }

  at::Tensor apply(const at::Tensor& x) const override { return each(x, MaskAnswers::apply); }
  at::Tensor apply_transposed(const at::Tensor& x) const override { return each(x, MaskAnswers::apply_transposed); }
  at::Tensor rows(int64_t first, int64_t count, const at::TensorOptions& like) const override {
    std::vector<at::Tensor> heads;
    for (const MaskPtr& mask : masks_) heads.push_back(MaskAnswers::rows(*mask, first, count, like));
    return at::cat(heads);
  }

  std::vector<at::Tensor> parameter_gradients(const at::Tensor& x, const at::Tensor& grad) const override {
    std::vector<at::Tensor> all;
    for (int64_t h = 0; h < heads(); ++h) {
      const auto own = MaskAnswers::parameter_gradients(*masks_[h], head(x, h), head(grad, h));
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }

 private:
  /// A mask without a dtype or a device of its own, such as none_mask, takes those of the other heads.
  at::Tensor like_the_others(const at::Tensor& tensor) const {
    at::TensorOptions target;
    if (const auto given = dtype()) target = target.dtype(*given);
    if (const auto given = device()) target = target.device(*given);
    return tensor.to(target);
  }

  const Union& united(const std::vector<SparseMatrix>& matrices) const {
    const std::lock_guard lock(shared_->mutex);
    if (!shared_->joined) {
      const c10::InferenceMode ordinary(false);  // what is kept may later be saved for a backward pass
      shared_->joined = unite(matrices);
    }
    return *shared_->joined;
  }

  std::optional<CommonTiles> tiles_in_common() const {
    const std::lock_guard lock(shared_->mutex);
    if (!shared_->tiles) {
      const c10::InferenceMode ordinary(false);
      const at::NoGradGuard no_grad;
      shared_->tiles = common_tiles(masks_);
    }
    return *shared_->tiles;
  }

  static at::Tensor head(const at::Tensor& x, int64_t h) { return x.narrow(1, h, 1).contiguous(); }

  template <class Product>
  at::Tensor each(const at::Tensor& x, const Product& product) const {
    std::vector<at::Tensor> heads;
    for (size_t h = 0; h < masks_.size(); ++h) heads.push_back(product(*masks_[h], head(x, static_cast<int64_t>(h))));
    return at::cat(heads, 1);
  }

  std::vector<MaskPtr> masks_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace

MaskPtr per_head_mask(const std::vector<MaskPtr>& masks) {
  TORCH_CHECK(!masks.empty(), "per_head_mask: masks must be at least one, got none");
  for (size_t h = 0; h < masks.size(); ++h) {
    TORCH_CHECK(masks[h], "per_head_mask: masks[", h, "] must be a mask, got null");
    TORCH_CHECK(masks[h]->heads() == 1, "per_head_mask: masks[", h, "] must have one head, got ", masks[h]->heads());
    TORCH_CHECK(masks[h]->size() == masks[0]->size(), "per_head_mask: masks must have one size, got ", masks[0]->size(),
                " in masks[0] and ", masks[h]->size(), " in masks[", h, "]");
  }
  check_alike("dtype", masks, [](const Mask& mask) { return mask.dtype(); });
  check_alike("device", masks, [](const Mask& mask) { return mask.device(); });
  return masks.size() == 1 ? masks[0] : std::make_shared<PerHeadMask>(masks, std::make_shared<Shared>());
}

}  // namespace topomask
