#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <vector>

#include "core/simd.h"
#include "ops/block_rows_kernel.h"

// What block_before and block_after share, the halves of a transformer block around attention on the CPU. Some rows at
// a time go through every step while they are in the cache: into new memory, as torch's operators write, the products
// of such shapes run at 55 GFLOP/s a core instead of 90, and what lies between them takes longer than they do. Python
// writes the autograd functions around the operators (topomask/block_rows.py).

namespace topomask::ops::block_rows {

using at::Tensor;

/// Rows at a time, and the most ranges of rows that add up gradients apart: fixed, so that sums do not depend on the
/// number of threads.
inline constexpr int64_t kRows = 512, kRanges = 16;

/// f(range, begin, end) for every range of rows, each by one thread; returns how many ranges there are.
inline int64_t range_count(int64_t rows) {
  return std::clamp<int64_t>((rows + kRows - 1) / kRows, 1, kRanges);
}
template <class F>
void for_ranges(int64_t rows, const F& f) {
  const int64_t chunks = (rows + kRows - 1) / kRows, ranges = range_count(rows);
  at::parallel_for(0, ranges, 1, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const int64_t begin = r * chunks / ranges, end = (r + 1) * chunks / ranges;
      f(r, begin * kRows, std::min(rows, end * kRows));
    }
  });
}

/// A matrix as products of a range take it: rounded where they are to be in bfloat16.
struct Weight {
  Weight(const Tensor& w, bool low) : whole(low ? w.detach().to(at::kBFloat16) : w.detach().contiguous()) {}
  Tensor whole;
};

/// Products over the rows of a chunk, into buffers of this range.
class Products {
 public:
  Products(const Tensor& like, bool low) : options_(like.options().requires_grad(false)), low_(low) {}

  Tensor buffer(int64_t width) const { return at::empty({kRows, width}, options_); }
  Tensor low_buffer(int64_t width) const {
    return low_ ? at::empty({kRows, width}, options_.dtype(at::kBFloat16)) : Tensor();
  }

  /// x as products take it, rounded into `buffer` where they are to be in bfloat16.
  Tensor operand(const Tensor& x, const Tensor& buffer) const {
    return low_ ? buffer.narrow(0, 0, x.size(0)).copy_(x) : x;
  }
  /// out = x·w, plus bias where it is defined.
  void multiply(Tensor out, const Tensor& x, const Tensor& w, const Tensor& bias = {}) const {
    if (low_) {
      out.copy_(at::mm(x, w));
      if (bias.defined()) out.add_(bias);
    } else if (bias.defined()) {
      at::addmm_out(out, bias, x, w);
    } else {
      at::mm_out(out, x, w);
    }
  }
  /// into += aᵀ·b
  void add_outer(Tensor into, const Tensor& a, const Tensor& b) const {
    if (low_) {
      into.add_(at::mm(a.t(), b));
    } else {
      into.addmm_(a.t(), b);
    }
  }

 private:
  at::TensorOptions options_;
  bool low_;
};

/// Tensors of gradients, one for every range; they add up in the order of ranges.
inline Tensor partial_sums(const Tensor& like) {
  return at::zeros_like(like.detach());
}

struct Norm {
  Tensor weight, bias;
  double eps;
  Tensor made, mean, deviation;  ///< of a chunk

  Norm(const Tensor& w, const Tensor& b, double e, const Products& products)
      : weight(w),
        bias(b),
        eps(e),
        made(products.buffer(w.size(0))),
        mean(products.buffer(1)),
        deviation(products.buffer(1)) {}

  template <class T>
  Tensor forward(const Tensor& x) {
    const NormArgs<T> args{x.const_data_ptr<T>(),
                           weight.const_data_ptr<T>(),
                           bias.const_data_ptr<T>(),
                           made.mutable_data_ptr<T>(),
                           mean.mutable_data_ptr<T>(),
                           deviation.mutable_data_ptr<T>(),
                           x.size(1),
                           static_cast<T>(eps)};
    norm_rows(args, 0, x.size(0));
    return made.narrow(0, 0, x.size(0));
  }

  template <class T>
  void backward(const Tensor& dn, const Tensor& x, const T* also, T* dx, const Tensor& dweight, const Tensor& dbias) {
    const NormBackwardArgs<T> args{dn.const_data_ptr<T>(),
                                   x.const_data_ptr<T>(),
                                   weight.const_data_ptr<T>(),
                                   mean.const_data_ptr<T>(),
                                   deviation.const_data_ptr<T>(),
                                   also,
                                   dx,
                                   dweight.mutable_data_ptr<T>(),
                                   dbias.mutable_data_ptr<T>(),
                                   x.size(1)};
    norm_backward_rows(args, 0, x.size(0));
  }
};

template <class T>
void add_columns(const Tensor& rows, const Tensor& sums) {
  sum_rows(SumArgs<T>{rows.const_data_ptr<T>(), sums.mutable_data_ptr<T>(), rows.size(1)}, 0, rows.size(0));
}

/// Results of ranges, for each of some tensors.
class Gradients {
 public:
  Gradients(int64_t ranges, std::initializer_list<Tensor> like) : ranges_(ranges) {
    for (int64_t r = 0; r < ranges; ++r) {
      for (const Tensor& t : like) all_.push_back(partial_sums(t));
    }
    each_ = static_cast<int64_t>(like.size());
  }
  const Tensor& at(int64_t range, int64_t which) const { return all_[range * each_ + which]; }
  Tensor sum(int64_t which) const {
    Tensor total = all_[which];
    for (int64_t r = 1; r < ranges_; ++r) total.add_(all_[r * each_ + which]);
    return total;
  }

 private:
  int64_t ranges_, each_ = 0;
  std::vector<Tensor> all_;
};

}  // namespace topomask::ops::block_rows
