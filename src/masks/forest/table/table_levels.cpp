#include "masks/forest/table/table_levels.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "core/plain_ops.h"
#include "masks/forest/structure/near_pattern.h"
#include "masks/forest/structure/per_device.h"
#include "masks/forest/table/hankel_fft.h"
#include "ops/tree_table/op.h"
#include "sparse/sddmm.h"

namespace topomask {
namespace {

using at::Tensor;

/// Rows of more items are summed in parts: one warp takes a part.
constexpr int64_t kLongestRow = 256;
constexpr int64_t kTileBins = 8;  // cuda::kHankelBins
/// Transforms move each of their places so often that as many multiply-adds are faster, and take memory for it.
constexpr double kPlaceWork = 256, kMostPlaces = 8;

}  // namespace

/// Collects what meets on one level, on the CPU.
class TableLevels::Builder {
 public:
  Builder(int64_t nodes, int64_t entries) : place_(nodes, -1), entries_(entries) {}

  int64_t rows() const { return static_cast<int64_t>(depth_.size()); }
  void place(int32_t node, int64_t row) { place_[node] = static_cast<int32_t>(row); }

  /// Appends bins at the given depths, ascending, that meet each other.
  void add_meeting(const int32_t* depth, int64_t count) {
    const int64_t first = rows();
    depth_.insert(depth_.end(), depth, depth + count);
    const int64_t within = std::lower_bound(depth, depth + count, entries_) - depth;
    int64_t by_transform = 0;
    if (within > 0) {
      const int64_t length = hankel_fft_length(depth[within - 1]);
      const double bins = static_cast<double>(within), places = static_cast<double>(length);
      if (bins * bins > kPlaceWork * places && places <= kMostPlaces * bins) {
        by_transform = within;
        Transformed& all = transformed_[length];
        for (int64_t i = 0; i < within; ++i) {
          all.rows.push_back(first + i);
          all.slots.push_back(all.meetings * length + depth[i]);
        }
        ++all.meetings;
      }
    }
    int64_t met = by_transform > 0 ? 0 : within;
    for (int64_t begin = by_transform; begin < count; begin += kTileBins) {
      // The shallowest of the tile meets the most.
      while (met > 0 && int64_t{depth[begin]} + depth[met - 1] >= entries_) --met;
      for (const int64_t value : {first + begin, std::min(kTileBins, count - begin), first, first + met}) {
        tiles_.push_back(static_cast<int32_t>(value));
      }
    }
  }

  /// row_of: the row of each item that is summed, or −1.
  Meetings finish(const std::vector<int32_t>& row_of, double sign, at::Device device) const {
    Meetings result{.place = on_device(place_, device),
                    .depth = on_device(depth_, device),
                    .tiles = on_device(tiles_, device).view({-1, 4}),
                    .sign = sign};
    std::vector<int64_t> offsets(rows() + 1, 0);
    for (const int32_t row : row_of) {
      if (row >= 0) ++offsets[row + 1];
    }
    std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
    std::vector<int64_t> next(offsets.begin(), offsets.end() - 1);
    std::vector<int32_t> items(offsets.back());
    for (size_t i = 0; i < row_of.size(); ++i) {
      if (row_of[i] >= 0) items[next[row_of[i]]++] = static_cast<int32_t>(i);
    }
    while (shorten(offsets, items, result.sums, device)) {
    }
    result.sums.push_back({on_device(offsets, device), on_device(items, device)});
    for (const auto& [length, all] : transformed_) {
      result.transforms.push_back({length, all.meetings, on_device(all.rows, device), on_device(all.slots, device)});
    }
    return result;
  }

  const std::vector<int32_t>& places() const { return place_; }

 private:
  struct Transformed {
    std::vector<int64_t> rows, slots;
    int64_t meetings = 0;
  };

  /// Where rows are long, adds sums over parts of them, and leaves the sums over these parts.
  static bool shorten(std::vector<int64_t>& offsets, std::vector<int32_t>& items, std::vector<RowSums>& sums,
                      at::Device device) {
    std::vector<int64_t> parts, left{0};
    for (size_t row = 0; row + 1 < offsets.size(); ++row) {
      for (int64_t e = offsets[row]; e < offsets[row + 1]; e += kLongestRow) parts.push_back(e);
      left.push_back(static_cast<int64_t>(parts.size()));
    }
    const bool fits =
        std::adjacent_find(left.begin(), left.end(), [](int64_t a, int64_t b) { return b - a > 1; }) == left.end();
    if (fits) return false;
    parts.push_back(offsets.back());
    sums.push_back({on_device(parts, device), on_device(items, device)});
    items.resize(parts.size() - 1);
    std::iota(items.begin(), items.end(), 0);
    offsets = std::move(left);
    return true;
  }

  std::vector<int32_t> place_, depth_, tiles_;
  std::map<int64_t, Transformed> transformed_;
  int64_t entries_;
};

TableLevels::TableLevels(const Decomposition& decomposition, const Bins& bins, int64_t entries,
                         const Tensor& near_index, at::Device device)
    : entries_(entries) {
  const auto nodes = static_cast<int64_t>(decomposition.order.size());
  const auto count = static_cast<int64_t>(decomposition.components.size());
  std::map<int32_t, std::vector<int64_t>> by_level;
  for (int64_t c = 0; c < count; ++c) by_level[decomposition.components[c].level].push_back(c);
  for (const auto& [level, components] : by_level) {
    Builder groups(nodes, entries), wholes(nodes, entries);
    std::vector<int32_t> whole_of;  // per bin of a group
    for (const int64_t c : components) {
      const Component& component = decomposition.components[c];
      const int64_t first = bins.first[c], own = groups.rows(), all = wholes.rows();
      for (int32_t i = 0; i < component.size; ++i) {
        const int32_t node = decomposition.order[component.first + i], bin = bins.bin[component.entry + i];
        groups.place(node, own + bin);
        wholes.place(node, all + bins.total[first + bin]);
      }
      for (int64_t b = first; b < bins.first[c + 1]; ++b) {
        whole_of.push_back(static_cast<int32_t>(all + bins.total[b]));
      }
      for (int64_t g = component.groups_begin; g < component.groups_begin + component.groups; ++g) {
        groups.add_meeting(bins.depth.data() + first + bins.group_first[g],
                           bins.group_first[g + 1] - bins.group_first[g]);
      }
      wholes.add_meeting(bins.total_depth.data() + bins.total_first[c], bins.total_first[c + 1] - bins.total_first[c]);
    }
    levels_.push_back({groups.finish(groups.places(), -1.0, device), wholes.finish(whole_of, 1.0, device)});
  }

  const NearPattern near(decomposition);
  near_ = near.pattern->to(device);
  near_index_ = near_index.index_select(0, near.index).to(device, at::kInt);
}

namespace {

/// The sums in the bins, from the rows that are summed.
template <class Stages>
Tensor summed(const Stages& stages, Tensor x) {
  for (const auto& stage : stages) x = ops::tree_table::row_sums(x, stage.offsets, stage.items);
  return x;
}

/// The spectra of some bins, [B, H, meetings, length/2 + 1, C].
template <class Transforms>
Tensor transformed(const Transforms& t, const Tensor& bins) {
  const int64_t batch = bins.size(0), heads = bins.size(1), columns = bins.size(3);
  Tensor places = at::zeros({batch, heads, t.meetings * t.length, columns}, bins.options());
  places.index_copy_(2, t.slots, bins.index_select(2, t.rows));
  return at::fft_rfft(places.view({batch, heads, t.meetings, t.length, columns}), std::nullopt, 3);
}

}  // namespace

Tensor TableLevels::hankel(const Meetings& meetings, const Tensor& table, const Tensor& sums) const {
  const Tensor result = ops::tree_table::hankel(table, sums, meetings.depth, meetings.tiles);
  for (const Transforms& t : meetings.transforms) {
    // Σ_t f[s+t] a[t] is a correlation.
    const Tensor spectrum = at::fft_rfft(table.slice(1, 0, t.length), t.length).view({1, table.size(0), 1, -1, 1});
    const Tensor places = at::fft_irfft(transformed(t, sums).conj() * spectrum, t.length, 3).flatten(2, 3);
    result.index_copy_(2, t.rows, places.index_select(2, t.slots));
  }
  return result;
}

void TableLevels::add_gradient(const Meetings& meetings, const Tensor& g, const Tensor& x,
                               const Tensor& gradient) const {
  ops::tree_table::add_hankel_gradient(gradient, g, x, meetings.depth, meetings.tiles, meetings.sign);
  for (const Transforms& t : meetings.transforms) {
    const Tensor product = (transformed(t, g) * transformed(t, x)).sum(at::IntArrayRef{0, 2, 4});
    const Tensor per_head = gradient.size(0) == 1 ? product.sum(0, true) : product;
    const int64_t reached = std::min(entries_, t.length);
    gradient.narrow(1, 0, reached)
        .add_(at::fft_irfft(per_head, t.length).narrow(1, 0, reached).to(at::kDouble), meetings.sign);
  }
}

Tensor TableLevels::products(const Tensor& table, const Tensor& x) const {
  const PlainOps plain;
  const Tensor values = table.index_select(1, near_index_);
  const Tensor y = matmul(SparseMatrix{near_, values.size(0) == 1 ? values[0] : values}, x);
  for (const Level& level : levels_) {
    const Tensor groups = summed(level.groups.sums, x), components = summed(level.components.sums, groups);
    ops::tree_table::spread(y, hankel(level.components, table, components), level.components.place,
                            level.components.sign);
    ops::tree_table::spread(y, hankel(level.groups, table, groups), level.groups.place, level.groups.sign);
  }
  return y;
}

Tensor TableLevels::table_gradient(const Tensor& x, const Tensor& g, int64_t heads) const {
  const PlainOps plain;
  Tensor gradient = at::zeros({heads, entries_ + 1}, x.options().dtype(at::kDouble));
  gradient.index_add_(1, near_index_, sddmm(g, x, *near_, heads).to(at::kDouble));
  for (const Level& level : levels_) {
    const Tensor x_groups = summed(level.groups.sums, x), g_groups = summed(level.groups.sums, g);
    add_gradient(level.groups, g_groups, x_groups, gradient);
    add_gradient(level.components, summed(level.components.sums, g_groups), summed(level.components.sums, x_groups),
                 gradient);
  }
  return gradient.narrow(1, 0, entries_);
}

}  // namespace topomask
