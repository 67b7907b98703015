#include "masks/toeplitz/grid_fft.h"

#include <ATen/ATen.h>

#include <limits>

#include "core/library_tasks.h"
#include "core/recycled.h"

namespace topomask {
namespace {

/// Grid axes and their transform sizes. A block of columns is laid out [n₁, …, n_{d−1}, columns, n_d]: the transforms
/// along the first and the last axis then run over memory as it lies.
class GridFft {
 public:
  explicit GridFft(const std::vector<int64_t>& dims) : dims_(dims), axes_(static_cast<int64_t>(dims.size())) {
    for (int64_t n : dims_) sizes_.push_back(fast_fft_size(2 * n - 1));
  }

  int64_t points() const { return c10::multiply_integers(sizes_); }

  /// [N, C] as a block.
  at::Tensor block(const at::Tensor& x) const { return x.unflatten(0, dims_).transpose(-1, -2); }

  /// The transform of a block padded with zeros. Axis by axis, so that no line of zeros is transformed.
  at::Tensor forward(const at::Tensor& block) const {
    if (is_alone(block)) return forward(at::cat({block, block}, -2)).narrow(-2, 0, 1);
    at::Tensor z = at::fft_rfft(block, sizes_.back(), -1);
    for (int64_t axis = axes_ - 2; axis >= 0; --axis) z = at::fft_fft(z, sizes_[axis], axis);
    return z;
  }

  /// The inverse, indices first … first+count−1 of each axis; lines outside are dropped as soon as they are known.
  at::Tensor inverse(at::Tensor z, const std::vector<int64_t>& first, const std::vector<int64_t>& count) const {
    if (is_alone(z)) return inverse(at::cat({z, z}, -2), first, count).narrow(-2, 0, 1);
    for (int64_t axis = 0; axis + 1 < axes_; ++axis) {
      z = at::fft_ifft(z, std::nullopt, axis).narrow(axis, first[axis], count[axis]);
    }
    return at::fft_irfft(z, sizes_.back(), -1).narrow(-1, first.back(), count.back());
  }

  /// [2n₁−1, …, 2n_d−1] → its transform as a block of one column.
  at::Tensor spectrum(const at::Tensor& g) const { return forward(g.unsqueeze(-2)); }

 private:
  /// MKL plans a single long transform for the threads that it may use, and rounds by the plan, even where it gets one;
  /// of several it gives whole ones to a thread. Two of the same therefore do not depend on the number of threads, even
  /// where OneLibraryThread does not reach the library.
  static bool is_alone(const at::Tensor& block) { return block.is_cpu() && block.size(-2) == 1; }

  std::vector<int64_t> dims_, sizes_;
  int64_t axes_;
};

/// Columns [first, first + count) of slice (b, h), as many as keep a block in a core's cache and leave some to every
/// core.
struct Block {
  int64_t slice, first, count;
};

/// On a GPU as many as keep it busy.
std::vector<Block> blocks_of(const at::Tensor& x, const GridFft& fft) {
  const int64_t points = int64_t{1} << (x.is_cpu() ? 18 : 26), most = x.is_cpu() ? 64 : 1024;
  const int64_t columns = x.size(-1), slices = x.size(0) * x.size(1);
  constexpr int64_t kCores = 8;
  const int64_t share = x.is_cpu() ? (slices * columns + kCores - 1) / kCores : most;
  const int64_t count = std::clamp<int64_t>(points / fft.points(), 1, std::clamp<int64_t>(share, 1, most));
  std::vector<Block> blocks;
  for (int64_t slice = 0; slice < slices; ++slice) {
    for (int64_t first = 0; first < columns; first += count) {
      blocks.push_back({slice, first, std::min(count, columns - first)});
    }
  }
  return blocks;
}

/// f(begin, end) over all tasks: on the threads of a CPU, in order where the work is a GPU's.
template <class F>
void for_tasks(const at::Tensor& x, int64_t tasks, int64_t grain, const F& f) {
  if (x.is_cpu()) {
    for_library_tasks(tasks, grain, f);
  } else {
    const PlainOps plain;
    f(0, tasks);
  }
}

}  // namespace

at::Tensor fft_product(const at::Tensor& g, const at::Tensor& x, const std::vector<int64_t>& dims) {
  const at::Tensor y = recycled_empty(x.sizes(), x.options());
  if (x.numel() == 0) return y;
  const GridFft fft(dims);
  std::vector<int64_t> first = dims;
  for (int64_t& n : first) --n;
  std::vector<at::Tensor> spectra(g.size(0));
  for_tasks(x, g.size(0), 1, [&](int64_t begin, int64_t end) {
    for (int64_t h = begin; h < end; ++h) spectra[h] = fft.spectrum(g[h]);
  });
  const at::Tensor sources = x.flatten(0, 1), targets = y.flatten(0, 1);
  const std::vector<Block> blocks = blocks_of(x, fft);
  const int64_t grain = std::max<int64_t>(1, 8192 / (blocks[0].count * fft.points()));  // blocks worth a thread
  for_tasks(x, std::ssize(blocks), grain, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const Block& block = blocks[b];
      const auto columns = [&](const at::Tensor& nodes) {
        return fft.block(nodes.select(0, block.slice).narrow(-1, block.first, block.count));
      };
      at::Tensor z = fft.forward(columns(sources)).mul_(spectra[block.slice % g.size(0)]);
      columns(targets).copy_(fft.inverse(std::move(z), first, dims));
    }
  });
  return y;
}

at::Tensor fft_offset_gradient(const at::Tensor& grad, const at::Tensor& x, const std::vector<int64_t>& dims) {
  std::vector<int64_t> shape, start(dims.size(), 0);
  for (int64_t n : dims) shape.push_back(std::max<int64_t>(0, 2 * n - 1));
  std::vector<int64_t> result_shape = shape;
  result_shape.insert(result_shape.begin(), x.size(1));
  if (x.numel() == 0) return at::zeros(result_shape, x.options());
  const GridFft fft(dims);
  const int64_t heads = x.size(1);
  const at::Tensor left = grad.flatten(0, 1), right = x.flip(2).flatten(0, 1);
  const std::vector<Block> blocks = blocks_of(x, fft);
  // A fixed number of sums, each over its blocks in order: the same result for any number of threads.
  const int64_t parts = std::min<int64_t>(8, std::ssize(blocks));
  std::vector<std::vector<at::Tensor>> sums(parts, std::vector<at::Tensor>(heads));
  for_tasks(x, parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) {
      for (int64_t b = s; b < std::ssize(blocks); b += parts) {
        const Block& block = blocks[b];
        const auto spectrum = [&](const at::Tensor& nodes) {
          return fft.forward(fft.block(nodes.select(0, block.slice).narrow(-1, block.first, block.count)));
        };
        const at::Tensor product = spectrum(left).mul_(spectrum(right)).sum(-2, true);
        at::Tensor& sum = sums[s][block.slice % heads];
        sum = sum.defined() ? sum.add_(product) : product;
      }
    }
  });
  std::vector<at::Tensor> gradients(heads);
  for_tasks(x, heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t h = begin; h < end; ++h) {
      at::Tensor total;
      for (const auto& sum : sums) {
        if (sum[h].defined()) total = total.defined() ? total.add_(sum[h]) : sum[h];
      }
      gradients[h] = fft.inverse(total, start, shape).squeeze(-2);
    }
  });
  return at::stack(gradients);
}

int64_t fast_fft_size(int64_t n) {
  // Time per point and factor 2, 3, 5, 7: a pass by an odd factor moves as much data and computes more.
  constexpr double kTwo = 1, kThree = 1.9, kFive = 3.3, kSeven = 5;
  int64_t best = 1;
  double least = std::numeric_limits<double>::infinity(), sevens = 0;
  for (int64_t seven = 1; seven < 2 * n; seven *= 7, sevens += kSeven) {
    double fives = sevens;
    for (int64_t five = seven; five < 2 * n; five *= 5, fives += kFive) {
      double threes = fives;
      for (int64_t three = five; three < 2 * n; three *= 3, threes += kThree) {
        int64_t size = three;
        double passes = threes;
        for (; size < n; size *= 2) passes += kTwo;
        if (static_cast<double>(size) * passes >= least) continue;
        least = static_cast<double>(size) * passes;
        best = size;
      }
    }
  }
  return best;
}

double fft_work(const std::vector<int64_t>& dims) {
  const auto points = static_cast<double>(GridFft(dims).points());
  return 3.5 * points * std::log2(points + 1);
}

}  // namespace topomask
