#include "masks/forest/table/table_products.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include "masks/forest/structure/component_loop.h"
#include "masks/forest/table/table_kernel.h"

namespace topomask {
namespace {

// So many columns of the nodes of a task, and their bins, fit a core's cache.
constexpr int64_t kPartColumns = 64, kTaskNodes = 2048;

}  // namespace

std::span<const int32_t> TableProducts::Meeting::within(int64_t entries) const {
  return {depth, static_cast<size_t>(std::lower_bound(depth, depth + count, entries) - depth)};
}

template <class Visit>
void TableProducts::for_meetings(int64_t component, const Visit& visit) const {
  const Component& c = decomposition_.components[component];
  const int64_t first = bins_.first[component], totals = bins_.total_first[component];
  visit(Meeting{bins_.total_depth.data() + totals, bins_.total_first[component + 1] - totals,
                bins_.first[component + 1] - first, true});
  for (int64_t g = c.groups_begin; g < c.groups_begin + c.groups; ++g) {
    const int64_t own = bins_.group_first[g];
    visit(Meeting{bins_.depth.data() + first + own, bins_.group_first[g + 1] - own, own, false});
  }
}

double TableProducts::pairs(const Meeting& meeting) const {
  const auto depth = meeting.within(entries_);
  if (depth.empty()) return 0;
  if (2 * int64_t{depth.back()} < entries_)
    return static_cast<double>(depth.size()) * static_cast<double>(depth.size());
  double count = 0;
  size_t reach = depth.size();
  for (const int32_t d : depth) {
    while (reach > 0 && d + depth[reach - 1] >= entries_) --reach;
    count += static_cast<double>(reach);
  }
  return count;
}

bool TableProducts::by_fft(const Meeting& meeting) const {
  const auto depth = meeting.within(entries_);
  return !depth.empty() && fft_is_faster(pairs(meeting), depth.back());
}

int64_t TableProducts::rows(int64_t component) const {
  return bins_.first[component + 1] - bins_.first[component] + bins_.total_first[component + 1] -
         bins_.total_first[component];
}

TableProducts::TableProducts(const Decomposition& decomposition, const Bins& bins, int64_t entries)
    : decomposition_(decomposition), bins_(bins), entries_(entries) {
  const auto components = static_cast<int64_t>(decomposition.components.size());
  tall_.resize(components);
  for (int64_t c = 0; c < components; ++c) {
    // Sums and spreading move each row once; the products come on top.
    work_ += 3.0 * decomposition.components[c].size + 2.0 * static_cast<double>(rows(c));
    for_meetings(c, [&](const Meeting& meeting) {
      const bool fft = by_fft(meeting);
      if (fft) tall_[c] = true;
      work_ += fft ? fft_work(meeting.within(entries_).back()) : pairs(meeting);
    });
  }
  schedule_ = make_schedule(decomposition, kTaskNodes, tall_);
}

/// The arguments of the kernels for one part of the columns, and their buffers.
template <class T>
struct TableProducts::Kernel {
  Kernel(const TableProducts& products, const at::Tensor& x, const ColumnPart& part)
      : args{.components = products.decomposition_.components.data(),
             .groups = products.decomposition_.groups.data(),
             .bin = products.bins_.bin.data(),
             .depth = products.bins_.depth.data(),
             .total = products.bins_.total.data(),
             .total_depth = products.bins_.total_depth.data(),
             .first = products.bins_.first.data(),
             .total_first = products.bins_.total_first.data(),
             .group_first = products.bins_.group_first.data(),
             .table = nullptr,
             .entries = products.entries_,
             .x = x.const_data_ptr<T>() + part.slice * x.size(2) * x.size(3) + part.first,
             .y = nullptr,
             .stride = x.size(3),
             .width = part.width,
             .pitch = part.pitch(),
             .sums = nullptr,
             .products = nullptr} {}

  void write_to(const at::Tensor& y, const ColumnPart& part) {
    args.y = y.mutable_data_ptr<T>() + part.slice * y.size(2) * y.size(3) + part.first;
  }

  TableArgs<T> args;
};

void TableProducts::add_products(const at::Tensor& table, const at::Tensor& x, const at::Tensor& y) const {
  const int64_t heads = table.size(0);
  const ColumnParts parts(x.size(0) * x.size(1), x.size(3), kPartColumns);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "table_products", [&] {
    // Tall components first: they use torch, which has its own threads. Sums commute.
    std::vector<HankelFft> ffts;
    for (int64_t h = 0; h < heads; ++h) ffts.emplace_back(table[h]);
    for (int64_t c = 0; c < static_cast<int64_t>(tall_.size()); ++c) {
      if (tall_[c]) add_tall<scalar_t>(x, y, table, ffts, c);
    }
    for_components(schedule_, parts, [&](const ColumnPart& part, int64_t begin, int64_t end) {
      if (tall_[begin]) return;
      int64_t most = 0;
      for (int64_t c = begin; c < end; ++c) most = std::max(most, rows(c));
      const int64_t scalars = most * part.pitch();
      const auto buffer = std::make_unique_for_overwrite<scalar_t[]>(2 * scalars);
      Kernel<scalar_t> kernel(*this, x, part);
      kernel.write_to(y, part);
      kernel.args.table = table.const_data_ptr<scalar_t>() + part.slice % heads * entries_;
      kernel.args.sums = buffer.get();
      kernel.args.products = buffer.get() + scalars;
      table_components(kernel.args, begin, end);
    });
  });
}

template <class T>
void TableProducts::add_tall(const at::Tensor& x, const at::Tensor& y, const at::Tensor& table,
                             std::vector<HankelFft>& ffts, int64_t component) const {
  const ColumnParts parts(x.size(0) * x.size(1), x.size(3), kPartColumns);
  for (int64_t i = 0; i < parts.count(); ++i) {
    const ColumnPart part = parts[i];
    const int64_t head = part.slice % table.size(0);
    const at::Tensor sums = at::empty({rows(component), part.pitch()}, x.options()), products = at::zeros_like(sums);
    Kernel<T> kernel(*this, x, part);
    kernel.write_to(y, part);
    kernel.args.sums = sums.mutable_data_ptr<T>();
    kernel.args.products = products.mutable_data_ptr<T>();
    bin_sums(kernel.args, component, component + 1);
    for_meetings(component, [&](const Meeting& meeting) {
      const auto depth = meeting.within(entries_);
      const auto count = static_cast<int64_t>(depth.size());
      if (by_fft(meeting)) {
        const auto rows_of = [&](const at::Tensor& all) {
          return all.narrow(0, meeting.first_row, count).narrow(1, 0, part.width);
        };
        ffts[head].multiply(depth, rows_of(sums), rows_of(products));
        return;
      }
      const HankelArgs<T> args{meeting.depth,
                               count,
                               table.const_data_ptr<T>() + head * entries_,
                               entries_,
                               kernel.args.sums + meeting.first_row * part.pitch(),
                               kernel.args.products + meeting.first_row * part.pitch(),
                               part.pitch()};
      at::parallel_for(0, (count + kHankelBins - 1) / kHankelBins,
                       std::max<int64_t>(1, 32768 / (kHankelBins * count * part.pitch() + 1)),
                       [&](int64_t begin, int64_t end) {
                         hankel_rows(args, kHankelBins * begin, std::min(kHankelBins * end, count));
                       });
    });
    spread_products(kernel.args, component, component + 1);
  }
}

template <class T>
void TableProducts::add_gradient(int64_t component, const at::Tensor& x, const at::Tensor& g, int64_t slice,
                                 bool with_fft, std::vector<T>& buffer, double* gradient) const {
  const ColumnParts parts(1, x.size(3), kPartColumns);
  for (int64_t i = 0; i < parts.count(); ++i) {
    const ColumnPart part{slice, parts[i].first, parts[i].width};
    const int64_t pitch = part.pitch(), count = rows(component) * pitch;
    buffer.resize(2 * count);
    for (const bool cotangent : {false, true}) {
      Kernel<T> kernel(*this, cotangent ? g : x, part);
      kernel.args.sums = buffer.data() + (cotangent ? count : 0);
      bin_sums(kernel.args, component, component + 1);
    }
    for_meetings(component, [&](const Meeting& meeting) {
      const double sign = meeting.total ? 1.0 : -1.0;
      T* x_sums = buffer.data() + meeting.first_row * pitch;
      T* g_sums = x_sums + count;
      const auto depth = meeting.within(entries_);
      const auto bins = static_cast<int64_t>(depth.size());
      if (with_fft && by_fft(meeting)) {
        const auto as_rows = [&](T* all) {
          return at::from_blob(all, {bins, pitch}, x.options()).narrow(1, 0, part.width);
        };
        const at::Tensor sums = hankel_fft_gradient(depth, as_rows(g_sums), as_rows(x_sums));
        const int64_t reached = std::min(entries_, sums.size(0));
        for (int64_t k = 0; k < reached; ++k) gradient[k] += sign * sums.const_data_ptr<double>()[k];
        return;
      }
      hankel_gradient(HankelGradientArgs<T>{meeting.depth, bins, entries_, g_sums, x_sums, pitch, sign, gradient}, 0,
                      bins);
    });
  }
}

at::Tensor TableProducts::table_gradient(const at::Tensor& x, const at::Tensor& g, int64_t heads) const {
  // As many partial sums as there are chunks, whatever the number of threads.
  constexpr int64_t kChunks = 16;
  const auto components = static_cast<int64_t>(tall_.size());
  const int64_t slices = x.size(0) * x.size(1);
  int64_t deepest = 0;
  for (int64_t c = 0; c < components; ++c) {
    if (!tall_[c]) deepest = std::max<int64_t>(deepest, bins_.total_depth[bins_.total_first[c + 1] - 1]);
  }
  const int64_t reach = std::min(entries_, 2 * deepest + 1);
  at::Tensor partial = at::zeros({kChunks, heads, reach}, at::kDouble),
             result = at::zeros({heads, entries_}, at::kDouble);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "table_gradient", [&] {
    at::parallel_for(0, kChunks, 1, [&](int64_t begin, int64_t end) {
      std::vector<scalar_t> buffer;
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        for (int64_t c = chunk; c < components; c += kChunks) {
          if (tall_[c]) continue;
          for (int64_t s = 0; s < slices; ++s) {
            add_gradient<scalar_t>(c, x, g, s, false, buffer,
                                   partial.mutable_data_ptr<double>() + (chunk * heads + s % heads) * reach);
          }
        }
      }
    });
    std::vector<scalar_t> buffer;
    for (int64_t c = 0; c < components; ++c) {
      for (int64_t s = 0; tall_[c] && s < slices; ++s) {
        add_gradient<scalar_t>(c, x, g, s, true, buffer, result.mutable_data_ptr<double>() + s % heads * entries_);
      }
    }
  });
  for (int64_t chunk = 0; chunk < kChunks; ++chunk) result.narrow(1, 0, reach).add_(partial[chunk]);
  return result;
}

}  // namespace topomask
