#include <ATen/ATen.h>

#include <mutex>

#include "core/move.h"
#include "masks/forest/forest_masks.h"
#include "masks/forest/structure/forest_structure.h"
#include "masks/forest/structure/per_device.h"
#include "masks/forest/structure/positions.h"
#include "masks/forest/table/table_levels.h"
#include "masks/forest/table/table_products.h"

namespace topomask {
namespace {

/// What does not depend on the values of the table.
struct TableStructure {
  TableStructure(const Forest& f, int64_t k)
      : forest(f),
        entries(k),
        positions(f.structure().decomposition()),
        far(f.structure().decomposition(), f.structure().bins(), k) {
    const std::vector<double>& near = f.structure().decomposition().near;
    near_index =
        clamped(at::from_blob(const_cast<double*>(near.data()), {static_cast<int64_t>(near.size())}, at::kDouble));
  }

  /// Distances as places in a table that ends with a 0 at K.
  at::Tensor clamped(const at::Tensor& distances) const {
    return distances.clamp_max(static_cast<double>(entries)).to(at::kLong);
  }

  /// The same for all pairs inside trees, made once.
  const at::Tensor& pair_index() const {
    std::call_once(pairs_once, [this] {
      const c10::InferenceMode ordinary(false);  // what is kept may later be saved for a backward pass
      pairs_index = clamped(forest.structure().pairs().distances);
    });
    return pairs_index;
  }

  /// The same for products on a GPU.
  std::shared_ptr<const TableLevels> levels(at::Device device) const {
    const ForestStructure& from = forest.structure();
    return on_devices.get(device, [&] {
      return std::make_shared<const TableLevels>(from.decomposition(), from.bins(), entries, near_index, device);
    });
  }

  Forest forest;  // keeps what the others refer to
  int64_t entries;
  Positions positions;
  TableProducts far;
  at::Tensor near_index;
  mutable std::once_flag pairs_once;
  mutable at::Tensor pairs_index;
  mutable PerDevice<TableLevels> on_devices;
};

class TableMask final : public Mask {
 public:
  TableMask(std::shared_ptr<const TableStructure> structure, at::Tensor f)
      : structure_(std::move(structure)), f_(std::move(f)) {
    if (!f_.is_cpu()) levels_ = structure_->levels(f_.device());
  }

  std::string name() const override { return "forest_table"; }
  int64_t size() const override { return structure_->forest.num_nodes(); }
  int64_t heads() const override { return f_.dim() == 2 ? f_.size(0) : 1; }
  std::optional<at::ScalarType> dtype() const override { return f_.scalar_type(); }
  std::vector<at::Tensor> parameters() const override { return {f_}; }

  MaskCounts counts() const override {
    const auto n = static_cast<double>(size());
    const double work = structure_->far.work() + static_cast<double>(structure_->near_index.numel()) + 4 * n;
    MaskCounts counts{.operator_work = work, .dense_work = work * n};
    if (offers_sparse()) {
      const double pairs = structure_->forest.structure().pair_count();
      counts.sparse_entries = pairs;
      counts.factor_entries = pairs + n;
      counts.values_work = kLookupWork * pairs;
      counts.dense_work = n * n + kScatterWork * pairs;
    }
    return counts;
  }

  std::optional<SparseMatrix> sparse() const override {
    if (!offers_sparse()) return std::nullopt;
    std::call_once(pairs_once_, [this] {
      const c10::InferenceMode ordinary(false);
      pairs_ = structure_->forest.structure().pairs().pattern->to(f_.device());
      pair_index_ = structure_->pair_index().to(f_.device());
    });
    const at::Tensor values = padded(f_).index_select(1, pair_index_);
    return SparseMatrix{pairs_, heads() == 1 ? values.reshape({-1}) : values};
  }

  at::Tensor dense() const override {
    const auto matrix = sparse();
    return matrix ? matrix->dense() : Mask::dense();
  }

  MaskPtr rebuild(const std::vector<at::Tensor>& parameters) const override {
    return std::make_shared<TableMask>(structure_, parameters[0]);
  }
  MaskPtr to(const at::TensorOptions& target) const override {
    if (is_at(f_, target)) return shared_from_this();
    return std::make_shared<TableMask>(structure_, f_.to(target));
  }

  at::Tensor apply(const at::Tensor& x) const override {
    if (levels_) return levels_->products(padded(f_.detach()), x);
    const at::Tensor table = padded(f_.detach()), by_position = structure_->positions.from_nodes(x);
    const at::Tensor y =
        structure_->positions.near_products(table.index_select(1, structure_->near_index), by_position);
    structure_->far.add_products(table.narrow(1, 0, structure_->entries).contiguous(), by_position, y);
    return structure_->positions.to_nodes(y);
  }

  at::Tensor apply_transposed(const at::Tensor& x) const override { return apply(x); }  // M is symmetric

  std::vector<at::Tensor> parameter_gradients(const at::Tensor& x, const at::Tensor& grad) const override {
    const auto shaped = [&](const at::Tensor& g) { return g.reshape(f_.sizes()).to(f_.scalar_type()); };
    if (levels_) return {shaped(levels_->table_gradient(x, grad, heads()))};
    const at::Tensor by_position = structure_->positions.from_nodes(x),
                     cotangent = structure_->positions.from_nodes(grad);
    at::Tensor gradient = structure_->far.table_gradient(by_position, cotangent, heads());
    const at::Tensor near = structure_->positions.near_dots(cotangent, by_position, heads());
    const int64_t entries = structure_->entries;
    const int64_t* index = structure_->near_index.const_data_ptr<int64_t>();
    for (int64_t h = 0; h < heads(); ++h) {
      const double* dot = near.const_data_ptr<double>() + h * near.size(1);
      double* to = gradient.mutable_data_ptr<double>() + h * entries;
      for (int64_t i = 0; i < near.size(1); ++i) {
        if (index[i] < entries) to[index[i]] += dot[i];
      }
    }
    return {shaped(gradient)};
  }

 private:
  // In elements read or written once (src/attention/cost_model.cpp).
  static constexpr double kLookupWork = 8, kScatterWork = 24;

  bool offers_sparse() const { return structure_->forest.structure().pair_count() <= kMaxSparseEntries; }

  /// [1 or H, K + 1], the last entry 0.
  static at::Tensor padded(const at::Tensor& f) {
    const at::Tensor rows = f.dim() == 2 ? f : f.unsqueeze(0);
    return at::cat({rows, at::zeros({rows.size(0), 1}, rows.options().requires_grad(false))}, 1);
  }

  std::shared_ptr<const TableStructure> structure_;
  at::Tensor f_;
  std::shared_ptr<const TableLevels> levels_;  // on a GPU
  mutable std::once_flag pairs_once_;
  mutable PatternPtr pairs_;  // where f is
  mutable at::Tensor pair_index_;
};

}  // namespace

MaskPtr make_table_mask(const Forest& forest, const at::Tensor& f) {
  return std::make_shared<TableMask>(std::make_shared<TableStructure>(forest, f.size(-1)), f);
}

}  // namespace topomask
